"""The calls of a run: what is asked, answered and paid for.

    waiting ──▶ in flight ──┬──▶ answered       never asked again
    ▲             │         └──▶ failed ──┐
    ├─ withdrawn ─┘                       │
    └──────────── asked again ◀───────────┘

The answer itself makes its call an answered one: a trigger of the schema.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable

from earmark.captioning.answer_schema import activity_of
from earmark.captioning.dispatch import Tally
from earmark.captioning.request import TAGS_MODEL, Answer, Request
from earmark.errors import RunError
from earmark.media.source import storable_text
from earmark.run.database import RunDatabase, as_text, now, number_of
from earmark.timeline import Span

MOST_TOKENS = 1 << 40

SPENT = """
SELECT (SELECT coalesce(sum(asked), 0) FROM calls) + coalesce((
        SELECT json_extract(value, '$[0]') FROM notes WHERE name = 'unlisted'), 0),
    coalesce(sum(tokens), 0), total(spend)
FROM (
    SELECT coalesce(prompt_tokens + completion_tokens, reserve_tokens) AS tokens, spend
    FROM answers JOIN calls ON id = call WHERE kind = 'caption'
    UNION ALL SELECT prompt_tokens + completion_tokens, spend FROM failures
    UNION ALL SELECT interrupted * reserve_tokens, interrupted * reserve_spend
    FROM calls WHERE interrupted > 0
    UNION ALL SELECT json_extract(value, '$[1]'), json_extract(value, '$[2]')
    FROM notes WHERE name = 'unlisted')
"""
"""Calls without a row are included: see `count_unlisted`."""

_STATE = "SELECT id, state FROM calls WHERE identity = ?"

_CAPTIONED = """
SELECT id, state FROM calls JOIN answers ON call = id
WHERE kind = 'caption' AND recording = ? AND "start" = ? AND "end" = ?
    AND (json_type(data, '$.seen') IS NULL OR text NOT GLOB 'Yes.*' AND text NOT GLOB 'No.*')
