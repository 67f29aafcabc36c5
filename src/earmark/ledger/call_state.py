"""What the ledger says to its database about calls; the transaction is the caller's.

waiting ──▶ in flight ──┬──▶ answered       never asked again
▲             │      └──▶ failed ──┐
├─ withdrawn ─┘                    │
└──────────── asked again ◀────────┘

The answer itself makes its call an answered one: a trigger of the schema.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from earmark.captioning.request import FREE, Answer
from earmark.ledger.records import CallRow
from earmark.ledger.row_values import (
    answer_values,
    as_amount,
    as_count,
    now,
    number_of,
    tags_of,
)
from earmark.media.source import as_text
from earmark.redaction import redact
from earmark.timeline import Span

SPENT = """
SELECT (SELECT coalesce(sum(asked), 0) FROM calls) + coalesce((
        SELECT json_extract(value, '$[0]') FROM notes WHERE name = 'forgotten'), 0),
    coalesce(sum(tokens), 0), total(spend), coalesce(sum(guessed), 0)
FROM (
    SELECT coalesce(prompt_tokens + completion_tokens, reserve_tokens) AS tokens, spend,
        prompt_tokens + completion_tokens IS NULL AS guessed
    FROM answers JOIN calls ON id = call WHERE kind = 'caption'
    UNION ALL SELECT prompt_tokens + completion_tokens, spend, 0 FROM failures
    UNION ALL SELECT interrupted * reserve_tokens, interrupted * reserve_spend, interrupted
    FROM calls WHERE interrupted > 0
    UNION ALL SELECT json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        json_extract(value, '$[3]')
    FROM notes WHERE name = 'forgotten')
"""
"""Calls ever sent, tokens, money, and how many calls were counted at the most they can take; those
about recordings that were forgotten since, too."""


_CAPTIONED = """
CREATE TEMP VIEW IF NOT EXISTS captioned AS SELECT wanted.*, (
    SELECT calls.id FROM calls JOIN answers ON call = calls.id
    WHERE kind = 'caption' AND calls.recording = wanted.recording
    AND calls."start" = wanted."start" AND calls."end" = wanted."end"
    ORDER BY at DESC LIMIT 1) AS shown
