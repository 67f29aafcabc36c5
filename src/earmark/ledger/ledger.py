"""Writes a run as it happens: what was heard, picked, asked and answered.

Whatever a process has committed is there when a run is resumed: recordings that were heard are not
listened to again, and calls that were answered are not asked again.

    waiting ──▶ in flight ──┬──▶ answered       never asked again
    ▲             │         └──▶ failed ──┐
    ├─ withdrawn ─┘                       │
    └──────────── asked again ◀───────────┘

The answer itself makes its call an answered one: a trigger of the schema.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, astuple, replace

import numpy as np

from earmark.captioning.activity import activity_of
from earmark.captioning.request import TAGS_MODEL, Answer
from earmark.captioning.usage import Tally
from earmark.errors import LedgerError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.gate.forecast_error import ForecastError, ForecastRange
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.ledger.records import Call, CallRow, PickFrames, RecordingRow
from earmark.ledger.row_values import (
    ADD_RECORDING,
    COARSE,
    EXACT,
    FAIL_RECORDING,
    FAILED_PATHS,
    GONE,
    LAST_PICKS,
    OPENED_FOLDERS,
    SPENT,
    answer_values,
    as_amount,
    as_count,
    as_json,
    as_text,
    call_number,
    keep_tags,
    now,
    number_of,
    replace_evidence,
    rounds_of_answered,
    tags_of,
)
from earmark.ledger.run_reader import FORECAST_ERROR
from earmark.ledger.run_writer import RunWriter
from earmark.media import Source
from earmark.media.source import is_remote, storable_text, stored_path
from earmark.redaction import redact_url
from earmark.selection.pick import Pick
from earmark.timeline import Span, Track

_CAPTIONED = """
CREATE TEMP VIEW IF NOT EXISTS captioned AS SELECT wanted.*, (
    SELECT calls.id FROM calls JOIN answers ON call = calls.id
    WHERE kind = 'caption' AND calls.recording = wanted.recording
    AND calls."start" = wanted."start" AND calls."end" = wanted."end"
    AND (json_type(data, '$.seen') IS NULL OR text NOT GLOB 'Yes.*' AND text NOT GLOB 'No.*')
    ORDER BY at DESC LIMIT 1) AS shown