ORDER BY at DESC LIMIT 1
"""
"""The call by which a model last described a span; an answer to `find` says whether one thing is
seen, and describes nothing.
"""


class RunCalls(RunDatabase):
    def unanswered(self, calls: Iterable[Request]) -> list[Request]:
        """In order, failed ones among them; each becomes the call that its pick is shown with."""
        calls = list(calls)
        with self.writing() as database:
            states = [self._register(database, call, call.identity) for call in calls]
        return [call for call, state in zip(calls, states, strict=True) if state != "answered"]

    def answered(self, recording: str) -> dict[str, Span]:
        rows = self.rows(
            'SELECT identity, "start", "end" FROM calls'
            " JOIN recordings ON number = recording JOIN answers ON call = calls.id"
            " WHERE recordings.id = ? AND kind = 'caption' ORDER BY 2, 3",
            recording,
        )
        return {identity: Span(start, end) for identity, start, end in rows}

    def answered_identities(self) -> set[str]:
        return self._values("SELECT identity FROM calls WHERE state = 'answered'")

    def activities(self, recording: str) -> dict[str, str | None]:
        """By identity; empty if nothing is being done, None if the answer does not say."""
        rows = self.rows(
            "SELECT identity, data FROM calls JOIN recordings ON number = recording"
            " JOIN answers ON call = calls.id WHERE recordings.id = ? AND kind = 'caption'",
            recording,
        )
        return {identity: activity_of(json.loads(data or "null")) for identity, data in rows}

    def last_model(self) -> str:
        row = self._row(
            "SELECT calls.model FROM answers JOIN calls ON id = call WHERE kind = 'caption'"
            " ORDER BY at DESC LIMIT 1"
        )
        return str(row[0]) if row else ""

    def spent(self) -> Tally:
        """What all calls of this run have cost, under any plan, repeated ones each time.

        A call whose cost is unknown counts as the most it can have cost.
        """
        calls, tokens, spend = self._row(SPENT)
        return Tally(calls_before=calls, tokens_before=tokens, spend_before=spend)

    def begin(self, call: Request, *, reserve: tuple[int, float] = (0, 0.0)) -> None:
        """Record that `call` is about to be sent, once; it must not be sent before.

        The `reserve` is the most tokens and money it can cost, counted if the server reports none.
        A `RunError` says that there is no room to store its answer.
        """
        if self._is_full:
            raise RunError(
                f"no room left for the run in {self.folder}: free some space and run it again"
            )
        identity = call.identity
        begin = (
            "UPDATE calls SET state = iif(state = 'answered', state, 'in flight'),"
            " asked = asked + 1, reserve_tokens = ?, reserve_spend = ? WHERE identity = ?"
        )
        with self.writing() as database:
            if not database.execute(begin, (*reserve, identity)).rowcount:
                self._register(database, call, identity)
                database.execute(begin, (*reserve, identity))

    def uncount(self, call: Request) -> None:
        """The last attempt at `call` did not reach the server."""
        uncount = "UPDATE calls SET asked = asked - 1 WHERE identity = ? AND state = 'in flight'"
        self._write_durably(lambda database: database.execute(uncount, (call.identity,)))

    def withdraw(self, call: Request) -> None:
        """Attempts that were made still count."""
        withdraw = "UPDATE calls SET state = 'waiting' WHERE identity = ? AND state = 'in flight'"
        self._write_durably(lambda database: database.execute(withdraw, (call.identity,)))

    def keep(self, call: Request, answer: Answer, *, spend: float = 0.0) -> None:
        """Store the answer to `call` and its cost; the call is never made again.

        Impossible counts and amounts (NaN, negative, infinite) count as the most possible. When the
        disk is full, the reserve makes room for answers still in flight, and `begin` refuses new
        calls. An answer that is stored already stays.
        """
        counts = (answer.prompt_tokens, answer.completion_tokens)
        is_odd = any(count is not None and _as_count(count) is None for count in counts)
        cost = None if is_odd else _as_amount(spend)

        def write(database: sqlite3.Connection) -> None:
            number = _call_number(database, call)
            # Tags ask no model: they are stored like an answer, and count neither as a call nor as
            # an interrupted one. A batch is answered without `begin`.
            database.execute(
                "UPDATE calls SET asked = max(asked, 1) * ?1, interrupted = interrupted * ?1"
                " WHERE id = ?2",
                (answer.kind == "caption", number),
            )
            database.execute(  # which makes the call an answered one
                "INSERT INTO answers"
                " SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, reserve_spend), ?"
                " FROM calls WHERE id = ? ON CONFLICT (call) DO NOTHING",
                (number, *_answer_values(answer), cost, now(), number),
            )

        self._write_durably(write)

    def fail(
        self,
        call: Request,
        reason: str,
        *,
        was_sent: bool | None = True,
        tokens: tuple[int, int] = (0, 0),
        spend: float = 0.0,
    ) -> None:
        """Record that `call` failed, with the reason in one line; it may be made again.

        `was_sent` is False if it was never sent, and None if it is still in flight, so that only
        the cost of one attempt is recorded. `tokens` in and out and `spend` are paid all the same.
        """
        paid = (*(_as_count(n) or 0 for n in tokens), _as_amount(spend) or 0)

        def write(database: sqlite3.Connection) -> None:
            number = _call_number(database, call)
            database.execute(
                "UPDATE calls SET"
                " asked = iif(state = 'in flight', asked - NOT ?1, max(asked, ?1)),"
                " state = iif(state = 'answered', state, 'failed') WHERE id = ?2 AND ?1 NOT NULL",
                (was_sent, number),
            )
            database.execute(
                "INSERT INTO failures (call, reason, prompt_tokens, completion_tokens, spend, at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (number, as_text(reason), *paid, now()),
            )

        self._write_durably(write)

    def _register(self, database: sqlite3.Connection, call: Request, identity: str) -> str:
        """Link the call to its pick of the present plan; returns its state.

        Tags never replace a caption: a pick that a model has answered keeps its last answer.
        """
        window = (number_of(database, call.recording), call.span.start, call.span.end)
        database.execute(
            'INSERT INTO calls (identity, recording, "start", "end", model, state)'
            " VALUES (?, ?, ?, ?, ?, 'waiting') ON CONFLICT (identity) DO NOTHING",
            (identity, *window, call.model),
        )
        captioned = None
        if call.model == TAGS_MODEL:
            captioned = database.execute(_CAPTIONED, window).fetchone()
        number, state = captioned or database.execute(_STATE, (identity,)).fetchone()
        database.execute(
            "UPDATE picks SET call = ?1 WHERE plan = ?2 AND recording = ?3"
            ' AND "start" = ?4 AND "end" = ?5 AND call IS NOT ?1',
            (number, self.plan_number, *window),
        )
        return str(state)


def count_unlisted(database: sqlite3.Connection, *cost: float) -> None:
    """Add calls, tokens and money spent on calls without a row.

    These are about recordings that were forgotten since, or about the run itself.
    """
    row = database.execute("SELECT value FROM notes WHERE name = 'unlisted'").fetchone()
    total = map(sum, zip(json.loads(row[0]) if row else (0, 0, 0.0), cost, strict=True))
    note = ("unlisted", json.dumps(list(total)))
    database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", note)


def _call_number(database: sqlite3.Connection, call: Request) -> int:
    row = database.execute(_STATE, (call.identity,)).fetchone()
    if row is None:
        raise ValueError(f"the call {call.identity!r} was not begun")
    return int(row[0])


def _answer_values(answer: Answer) -> tuple[object, ...]:
    return (
        storable_text(answer.text),
        storable_text(answer.model),
        answer.kind,
        None if answer.data is None else json.dumps(answer.data),
        _as_count(answer.prompt_tokens),
        _as_count(answer.completion_tokens),
        _as_amount(answer.latency) or 0.0,
        answer.form,
        storable_text(answer.finish),
        as_text(answer.note),
    )


def _as_count(value: int | None) -> int | None:
    return value if isinstance(value, int) and 0 <= value < MOST_TOKENS else None


def _as_amount(value: float) -> float | None:
    return float(value) if math.isfinite(value) and value >= 0 else None