FROM wanted
"""
"""What is wanted, each with the call by which a model last answered about its span, if any did."""


def register(database: sqlite3.Connection, calls: Sequence[CallRow], *, plan: int) -> set[str]:
    """Make each call that of its pick under `plan`; those answered, by identity.

    Tags take no caption's place: a pick that a model has answered keeps the last answer.
    """
    names = {call.recording for call in calls}
    numbers = {name: number_of(database, name) for name in names}
    database.execute(
        "CREATE TEMP TABLE IF NOT EXISTS wanted"
        ' (identity TEXT, recording INTEGER, "start" REAL, "end" REAL, model TEXT)'
    )
    database.execute("DELETE FROM wanted")
    database.executemany(
        "INSERT INTO wanted VALUES (?, ?, ?, ?, ?)",
        (
            (call.identity, numbers[call.recording], call.span.start, call.span.end, call.model)
            for call in calls
        ),
    )
    database.execute(
        'INSERT INTO calls (identity, recording, "start", "end", model, state)'
        " SELECT *, 'waiting' FROM wanted WHERE true ON CONFLICT (identity) DO NOTHING"
    )
    database.execute(
        "UPDATE picks SET call = calls.id FROM wanted JOIN calls USING (identity)"
        " WHERE plan = ? AND picks.recording = wanted.recording"
        ' AND picks."start" = wanted."start" AND picks."end" = wanted."end"'
        " AND call IS NOT calls.id",
        (plan,),
    )
    database.execute(_CAPTIONED)
    database.execute(
        "UPDATE picks SET call = shown FROM captioned WHERE model = ? AND shown NOT NULL"
        " AND plan = ? AND picks.recording = captioned.recording"
        ' AND picks."start" = captioned."start" AND picks."end" = captioned."end"',
        (FREE, plan),
    )
    answered = database.execute(
        "SELECT identity FROM wanted JOIN calls USING (identity) WHERE state = 'answered'"
        " UNION SELECT identity FROM captioned WHERE model = ? AND shown NOT NULL",
        (FREE,),
    )
    return {identity for (identity,) in answered}


def begin(database: sqlite3.Connection, call: CallRow, reserve: tuple[int, float]) -> bool:
    """Note that `call` is about to be sent and what it can take; False if it is not known."""
    return bool(
        database.execute(
            "UPDATE calls SET state = iif(state = 'answered', state, 'in flight'),"
            " asked = asked + 1, reserve_tokens = ?, reserve_spend = ? WHERE identity = ?",
            (*reserve, call.identity),
        ).rowcount
    )


def withdraw(database: sqlite3.Connection, call: CallRow) -> None:
    """Note that `call` began and was not sent after all."""
    database.execute(
        "UPDATE calls SET state = 'waiting', asked = asked - 1"
        " WHERE identity = ? AND state = 'in flight'",
        (call.identity,),
    )


def keep(database: sqlite3.Connection, call: CallRow, answer: Answer, *, spend: float) -> None:
    """Keep the answer to `call` and index its words; one that is kept already stays.

    Where its tokens are no counts or its spend is no amount, it cost the most it can have.
    """
    number = _number_of(database, call)
    counts = (answer.prompt_tokens, answer.completion_tokens)
    is_odd = any(count is not None and as_count(count) is None for count in counts)
    # Tags ask no model: they are kept like an answer, and not counted as a call, nor as one in
    # doubt. An answer that came by post was asked for without `begin`.
    database.execute(
        "UPDATE calls SET asked = max(asked, 1) * ?1, interrupted = interrupted * ?1 WHERE id = ?2",
        (answer.kind == "caption", number),
    )
    kept = database.execute(  # which makes the call an answered one
        "INSERT INTO answers SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, reserve_spend), ?"
        " FROM calls WHERE id = ? ON CONFLICT (call) DO NOTHING",
        (number, *answer_values(answer), None if is_odd else as_amount(spend), now(), number),
    )
    if kept.rowcount:
        tags = tags_of(database, number_of(database, call.recording), call.span)
        database.execute(
            "INSERT INTO words (rowid, caption, tags) VALUES (?, ?, ?)",
            (number, as_text(answer.text), tags),
        )


def fail(
    database: sqlite3.Connection,
    call: CallRow,
    reason: str,
    tokens: tuple[int, int],
    spend: float,
    *,
    was_sent: bool | None,
) -> None:
    """Note that `call` is not answered, and why; one whose answer is kept stays answered.

    Of one that is still in flight (`was_sent` is None) only what an attempt cost.
    """
    number = _number_of(database, call)
    database.execute(
        "UPDATE calls SET asked = max(asked - (state = 'in flight' AND NOT ?1), ?1),"
        " state = iif(state = 'answered', state, 'failed') WHERE id = ?2 AND ?1 NOT NULL",
        (was_sent, number),
    )
    database.execute(
        "INSERT INTO failures (call, reason, prompt_tokens, completion_tokens, spend, at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            number,
            redact(as_text(reason)),
            *(as_count(n) or 0 for n in tokens),
            as_amount(spend) or 0,
            now(),
        ),
    )


def _number_of(database: sqlite3.Connection, call: CallRow) -> int:
    """What a call is called within the database."""
    row = database.execute("SELECT id FROM calls WHERE identity = ?", (call.identity,)).fetchone()
    if row is None:
        raise ValueError(f"the call {call.identity!r} was not begun")
    return int(row[0])


def rounds_of_answered(database: sqlite3.Connection, recording: int) -> dict[Span, tuple[int, str]]:
    """The round and the reason of each pick of `recording` that is answered, under any plan."""
    rows = database.execute(
        'SELECT p."start", p."end", p.round, p.reason FROM plans JOIN picks p ON p.plan = plans.id'
        " AND p.recording = ? JOIN calls ON calls.id = p.call WHERE state = 'answered'"
        " ORDER BY plans.id",
        (recording,),
    )
    return {Span(start, end): (turn, reason) for start, end, turn, reason in rows}
