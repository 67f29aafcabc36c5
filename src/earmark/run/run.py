"""A run: every recording, pick, call, answer and correction, in one SQLite database."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, astuple, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.evidence.evidence_entry import KINDS, TRACK, EvidenceEntry
from earmark.gate.forecast_error import ForecastError
from earmark.gate.lengths import LengthModel, lengths_to_json, read_lengths
from earmark.grid import Windows
from earmark.media import Source
from earmark.media.source import is_remote, storable_text, stored_path
from earmark.redaction import redact_url
from earmark.run.database import as_json, as_text, number_of
from earmark.run.records import (
    FailedRecording,
    HeardRow,
    PickFrames,
    RecordingRow,
    Totals,
    folders_apart,
    parts_of,
    read_chapters,
)
from earmark.run.schema import FILE, explain_errors, transaction
from earmark.run.text_index import RunTexts
from earmark.timeline import Span, Track
from earmark.wall_clock import ClockCorrection, clock_origin, in_local_zone

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur
    from earmark.models import ModelStore

BLURRED, CLOCK, FORECAST_ERROR = "blur", "clock", "forecast error"
PARAGRAPH = "paragraph "

EXACT, COARSE = "<f8", "<f4"
"""Little-endian: exact for what selection reads again, coarse for what is only drawn."""

_DERIVED = ("folder", "clock_origin")
RECORDING_COLUMNS = tuple(each.name for each in fields(RecordingRow) if each.name not in _DERIVED)

_FRAMES_OF = """
FROM frames JOIN recordings ON number = recording WHERE id = ? AND "start" = ? AND "end" = ?
"""

_TOTALS = """
SELECT * FROM (
    SELECT count(*) AS recordings, total(duration) AS duration,
        coalesce(sum(size_bytes), 0) AS size_bytes, coalesce(sum(frame_count), 0) AS frame_count
    FROM present
), (
    SELECT coalesce(sum(windows), 0) AS windows,
        total(iif(plan IS NOT NULL AND forecast IS NULL, 0, expected)) AS expected
    FROM heard JOIN present ON number = heard.recording
        LEFT JOIN choices ON plan = ?1 AND choices.recording = heard.recording
), (
    SELECT count(*) AS picks, coalesce(sum(kind = 'caption'), 0) AS answered,
        coalesce(sum(kind = 'caption' AND finish = 'length'), 0) AS cut,
        coalesce(sum(state = 'failed'), 0) AS failed,
        total(iif(forecast IS NULL, 0, expected)) AS touched
    FROM picks JOIN present ON number = picks.recording
        LEFT JOIN choices USING (plan, recording)
        LEFT JOIN calls ON calls.id = picks.call LEFT JOIN answers ON answers.call = picks.call
    WHERE plan = ?1
), (
    SELECT coalesce(sum(frames_decoded), 0) AS frames_decoded,
        coalesce(sum(frames_sent), 0) AS frames_sent,
        coalesce(sum(faces_blurred), 0) AS faces_blurred,
        coalesce(sum(bytes_read), 0) + (
            SELECT coalesce(sum(sound_bytes), 0) FROM heard JOIN present ON number = recording
        ) AS bytes_read
    FROM frames JOIN present ON number = recording
), (
    SELECT coalesce(sum(asked), 0) AS asked, coalesce(sum(interrupted), 0) AS interrupted
    FROM calls
), (
    SELECT coalesce(sum(prompt_tokens), 0) AS prompt_tokens,
        coalesce(sum(completion_tokens), 0) AS completion_tokens, total(spend) AS spend
    FROM (SELECT prompt_tokens, completion_tokens, spend FROM answers
        UNION ALL SELECT prompt_tokens, completion_tokens, spend FROM failures)
)
"""

_ADD_RECORDING = f"""
INSERT INTO recordings ({", ".join(RECORDING_COLUMNS)})
VALUES ({", ".join(f":{column}" for column in RECORDING_COLUMNS)})
ON CONFLICT (id) DO UPDATE SET
    {", ".join(f"{column} = excluded.{column}" for column in RECORDING_COLUMNS[1:])},
    failure = NULL, is_replaced = 0