FROM wanted
"""
"""What is wanted, each with the call by which a model last described its span, if any did; an
answer to `find` says whether one thing is seen, and describes nothing."""


class Ledger(RunWriter, AbstractContextManager["Ledger"]):
    """Writes one run. Safe to use from several threads; one process at a time.

    A method that returns has committed: killing the process afterwards loses nothing of it. The
    order of a run is `add`, `hear`, `choose`, then for each call `begin` and `keep` or `fail`:

        with Ledger(folder, plan) as ledger:
            for call in ledger.unanswered(calls):
                ledger.begin(call)
                ledger.keep(call, answer)
    """

    def add(self, recording: RecordingRow) -> None:
        """Add a recording, or update it; an earlier failure of it is cleared.

        Another recording at the same path is marked as replaced: its answers stay in the database,
        and the run no longer lists it.
        """
        chapters = [(stored_path(path), start) for path, start in recording.chapters]
        values = asdict(recording) | {
            "path": stored_path(recording.path),
            "name": as_text(recording.name),
            "chapters": json.dumps(chapters, ensure_ascii=False),
            "marks": json.dumps(recording.marks),
        }
        with self._transaction() as database:
            # Missed under another id before its content was known, or another content since.
            database.execute(
                "UPDATE recordings SET is_replaced = 1 WHERE path = ? AND id <> ?",
                (values["path"], recording.id),
            )
            database.execute(ADD_RECORDING, values)

    def fail_recording(self, recording: str, path: str, reason: str, *, name: str = "") -> None:
        """Store a recording that could not be processed, with the reason."""
        texts = map(as_text, (name, reason))
        with self._transaction() as database:
            place = (redact_url(storable_text(recording)), stored_path(path))
            database.execute(FAIL_RECORDING, (*place, *texts))

    def drop_past_failures(self, listed: Iterable[str]) -> None:
        """Hide earlier failures that no longer matter.

        These are folders that could not be read and whose recordings are here now, and files that
        are neither `listed` any more nor on the disk.
        """
        kept = set(map(stored_path, listed))
        with self._transaction() as database:
            database.execute(OPENED_FOLDERS)
            failed = {path for (path,) in database.execute(FAILED_PATHS)} - kept
            gone = [path for path in failed if not is_remote(path) and not os.path.lexists(path)]
            database.executemany(GONE, ((path,) for path in gone))

    def note(self, name: str, value: str) -> None:
        """Store `value` under `name`, replacing an earlier value."""
        with self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, value))

    def keep_survival(self, survival: Survival) -> None:
        """Store how long actions last: the curve that the rates of the recordings assume."""
        self.note("survival", json.dumps([survival.times, survival.shares]))

    def keep_forecast_error(self, error: ForecastError | None) -> None:
        """Store how far forecasts of the present plan may be off; None if that is not measured."""
        self.note(FORECAST_ERROR, json.dumps(asdict(error)) if error else "")

    def hear(
        self,
        recording: str,
        windows: Windows,
        *,
        key: str,
        level: Track | None = None,
        sound_bytes: int = 0,
        access: str = "",
        warnings: Sequence[str] = (),
        audio_track: int = 0,
    ) -> None:
        """Store the result of listening, replacing an earlier one; see `HeardRow`.

        Windows are stored exactly, and the level as coarse as it is drawn. The `key` names all that
        can change the windows (content, encoder, gate, grid). The audio track is the one that was
        heard, which is not the one asked for if that is silent.
        """
        sketch = level.sketched() if level is not None else None
        grid = (windows.length, windows.duration, windows.calls, float(np.sum(windows.rates)))
        measured = (windows.scores, windows.instants, windows.rates)
        arrays = (values.astype(EXACT).tobytes() for values in measured)
        drawn = (sketch.values.astype(COARSE).tobytes(), sketch.hop) if sketch else (None, None)
        about = (sound_bytes, access, as_json(warnings), windows.per_call, audio_track)
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO heard"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (number_of(database, recording), key, *grid, *arrays, *drawn, *about),
            )

    def known(self, sources: Iterable[Source], *, key: str) -> dict[Source, tuple[str, int]]:
        """The id and the audio track of each of `sources` whose windows are stored under `key`."""
        query = (
            "SELECT path, id, audio_track FROM present JOIN heard ON number = recording"
            " WHERE key = ?"
        )
        heard = {path: (name, track) for path, name, track in self._rows(query, key)}
        places = {source: heard.get(stored_path(source.uris[0])) for source in sources}
        return {source: place for source, place in places.items() if place is not None}

    def choose(
        self,
        recording: str,
        picks: Sequence[Pick],
        *,
        tags: Mapping[Span, Sequence[str]] | None = None,
        rule: str = "",
        forecast: ForecastRange | float | None = None,
        notes: Sequence[str] = (),
        round: int | None = None,  # noqa: A002 - the word the command line uses
    ) -> None:
        """Store the picks of the present plan, replacing any it had; see `ChoiceRow`.

        `tags` name what is heard, by span. The `round` in which they are asked counts from 1, and
        is None if all are asked at once; with a round, an answered pick keeps the round and the
        reason it had.
        """
        with self._transaction() as database:
            number = number_of(database, recording)
            place = (self._plan, number)
            about = as_json(notes)
            told: tuple[float | None, ...] = (None, None, None)
            if isinstance(forecast, ForecastRange):
                # For a recording unlike those it was measured on, the confidence is unknown.
                confidence = None if forecast.is_unlike else forecast.confidence
                told, forecast = (forecast.low, forecast.high, confidence), forecast.expected
            database.execute(
                "INSERT OR REPLACE INTO choices VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*place, rule, forecast, about, *told),
            )
            earlier = rounds_of_answered(database, number) if round else {}
            before = database.execute(
                'DELETE FROM picks WHERE plan = ? AND recording = ? RETURNING "start", "end", call',
                place,
            )
            asked = {Span(start, end): call for start, end, call in before}
            for pick in picks:
                span = Span(pick.start, pick.end)
                words = (tags or {}).get(span, ())
                tagged = keep_tags(database, number, span, words) if words else None
                turn, reason = earlier.get(span, (round or 1, pick.reason))
                values = astuple(replace(pick, reason=reason))
                database.execute(
                    "INSERT INTO picks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*place, *values, tagged, asked.get(span), turn),
                )

    def keep_last_picks(self) -> None:
        """Copy the last picks of each recording for which the present plan has made no choice.

        So its answers stay in the report while its files are away or not asked about. `choose`
        replaces the copies.
        """
        with self._transaction() as database:
            for statement in LAST_PICKS:
                database.execute(statement, (self._plan,))

    def add_pick(self, recording: str, pick: Pick, tags: Sequence[str] = ()) -> None:
        """Add a pick to the present plan, unless it is there already."""
        with self._transaction() as database:
            number = number_of(database, recording)
            tagged = keep_tags(database, number, pick.span, tags) if tags else None
            database.execute(
                "INSERT OR IGNORE INTO picks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 1)",
                (self._plan, number, *astuple(pick), tagged),
            )

    def keep_frames(self, recording: str, frames: PickFrames) -> None:
        """Store the thumbnail of a pick and the cost of decoding it."""
        span, *taken = astuple(frames)
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO frames VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (number_of(database, recording), *span, *taken),
            )

    def keep_evidence(
        self,
        recording: str,
        entries: Iterable[EvidenceEntry],
        *,
        kinds: Collection[str],
        origin: str = "",
        within: Span | None = None,
    ) -> None:
        """Store evidence of a recording, replacing what it had of the same kinds.

        Replaced is evidence of these `kinds` by the model `origin` (by any if that is empty) that
        lies `within` a span (anywhere if that is None). Entries are read while they are written.
        """
        with self._transaction() as database:
            number = number_of(database, recording)
            replace_evidence(database, number, entries, kinds=kinds, origin=origin, within=within)

    def keep_speech(self, recording: str, entries: Iterable[EvidenceEntry], *, by: str) -> None:
        """Store the transcript by the model `by`, also an empty one: it is not made again."""
        mark = "UPDATE recordings SET transcribed_by = ? WHERE number = ?"
        with self._transaction() as database:
            number = number_of(database, recording)
            replace_evidence(database, number, entries, kinds={"said"}, origin="", within=None)
            database.execute(mark, (by, number))

    def unanswered(self, wanted: Iterable[Call]) -> list[Call]:
        """The calls of `wanted` that have no stored answer, in order; failed ones are among them.

        Each of `wanted` becomes the call that its pick is shown with, answered or not, whichever
        plan it was answered under.
        """
        every = [(call.identity, call) for call in wanted]
        with self._transaction() as database:
            answered = self._register(database, every)
        return [call for identity, call in every if identity not in answered]

    def answered(self, recording: str) -> list[CallRow]:
        """The calls about `recording` that a model has answered, under any plan."""
        rows = self._rows(
            'SELECT identity, "start", "end", calls.model FROM calls'
            " JOIN recordings ON number = recording JOIN answers ON call = calls.id"
            " WHERE recordings.id = ? AND kind = 'caption' ORDER BY 2, 3",
            recording,
        )
        return [CallRow(key, recording, Span(*times), model) for key, *times, model in rows]

    def said(self, recording: str) -> dict[str, str | None]:
        """The activity that each answer about `recording` names, by the identity of its call.

        Empty where nothing is being done, None where the answer does not say.
        """
        rows = self._rows(
            "SELECT identity, data FROM calls JOIN recordings ON number = recording"
            " JOIN answers ON call = calls.id WHERE recordings.id = ? AND kind = 'caption'",
            recording,
        )
        return {identity: activity_of(json.loads(data or "null")) for identity, data in rows}

    def spent(self) -> Tally:
        """A tally that starts with what all calls of this run have cost, under any plan.

        It counts calls of every process, and repeated ones each time. A call whose cost is unknown
        counts as the most it can have cost.
        """
        calls, tokens, spend, _ = self._rows(SPENT)[0]
        return Tally(calls_before=calls, tokens_before=tokens, spend_before=spend)

    def begin(self, call: Call, *, reserve: tuple[int, float] = (0, 0.0)) -> None:
        """Record that `call` is about to be sent; it must not be sent before.

        The `reserve` is the most tokens and money it can cost, which is counted if the server does
        not report the cost. A `LedgerError` says that there is no room to store its answer.
        """
        if self._is_full:
            raise LedgerError(
                f"no room left for the run in {self.folder}: free some space and run it again"
            )
        identity = call.identity
        begin = (
            "UPDATE calls SET state = iif(state = 'answered', state, 'in flight'),"
            " asked = asked + 1, reserve_tokens = ?, reserve_spend = ? WHERE identity = ?"
        )
        with self._transaction() as database:
            if not database.execute(begin, (*reserve, identity)).rowcount:
                self._register(database, [(identity, call)])
                database.execute(begin, (*reserve, identity))

    def withdraw(self, call: Call) -> None:
        """Record that a call which began was not sent after all."""
        withdraw = (
            "UPDATE calls SET state = 'waiting', asked = asked - 1"
            " WHERE identity = ? AND state = 'in flight'"
        )
        self._write_durably(lambda database: database.execute(withdraw, (call.identity,)))

    def keep(self, call: Call, answer: Answer, *, spend: float = 0.0) -> None:
        """Store the answer to `call` and its cost; the call is never made again.

        Impossible counts and amounts (NaN, negative, infinite) are treated as unknown: the most it
        can have cost is counted. When the disk is full, the reserve makes room for answers still in
        flight, and `begin` refuses new calls. An answer that is stored already stays.
        """
        counts = (answer.prompt_tokens, answer.completion_tokens)
        is_odd = any(count is not None and as_count(count) is None for count in counts)
        cost = None if is_odd else as_amount(spend)

        def write(database: sqlite3.Connection) -> None:
            number = call_number(database, call)
            # Tags ask no model: they are stored like an answer, and count neither as a call nor as
            # an interrupted one. A batch is answered without `begin`.
            database.execute(
                "UPDATE calls SET asked = max(asked, 1) * ?1, interrupted = interrupted * ?1"
                " WHERE id = ?2",
                (answer.kind == "caption", number),
            )
            kept = database.execute(  # which makes the call an answered one
                "INSERT INTO answers"
                " SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, reserve_spend), ?"
                " FROM calls WHERE id = ? ON CONFLICT (call) DO NOTHING",
                (number, *answer_values(answer), cost, now(), number),
            )
            if kept.rowcount:
                tags = tags_of(database, number_of(database, call.recording), call.span)
                database.execute(
                    "INSERT INTO words (rowid, caption, tags) VALUES (?, ?, ?)",
                    (number, storable_text(answer.text), tags),
                )

        self._write_durably(write)

    def fail(
        self,
        call: Call,
        reason: str,
        *,
        was_sent: bool | None = True,
        tokens: tuple[int, int] = (0, 0),
        spend: float = 0.0,
    ) -> None:
        """Record that `call` failed, with the reason in one line; it may be made again.

        `was_sent` is False if it was never sent, so that it does not count as asked, and None if it
        is still in flight, so that only the cost of one attempt is recorded. `tokens` in and out
        and `spend` are the cost of an answer that could not be used and is paid for all the same.
        """
        paid = (*(as_count(n) or 0 for n in tokens), as_amount(spend) or 0)

        def write(database: sqlite3.Connection) -> None:
            number = call_number(database, call)
            database.execute(
                "UPDATE calls SET asked = max(asked - (state = 'in flight' AND NOT ?1), ?1),"
                " state = iif(state = 'answered', state, 'failed') WHERE id = ?2 AND ?1 NOT NULL",
                (was_sent, number),
            )
            database.execute(
                "INSERT INTO failures (call, reason, prompt_tokens, completion_tokens, spend, at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (number, as_text(reason), *paid, now()),
            )

        self._write_durably(write)

    def _register(
        self, database: sqlite3.Connection, calls: Sequence[tuple[str, Call]]
    ) -> set[str]:
        """Link each call, given with its identity, to its pick of the present plan.

        Returns the identities of the calls that are answered. Tags never replace a caption: a pick
        that a model has answered keeps its last answer.
        """
        names = {call.recording for _, call in calls}
        numbers = {name: number_of(database, name) for name in names}
        database.execute(
            "CREATE TEMP TABLE IF NOT EXISTS wanted"
            ' (identity TEXT, recording INTEGER, "start" REAL, "end" REAL, model TEXT)'
        )
        database.execute("DELETE FROM wanted")
        database.executemany(
            "INSERT INTO wanted VALUES (?, ?, ?, ?, ?)",
            (
                (identity, numbers[call.recording], call.span.start, call.span.end, call.model)
                for identity, call in calls
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
            (self._plan,),
        )
        database.execute(_CAPTIONED)
        database.execute(
            "UPDATE picks SET call = shown FROM captioned WHERE model = ? AND shown NOT NULL"
            " AND plan = ? AND picks.recording = captioned.recording"
            ' AND picks."start" = captioned."start" AND picks."end" = captioned."end"',
            (TAGS_MODEL, self._plan),
        )
        answered = database.execute(
            "SELECT identity FROM wanted JOIN calls USING (identity) WHERE state = 'answered'"
            " UNION SELECT identity FROM captioned WHERE model = ? AND shown NOT NULL",
            (TAGS_MODEL,),
        )
        return {identity for (identity,) in answered}
