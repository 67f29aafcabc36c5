"""The run's memory: what was heard, picked, asked and answered, written as it happens.

Whatever a process has committed is there when a run is resumed: recordings that were heard are not
listened to again, and calls that were answered are not asked again.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

from earmark.captioning.activity import stored_activity
from earmark.captioning.request import Answer
from earmark.errors import LedgerError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.gate.forecast_error import CoverageRange
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.ledger import call_state
from earmark.ledger.disk_reserve import DiskReserve
from earmark.ledger.kept_forecast import CHOOSE, forecast_values
from earmark.ledger.records import CallRow, PickFrames, RecordingRow, Spent
from earmark.ledger.row_values import (
    ADD_RECORDING,
    FAIL_RECORDING,
    as_lines,
    count_interrupted,
    keep_tags,
    number_of,
    pack,
    recording_values,
    remember_plan,
    replace_evidence,
    unpack,
)
from earmark.ledger.run_lock import RunLock
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import clearly, connect, is_disk_error, is_full
from earmark.media import Source
from earmark.media.source import as_place, as_text
from earmark.redaction import redact, redact_url
from earmark.selection.pick import Pick
from earmark.timeline import Span, Track

Write = Callable[[sqlite3.Connection], object]
"""Something to be written in a transaction that is open."""


class Ledger:
    """Writes one run. Safe to use from several threads; one process at a time.

    A method that returns has committed: killing the process afterwards loses nothing of it. The
    order of a run is `add`, `hear`, `choose`, then for each call `begin` and `keep` or `fail`:

        with Ledger.open(folder, plan) as ledger:
            for call in ledger.unanswered(calls):
                ledger.begin(call)
                ledger.keep(call, answer)
    """

    def __init__(self, folder: Path, plan: Mapping[str, Any], lock: RunLock) -> None:
        """Use `Ledger.open`; this expects the lock to be held."""
        self.folder = folder
        self._lock = lock
        self._thread_lock = threading.RLock()
        self._connection = connect(folder, to_write=True)
        self._reserve = DiskReserve(folder)
        self._is_full = False
        self._waiting: list[Write] | None = None
        with self._transaction() as database:
            self._plan = remember_plan(database, plan)
            self.interrupted = count_interrupted(database)
            """Calls that were in flight when an earlier process died; they may be asked twice."""

    @classmethod
    def open(cls, folder: Path, plan: Mapping[str, Any]) -> Ledger:
        """Create the run in `folder`, or resume it under `plan` (anything JSON can hold).

        Raises:
            LedgerError: Another process has it, it is damaged or of another version, no room.
        """
        lock = RunLock(folder)
        try:
            return cls(folder, plan, lock)
        except BaseException:
            lock.close()
            raise

    def close(self) -> None:
        """Let go of the run; it can be opened again."""
        with self._thread_lock:
            self._connection.close()
            self._lock.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self) -> Run:
        """The run as it stands, to read from while this writes; close it when done."""
        return Run.open(self.folder)

    def add(self, recording: RecordingRow) -> None:
        """Know a recording, or know it better; a failure noted for it earlier is cleared.

        Another recording at the same path is replaced: its answers are kept, and it is no longer
        part of what the run tells.
        """
        with self._transaction() as database:
            # Missed under another id before its content was known, or another content since.
            database.execute(
                "UPDATE recordings SET is_replaced = 1 WHERE path = ? AND id <> ?",
                (as_place(recording.path), recording.id),
            )
            database.execute(ADD_RECORDING, recording_values(recording))

    def fail_recording(self, recording: str, path: str, reason: str, *, name: str = "") -> None:
        """Note a recording that could not be listened to or looked at, and why."""
        unknown = RecordingRow(redact_url(as_text(recording)), path, 0.0, 0, name=name)
        with self._transaction() as database:
            values = (*recording_values(unknown), redact(as_text(reason)))
            database.execute(FAIL_RECORDING, values)

    def note(self, name: str, value: str) -> None:
        """Keep `value` under `name`, in place of what was there."""
        with self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, value))

    def rate_by(self, survival: Survival) -> None:
        """Note how long actions last, as the recordings are rated by."""
        self.note("survival", json.dumps([survival.times, survival.shares]))

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
        """Keep what listening gave, in place of what an earlier listening gave.

        Args:
            recording: Its id.
            windows: Its windows, scored and rated; kept exactly.
            key: Names all that can change them (the content, the encoder, the gate, the grid).
            level: Sound level in decibels; kept as coarse as the eye needs.
            sound_bytes: Bytes read to listen.
            access: How the sound was reached, in words.
            warnings: What was odd about the recording or its sound, a line each.
            audio_track: The one that was heard; not the one asked for where that is silent.
        """
        sketch = level.sketched() if level is not None else None
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO heard"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    number_of(database, recording),
                    key,
                    windows.length,
                    windows.duration,
                    windows.calls,
                    float(np.sum(windows.rates)),
                    pack(windows.scores),
                    pack(windows.instants),
                    pack(windows.rates),
                    pack(sketch.values, "<f4") if sketch else None,
                    sketch.hop if sketch else None,
                    sound_bytes,
                    access,
                    as_lines(warnings),
                    windows.per_call,
                    audio_track,
                ),
            )

    def heard(
        self, recording: str, *, key: str | None, survival: Survival, owned: tuple[int, ...] = ()
    ) -> Windows | None:
        """The windows kept for `recording` under `key`; None when it must be listened to.

        Args:
            recording: Its id.
            key: Names all that can change the windows; None for whatever they are.
            survival: How long actions last; not kept with each recording.
            owned: Windows whose call is paid already.
        """
        rows = self._rows(
            "SELECT window, heard.duration, per_call, scores, instants, rates FROM heard"
            " JOIN recordings ON number = recording WHERE id = ? AND key = coalesce(?, key)",
            recording,
            key,
        )
        if not rows:
            return None
        ((length, duration, per_call, *arrays),) = rows
        scores, instants, rates = (unpack(array) for array in arrays)
        return Windows(length, duration, scores, instants, rates, survival, owned, per_call)

    def known(self, sources: Iterable[Source], *, key: str) -> dict[Source, tuple[str, int]]:
        """The ids of those of `sources` that were heard under `key`, and the track that was."""
        query = (
            "SELECT path, id, audio_track FROM present JOIN heard ON number = recording"
            " WHERE key = ?"
        )
        heard = {path: (name, track) for path, name, track in self._rows(query, key)}
        places = {source: heard.get(as_place(source.uris[0])) for source in sources}
        return {source: place for source, place in places.items() if place is not None}

    def choose(
        self,
        recording: str,
        picks: Sequence[Pick],
        *,
        tags: Mapping[Span, Sequence[str]] | None = None,
        rule: str = "",
        forecast: CoverageRange | float | None = None,
        notes: Sequence[str] = (),
        round: int | None = None,  # noqa: A002 - the word the command line uses
    ) -> None:
        """Keep the picks of the present plan, in place of any it had.

        With a `round`, a pick that is answered stays of its round, with the reason it had.

        Args:
            recording: Its id.
            picks: The windows chosen.
            tags: What is heard in words, by span.
            rule: The rule that chose.
            forecast: Share of actions the picks are to touch, a range where that was measured.
            notes: What a reader should know: swaps, warnings.
            round: The one the picks are asked in, from 1; None where all is asked at once.
        """
        with self._transaction() as database:
            number = number_of(database, recording)
            place = (self._plan, number)
            told = (*place, rule, as_lines(notes), *forecast_values(forecast))
            database.execute(CHOOSE, told)
            earlier = call_state.rounds_of_answered(database, number) if round else {}
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

    def add_pick(self, recording: str, pick: Pick, tags: Sequence[str] = ()) -> None:
        """Keep one more pick under the present plan; one that is there already stays."""
        with self._transaction() as database:
            number = number_of(database, recording)
            tagged = keep_tags(database, number, pick.span, tags) if tags else None
            database.execute(
                "INSERT OR IGNORE INTO picks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, 1)",
                (self._plan, number, *astuple(pick), tagged),
            )

    def keep_frames(self, recording: str, frames: PickFrames) -> None:
        """Keep the thumbnail of a pick and what decoding it took."""
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO frames VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    number_of(database, recording),
                    frames.span.start,
                    frames.span.end,
                    frames.thumbnail,
                    frames.frames_decoded,
                    frames.frames_sent,
                    frames.bytes_read,
                    frames.faces_blurred,
                ),
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
        """Keep what is known of a recording, in place of what it had of the same sort.

        Args:
            recording: Its id.
            entries: In any order; read while they are written.
            kinds: What is replaced, together with the two below.
            origin: Only what this model said is replaced; empty replaces that of every model.
            within: Only what lies in it is replaced; None replaces that of the whole recording.
        """
        with self._transaction() as database:
            number = number_of(database, recording)
            replace_evidence(database, number, entries, kinds=kinds, origin=origin, within=within)

    def keep_speech(self, recording: str, entries: Iterable[EvidenceEntry], *, by: str) -> None:
        """Keep all that the model `by` heard anybody say, be it nothing: it need not hear again."""
        mark = "UPDATE recordings SET transcribed_by = ? WHERE number = ?"
        with self._transaction() as database:
            number = number_of(database, recording)
            replace_evidence(database, number, entries, kinds={"said"}, origin="", within=None)
            database.execute(mark, (by, number))

    def unanswered(self, wanted: Iterable[CallRow]) -> list[CallRow]:
        """Those of `wanted` no answer is kept for, in order; failed ones are among them.

        Each call becomes the one its pick is shown with, whether it was answered just now, under
        an earlier plan, or not yet.
        """
        every = list(wanted)
        with self._transaction() as database:
            answered = call_state.register(database, every, plan=self._plan)
        return [call for call in every if call.identity not in answered]

    def answered(self, recording: str) -> list[CallRow]:
        """The calls about `recording` that a model has answered, under any plan."""
        rows = self._rows(
            """
            SELECT identity, calls.model, "start", "end" FROM calls
            JOIN recordings ON number = recording JOIN answers ON call = calls.id
            WHERE recordings.id = ? AND kind = 'caption' ORDER BY "start", "end"
            """,
            recording,
        )
        return [
            CallRow(identity, recording, Span(*times), model) for identity, model, *times in rows
        ]

    def said(self, recording: str) -> dict[str, str | None]:
        """What models said is being done in `recording`, by the identity of the call.

        Empty where nothing is, None where an answer does not say.
        """
        rows = self._rows(
            "SELECT identity, data FROM calls JOIN recordings ON number = recording"
            " JOIN answers ON call = calls.id WHERE recordings.id = ? AND kind = 'caption'",
            recording,
        )
        return {identity: stored_activity(data) for identity, data in rows}

    def spent(self) -> Spent:
        """What the calls of this run have taken so far, whichever process made them."""
        return Spent(*self._rows(call_state.SPENT)[0])

    def begin(self, call: CallRow, *, reserve: tuple[int, float] = (0, 0.0)) -> None:
        """Note that `call` is about to be sent; only then may it be.

        Args:
            call: Which.
            reserve: The most tokens and money it can take: counted where nobody says what it took.

        Raises:
            LedgerError: There is no room to keep its answer.
        """
        if self._is_full:
            raise LedgerError(
                f"no room left for the run in {self.folder}: free some space and run it again"
            )
        with self._transaction() as database:
            if not call_state.begin(database, call, reserve):
                call_state.register(database, [call], plan=self._plan)
                call_state.begin(database, call, reserve)

    def withdraw(self, call: CallRow) -> None:
        """Note that a call began and was not sent after all."""
        self._surely(lambda database: call_state.withdraw(database, call))

    def keep(self, call: CallRow, answer: Answer, *, spend: float = 0.0) -> None:
        """Keep the answer to `call` and what it cost; it is never asked again.

        Odd counts and amounts (NaN, negative, endless) are as if nobody had said them. When the
        disk is full the reserve makes room for the answers still in flight, and `begin` refuses
        new calls.
        """
        self._surely(lambda database: call_state.keep(database, call, answer, spend=spend))

    def fail(
        self,
        call: CallRow,
        reason: str,
        *,
        was_sent: bool | None = True,
        tokens: tuple[int, int] = (0, 0),
        spend: float = 0.0,
    ) -> None:
        """Note that `call` is not answered, and why; it may be asked again.

        Args:
            call: Which.
            reason: Why, in a line.
            was_sent: False where it never left, so that it does not count as asked; None where it
                is still in flight, so that only the cost of an attempt is noted.
            tokens: In and out, of an answer that could not be used and is paid for all the same.
            spend: What that cost.
        """
        cost = (reason, tokens, spend)
        self._surely(lambda database: call_state.fail(database, call, *cost, was_sent=was_sent))

    @contextmanager
    def together(self) -> Iterator[None]:
        """What becomes of calls within the block is committed, and synced, once: when it ends.

        So answers that arrive together cost one sync. Those that cannot be written together are
        written one by one, and the first error is raised.
        """
        with self._thread_lock:
            if self._waiting is not None:
                yield
                return
            self._waiting = []
            try:
                yield
            finally:
                writes, self._waiting = self._waiting, None
                self._write_all(writes)

    def _write_all(self, writes: Sequence[Write]) -> None:
        errors: list[Exception] = []
        with suppress(LedgerError, ValueError):
            self._surely(lambda database: [write(database) for write in writes])
            writes = ()
        for write in writes:
            try:
                self._surely(write)
            except (LedgerError, ValueError) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _surely(self, write: Write) -> None:
        """Write what became of a call; twice if need be, on a full disk into the reserve."""
        if self._waiting is not None:
            self._waiting.append(write)
            return
        try:
            self._write_synced(write)
        except LedgerError as error:
            if not is_disk_error(error.__cause__):
                raise
            if is_full(error.__cause__) and not self._is_full:
                self._is_full = True
                self._make_room()
            self._write_synced(write)

    def _write_synced(self, write: Write) -> None:
        with self._transaction(is_synced=True) as database:
            write(database)

    def _make_room(self) -> None:
        """Give up the disk reserve, and fold the log into the database so that it starts again."""
        self._reserve.drop()
        with self._thread_lock, suppress(sqlite3.Error):  # then there is the room of the reserve
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._thread_lock, clearly(self.folder):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self, *, is_synced: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it committed when the block ends, or none of it.

        One that `is_synced` is on the disk then, and so is all that was committed before it.
        """
        with self._thread_lock, clearly(self.folder):
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