"""  # noqa: S608 - columns of our own

_FAIL_RECORDING = """
INSERT INTO recordings (
    id, path, name, failure, chapters, duration, size_bytes, frame_rate, frame_count)
VALUES (?, ?, ?, ?, '[]', 0, 0, 0, 0)
ON CONFLICT (id) DO UPDATE SET failure = excluded.failure, name = excluded.name, is_replaced = 0
"""

_OPENED_FOLDERS = """
UPDATE recordings SET is_replaced = 1 WHERE failure IS NOT NULL AND NOT is_replaced AND EXISTS (
    SELECT 1 FROM present AS held
    WHERE held.path > recordings.path || '/' AND held.path < recordings.path || '0')
"""
"""Folders that could not be read, and whose recordings are present now: `0` follows `/`."""

_FAILED_PATHS = "SELECT path FROM recordings WHERE failure IS NOT NULL AND NOT is_replaced"

_GONE = "UPDATE recordings SET is_replaced = 1 WHERE failure IS NOT NULL AND path = ?"


class Run(RunTexts, AbstractContextManager["Run"]):
    """One run. Many processes may read it while one writes it, from any of its threads.

        with Run(folder) as run:                    # to read
            for pick in run.picks(recording): ...
        with Run(folder, plan) as run:              # to write: created, or resumed under `plan`
            for call in run.unanswered(calls):
                run.begin(call)
                run.keep(call, answer)

    A method that returns has committed: killing the process afterwards loses nothing of it. The
    order of writing is `add`, `hear`, `choose`, then for each call `begin` and `keep` or `fail`.
    """

    def __init__(
        self, folder: Path, plan: Mapping[str, Any] | None = None, *, blur: FaceBlur | None = None
    ) -> None:
        """Open the run in `folder`; with a `plan` (anything JSON can hold), to write it.

        A run that is written with a `blur` has all its pictures blurred from here on; one that is
        read has it applied to what it returns. A `RunError`: there is no run to read, another
        process writes it, it is damaged or of another version, or the disk is full.
        """
        super().__init__(folder, plan)
        try:
            if blur and plan is not None:
                self.blur_pictures(blur)
            self._blur = blur if blur and not self.is_blurred else None
        except BaseException:
            self.close()
            raise

    @classmethod
    def resume(cls, folder: Path, *, blur: FaceBlur | None = None) -> Run:
        with cls(folder) as run:
            plan = run.plan()
        return cls(folder, plan, blur=blur)

    def blur_pictures(self, blur: FaceBlur) -> None:
        """Blur the pictures for good; the old ones are overwritten on the disk."""
        if self.is_blurred:
            return
        blur.check()
        pictures = self.rows("SELECT rowid, thumbnail FROM frames WHERE thumbnail <> x''")
        changes = ((blur.jpeg(picture), row) for row, picture in pictures)
        with self._write_lock, explain_errors(self.folder):
            self._database.execute("PRAGMA secure_delete = ON")
            with transaction(self._database) as database:
                database.executemany("UPDATE frames SET thumbnail = ? WHERE rowid = ?", changes)
                database.execute("INSERT INTO notes VALUES (?, ?)", (BLURRED, blur.name))
            self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def plan(self) -> dict[str, Any]:
        row = self._row("SELECT plan FROM plans WHERE id = ?", self.plan_number)
        return dict(json.loads(row[0])) if row else {}

    @property
    def is_blurred(self) -> bool:
        return bool(self.note(BLURRED))

    @property
    def hides_faces(self) -> bool:
        return self.is_blurred or self._blur is not None

    def opened(self) -> str:
        row = self._row("SELECT opened FROM plans WHERE id = ?", self.plan_number)
        return str(row[0]) if row else ""

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
            "content": recording.content or recording.id,
            "versions": json.dumps(recording.versions),
        }
        with self.writing() as database:
            # Missed under another id before its content was known, or another content since.
            database.execute(
                "UPDATE recordings SET is_replaced = 1 WHERE path = ? AND id <> ?",
                (values["path"], recording.id),
            )
            database.execute(_ADD_RECORDING, values)

    def fail_recording(self, recording: str, path: str, reason: str, *, name: str = "") -> None:
        texts = map(as_text, (name, reason))
        with self.writing() as database:
            key = redact_url(storable_text(recording))
            database.execute(_FAIL_RECORDING, (key, stored_path(path), *texts))

    def drop_past_failures(self, listed: Iterable[str]) -> None:
        listed_paths = set(map(stored_path, listed))
        with self.writing() as database:
            database.execute(_OPENED_FOLDERS)
            failed = {path for (path,) in database.execute(_FAILED_PATHS)} - listed_paths
            gone = [path for path in failed if not is_remote(path) and not os.path.lexists(path)]
            database.executemany(_GONE, ((path,) for path in gone))

    def recordings(self) -> list[RecordingRow]:
        rows, folders = self.rows("SELECT * FROM present ORDER BY path, id"), self.folders()
        return [read_recording(row, folders) for row in rows]

    def recording(self, recording: str) -> RecordingRow | None:
        row = self._row("SELECT * FROM present WHERE id = ?", recording)
        return row and read_recording(row, self.folders(row["path"]))

    def folders(self, path: str = "") -> dict[str, str]:
        name = parts_of(path)[-1]
        query = "SELECT path FROM present WHERE substr(path, length(path) - ? + 1) = ?"
        return folders_apart(path for (path,) in self.rows(query, len(name), name))

    def recording_at(self, path: str) -> RecordingRow | None:
        row = self._row("SELECT * FROM present WHERE path = ?", stored_path(path))
        return row and read_recording(row, {})

    def failed_recordings(self) -> list[FailedRecording]:
        rows = self.rows(
            "SELECT id, path, failure, name FROM recordings"
            " WHERE failure IS NOT NULL AND NOT is_replaced ORDER BY path, id"
        )
        return [FailedRecording(*row) for row in rows]

    def failed_paths(self) -> set[str]:
        return self._values(
            f"{_FAILED_PATHS} UNION SELECT path FROM present"  # noqa: S608 - of our own
            " JOIN calls ON recording = number WHERE state = 'failed'"
        )

    def note(self, name: str) -> str:
        row = self._row("SELECT value FROM notes WHERE name = ?", name)
        return str(row[0]) if row else ""

    def set_note(self, name: str, value: str) -> None:
        with self.writing() as database:
            database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, value))

    def correct_clock(self, correction: ClockCorrection) -> None:
        """Show times of day by `correction`; if it is empty, by that of an earlier command."""
        if correction != ClockCorrection():
            self.set_note(CLOCK, json.dumps([correction.start, correction.offset]))
        stored = self.note(CLOCK)
        if not stored:
            return
        with self.writing() as database:
            rows = database.execute("SELECT number, began FROM present ORDER BY path").fetchall()
            times = ClockCorrection(*json.loads(stored)).apply([began for _, began in rows])
            database.executemany(
                "UPDATE recordings SET clock = ? WHERE number = ?",
                [(time, number) for time, (number, _) in zip(times, rows, strict=True)],
            )

    def keep_forecast_error(self, error: ForecastError | None) -> None:
        self.set_note(FORECAST_ERROR, json.dumps(asdict(error)) if error else "")

    def forecast_error(self) -> ForecastError | None:
        return _read_error(self.note(FORECAST_ERROR))

    def known(self, sources: Iterable[Source], *, key: str) -> dict[Source, tuple[str, int]]:
        """The content and audio track of those that were heard in the way that `key` names."""
        query = (
            "SELECT path, content, audio_track FROM present JOIN heard ON number = recording"
            " WHERE key = ?"
        )
        by_path = {path: (name, track) for path, name, track in self.rows(query, key)}
        paths = {source: stored_path(source.uris[0]) for source in sources}
        return {source: by_path[path] for source, path in paths.items() if path in by_path}

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

        The `key` names all that can change the windows (content, encoder, gate, grid). The audio
        track is not the one asked for if that is silent.
        """
        sketch = level.sketched() if level is not None else None
        grid = (windows.length, windows.duration, len(windows), float(np.sum(windows.rates)))
        measured = (windows.scores, windows.instants, windows.rates)
        arrays = (values.astype(EXACT).tobytes() for values in measured)
        lengths = as_json(lengths_to_json(windows.lengths))
        drawn = (sketch.values.astype(COARSE).tobytes(), sketch.hop) if sketch else (None, None)
        about = (sound_bytes, access, as_json(warnings), audio_track)
        with self.writing() as database:
            database.execute(
                f"INSERT OR REPLACE INTO heard VALUES (?{15 * ', ?'})",  # noqa: S608 - of our own
                (number_of(database, recording), key, *grid, *arrays, lengths, *drawn, *about),
            )

    def heard(self, recording: str) -> HeardRow:
        row = self._row(
            "SELECT window AS length, heard.duration, scores, instants, rates, lengths, level,"
            " level_hop, sound_bytes, access, warnings, key, audio_track"
            " FROM heard JOIN recordings ON number = recording WHERE id = ?",
            recording,
        )
        if row is None:
            nothing, usual = np.zeros(0), LengthModel().usual
            return HeardRow(0.0, 0.0, nothing, nothing, nothing, usual, recording=recording)
        values = dict(row)
        values["lengths"] = read_lengths(values["lengths"])
        for name in ("scores", "instants", "rates"):
            values[name] = np.frombuffer(values[name], EXACT)
        hop = values.pop("level_hop")
        if hop is not None:
            values["level"] = Track(np.frombuffer(values["level"], COARSE), hop=hop)
        values["warnings"] = tuple(json.loads(values["warnings"]))
        return HeardRow(**values, recording=recording)

    def keep_frames(self, recording: str, frames: PickFrames) -> None:
        span, *facts = astuple(frames)
        with self.writing() as database:
            database.execute(
                "INSERT OR REPLACE INTO frames VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (number_of(database, recording), *span, *facts),
            )

    def thumbnail(self, recording: str, span: Span) -> bytes:
        row = self._row(f"SELECT thumbnail {_FRAMES_OF}", recording, span.start, span.end)
        picture = bytes(row[0]) if row else b""
        return self._blur.jpeg(picture) if self._blur else picture

    def has_thumbnail(self, recording: str, span: Span) -> bool:
        rows = self.rows(f"SELECT length(thumbnail) {_FRAMES_OF}", recording, span.start, span.end)
        return any(size for (size,) in rows)

    def pictured(self, recording: str) -> list[Span]:
        """The windows that have a stored picture, by time."""
        query = (
            'SELECT "start", "end" FROM frames JOIN recordings ON number = recording'
            ' WHERE id = ? AND length(thumbnail) > 0 ORDER BY "start", "end"'
        )
        return [Span(*row) for row in self.rows(query, recording)]

    def paragraph(self, recording: str) -> dict[str, Any] | None:
        """Cited sentences that a model wrote about a recording, or about all if it is empty."""
        note = self.note(f"{PARAGRAPH}{recording}")
        return dict(json.loads(note)) if note else None

    def keep_evidence(
        self,
        recording: str,
        entries: Iterable[EvidenceEntry],
        *,
        kinds: Collection[str],
        origin: str = "",
        within: Span | None = None,
    ) -> None:
        """Replaces evidence of these `kinds`, by `origin` if given, that lies `within`.

        Entries are read while they are written.
        """
        with self.writing() as database:
            self._replace_evidence(
                database, recording, entries, kinds=kinds, origin=origin, within=within
            )

    def keep_speech(self, recording: str, entries: Iterable[EvidenceEntry], *, by: str) -> None:
        """Also an empty transcript: it is not made again."""
        with self.writing() as database:  # one transaction: no transcript is paid for twice
            self._replace_evidence(database, recording, entries, kinds={"said"})
            mark = "UPDATE recordings SET transcribed_by = ? WHERE id = ?"
            database.execute(mark, (by, recording))

    def _replace_evidence(
        self,
        database: sqlite3.Connection,
        recording: str,
        entries: Iterable[EvidenceEntry],
        *,
        kinds: Collection[str],
        origin: str = "",
        within: Span | None = None,
    ) -> None:
        number = number_of(database, recording)
        start, end = (within.start, within.end) if within else (0.0, math.inf)
        database.execute(
            "DELETE FROM evidence WHERE recording = ?"
            " AND kind IN (SELECT value FROM json_each(?))"
            ' AND (? = \'\' OR origin = ?) AND "start" >= ? AND "end" <= ?',
            (number, json.dumps(sorted(kinds)), origin, origin, start, end),
        )
        database.executemany(
            'INSERT INTO evidence (recording, "start", "end", kind, text, confidence, origin,'
            " data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ((number, *_evidence_values(entry)) for entry in entries),
        )

    def evidence(
        self, recording: str, *, kinds: Collection[str] = KINDS, within: Span | None = None
    ) -> list[EvidenceEntry]:
        rows = self.rows(
            'SELECT "start", "end", kind, text, confidence, origin, data FROM evidence'
            " JOIN recordings ON number = recording"
            " WHERE recordings.id = ? AND kind IN (SELECT value FROM json_each(?))"
            ' AND "start" < ? AND "end" > ? ORDER BY "start", "end", evidence.id',
            recording,
            json.dumps(sorted(kinds)),
            within.end if within else math.inf,
            within.start if within else -math.inf,
        )
        return [
            EvidenceEntry(
                Span(start, end), kind, text, confidence, origin, data and json.loads(data)
            )
            for start, end, kind, text, confidence, origin, data in rows
        ]

    def sound_sizes(self) -> list[tuple[str, float]]:
        """Named sounds, each with the sum of its seconds by its confidence.

        Those tracked over whole recordings only, if there are any.
        """
        query = (
            'SELECT text, sum(("end" - "start") * confidence) FROM evidence'
            " JOIN present ON number = recording WHERE kind = 'heard' AND origin LIKE ?"
            " GROUP BY text"
        )
        return [*map(tuple, self.rows(query, f"%{TRACK}") or self.rows(query, "%"))]

    def recordings_with_sound_track(self) -> set[str]:
        """Of any model."""
        return self._values(
            "SELECT DISTINCT recordings.id FROM evidence JOIN recordings ON number = recording"
            " WHERE kind = 'heard' AND origin LIKE ?",
            f"%{TRACK}",
        )

    def forget_ends(self, recording: str) -> None:
        """Sounds and speech of a recording that has grown are looked for again."""
        with self.writing() as database:
            self._replace_evidence(database, recording, (), kinds={"heard", "said"})
            mark = "UPDATE recordings SET transcribed_by = '' WHERE id = ?"
            database.execute(mark, (recording,))

    def transcribed(self, transcriber: str) -> set[str]:
        return self._values("SELECT id FROM recordings WHERE transcribed_by = ?", transcriber)

    def totals(self) -> Totals:
        return Totals(**dict(self._row(_TOTALS, self.plan_number)))


@lru_cache(maxsize=1)
def _read_error(note: str) -> ForecastError | None:
    return ForecastError.from_json(json.loads(note)) if note else None


def blur_of(run: Run, asked: FaceBlur | None, store: ModelStore) -> FaceBlur | None:
    if not asked and not run.is_blurred:
        return None
    from earmark.evidence.face_blur import FaceBlur

    return FaceBlur(store)


def find_runs(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob(FILE) if path.is_file())


def read_recording(row: sqlite3.Row, folders: Mapping[str, str]) -> RecordingRow:
    values = {column: row[column] for column in RECORDING_COLUMNS}
    values["chapters"] = read_chapters(row["chapters"])
    values["marks"] = tuple(json.loads(row["marks"]))
    values["versions"] = tuple(json.loads(row["versions"]))
    values["began"] = in_local_zone(row["clock"] or row["began"])
    values["clock_origin"] = clock_origin(row["began"], row["clock"])
    return RecordingRow(**values, folder=folders.get(row["path"], ""))


def _evidence_values(entry: EvidenceEntry) -> tuple[object, ...]:
    data = None if entry.data is None else as_json(entry.data)
    text = as_text(entry.text)
    return entry.span.start, entry.span.end, entry.kind, text, entry.confidence, entry.origin, data
