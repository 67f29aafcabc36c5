"""Reads a run; never writes it."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.captioning.request import Answer
from earmark.evidence.evidence_entry import KINDS, EvidenceEntry
from earmark.gate.forecast_error import CONFIDENCE, ForecastError, ForecastRange
from earmark.gate.survival import Survival
from earmark.ledger.records import (
    ChoiceRow,
    FailedRecording,
    HeardRow,
    PickRow,
    RecordingRow,
    StoredAnswer,
    Totals,
    folders_apart,
    parts_of,
)
from earmark.ledger.row_values import (
    COARSE,
    FAILED_PATHS,
    RECORDING_COLUMNS,
    read_chapters,
    split_tags,
    unpack,
)
from earmark.ledger.schema import FILE, connect, explain_errors
from earmark.selection.pick import Pick
from earmark.timeline import Span, Track

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur
    from earmark.ledger.text_index import SearchHit, TextIndex

BLURRED, FORECAST_ERROR = "blur", "forecast error"
"""Names of the notes that say what is blurred, and how far forecasts may be off."""

_RECORDING = ", ".join(RECORDING_COLUMNS)
_ANSWER = (
    "a.text, a.model, a.kind, a.data, a.prompt_tokens, a.completion_tokens, a.latency, a.form,"
    " a.finish, a.note, a.spend, a.at"
)
"""Columns, in the order that `read_recording` and `_read_answer` read them in."""

_PICKS = f"""
SELECT p.window, p."start", p."end", p.instant, p.score, p.rate, p.expected, p.reason, p.round,
    tags.words, calls.state,
    (SELECT reason FROM failures WHERE call = p.call ORDER BY id DESC LIMIT 1), {_ANSWER}
FROM picks p JOIN recordings r ON r.number = p.recording
    LEFT JOIN tags ON tags.id = p.tags
    LEFT JOIN calls ON calls.id = p.call LEFT JOIN answers a ON a.call = p.call
WHERE p.plan = ? AND r.id = ? ORDER BY p."start", p."end"
"""  # noqa: S608 - columns of our own


_FRAMES_OF = """
FROM frames JOIN recordings ON number = recording WHERE id = ? AND "start" = ? AND "end" = ?
"""

_ANSWERS_OF = f"""
SELECT "start", "end", {_ANSWER}
FROM calls JOIN recordings ON number = recording JOIN answers a ON a.call = calls.id
WHERE recordings.id = ? AND
"""  # noqa: S608 - columns of our own

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


class Run(AbstractContextManager["Run"]):
    """Reads one run under its present plan; another process may be writing it."""

    def __init__(self, folder: Path, *, blur: FaceBlur | None = None) -> None:
        """Open the run in `folder`; `blur` is applied to pictures that are stored without it.

        A `LedgerError` says that no run is there, or that it is damaged or of another version.
        """
        self.folder = folder
        with ExitStack() as opened:
            self._connection = opened.enter_context(closing(connect(folder, to_write=False)))
            self._connection.row_factory = sqlite3.Row
            self.refresh()
            self._blur = blur if blur and not self.is_blurred else None
            opened.pop_all()

    def close(self, *_: object) -> None:
        """Close the database."""
        self._connection.close()

    __exit__ = close

    def refresh(self) -> None:
        """Make the plan that the run was last opened with the present one."""
        self.plan_number = int(self.note("plan") or 0)
        """Its number in the database; 0 before the first."""

    def plan(self) -> dict[str, Any]:
        """The plan the run was last opened under; empty before the first."""
        rows = self.rows("SELECT plan FROM plans WHERE id = ?", self.plan_number)
        return dict(json.loads(next(rows, ["{}"])[0]))

    @property
    def is_blurred(self) -> bool:
        """Whether all pictures of the run are blurred, and are to be for good."""
        return bool(self.note(BLURRED))

    @property
    def hides_faces(self) -> bool:
        """Whether no picture of its recordings may be shown as it is."""
        return self.is_blurred or self._blur is not None

    def opened(self) -> str:
        """When the present plan was first used, in UTC."""
        rows = self.rows("SELECT opened FROM plans WHERE id = ?", self.plan_number)
        return str(next(rows, [""])[0])

    def recordings(self) -> list[RecordingRow]:
        """The recordings that could be processed, by path."""
        rows = self.rows(f"SELECT {_RECORDING} FROM present ORDER BY path, id")  # noqa: S608
        folders = self.folders()
        return [read_recording(row, folders) for row in rows]

    def recording(self, recording: str) -> RecordingRow | None:
        """The recording with that id; None if there is none that could be processed."""
        rows = self.rows(f"SELECT {_RECORDING} FROM present WHERE id = ?", recording)  # noqa: S608
        row = next(rows, None)
        return row and read_recording(row, self.folders(row["path"]))

    def folders(self, path: str = "") -> dict[str, str]:
        """The folders that tell recordings with the same file name apart, by path.

        Of all recordings, or only of those whose file has the same name as the one at `path`.
        """
        name = parts_of(path)[-1]
        query = "SELECT path FROM present WHERE substr(path, length(path) - ? + 1) = ?"
        return folders_apart(path for (path,) in self.rows(query, len(name), name))

    def survival(self) -> Survival | None:
        """How long actions last, according to the rates; None in older runs."""
        kept = self.note("survival")
        return _read_survival(kept) if kept else None

    def forecast_error(self) -> ForecastError | None:
        """How far forecasts of the present plan may be off; None if that is not measured."""
        return _read_error(self.note(FORECAST_ERROR))

    def note(self, name: str) -> str:
        """The note `name`; empty if there is none."""
        rows = self.rows("SELECT value FROM notes WHERE name = ?", name)
        return str(next(rows, [""])[0])

    def failed_recordings(self) -> list[FailedRecording]:
        """The recordings that could not be processed, by path."""
        rows = self.rows(
            "SELECT id, path, failure, name FROM recordings"
            " WHERE failure IS NOT NULL AND NOT is_replaced ORDER BY path, id"
        )
        return [FailedRecording(*row) for row in rows]

    def failed_paths(self) -> set[str]:
        """The paths of recordings that could not be processed or have failed calls."""
        return self._set(
            f"{FAILED_PATHS} UNION SELECT path FROM present"  # noqa: S608 - of our own
            " JOIN calls ON recording = number WHERE state = 'failed'"
        )

    def answered_calls(self) -> set[str]:
        """The identities of all calls that are answered, under any plan."""
        return self._set("SELECT identity FROM calls WHERE state = 'answered'")

    def heard(self, recording: str) -> HeardRow | None:
        """The result of listening; None for a recording not yet listened to."""
        query = (
            "SELECT window, scores, rates, instants, heard.duration, level, level_hop, sound_bytes,"
            " access, warnings, per_call, key, audio_track"
            " FROM heard JOIN recordings ON number = recording WHERE id = ?"
        )
        row = next(self.rows(query, recording), None)
        if row is None:
            return None
        window, *arrays, duration, level, hop, sound_bytes, access, warnings = row[:10]
        scores, rates, instants = map(unpack, arrays)
        track = Track(np.frombuffer(level, COARSE), hop=hop) if level is not None else None
        about = (sound_bytes, access, tuple(json.loads(warnings)), *row[10:])
        return HeardRow(recording, window, scores, rates, instants, duration, track, *about)

    def choice(self, recording: str) -> ChoiceRow:
        """How the picks of a recording were chosen; empty before they were."""
        query = (
            "SELECT rule, notes, forecast, forecast_low, forecast_high, forecast_confidence"
            " FROM choices JOIN recordings ON number = recording WHERE plan = ? AND id = ?"
        )
        row = next(self.rows(query, self.plan_number, recording), None)
        if row is None:
            return ChoiceRow()
        rule, notes, expected, low, high, sure = row
        told = None
        if low is not None:
            told = ForecastRange(low, expected, high, sure or CONFIDENCE, is_unlike=sure is None)
        return ChoiceRow(rule, expected, tuple(json.loads(notes)), told)

    def picks(self, recording: str) -> Iterator[PickRow]:
        """The picks of a recording in order, each with its answer or failure."""
        rows = self.rows(_PICKS, self.plan_number, recording)
        return (_pick_row(recording, row) for row in rows)

    def tags(self, recording: str, *, sounds: str) -> dict[Span, tuple[str, ...]]:
        """The tags of the spans that plans with the sound model `sounds` have picked."""
        rows = self.rows(
            'SELECT DISTINCT t."start", t."end", words FROM recordings CROSS JOIN plans'
            " CROSS JOIN picks p ON p.plan = plans.id AND p.recording = recordings.number"
            " JOIN tags t ON t.id = p.tags"
            " WHERE recordings.id = ? AND json_extract(plans.plan, '$.sounds') = ?",
            recording,
            sounds,
        )
        return {Span(start, end): tuple(json.loads(words)) for start, end, words in rows}

    def thumbnail(self, recording: str, span: Span) -> bytes:
        """The JPEG stored for a pick; empty if there is none."""
        rows = self.rows(f"SELECT thumbnail {_FRAMES_OF}", recording, span.start, span.end)
        picture = bytes(next(rows, [b""])[0])
        return self._blur.jpeg(picture) if self._blur else picture

    def has_thumbnail(self, recording: str, span: Span) -> bool:
        """Whether a picture is stored for a pick."""
        rows = self.rows(f"SELECT length(thumbnail) {_FRAMES_OF}", recording, span.start, span.end)
        return any(size for (size,) in rows)

    def answers(self, recording: str, span: Span) -> list[StoredAnswer]:
        """Every answer stored for a span, the latest first: other prompts, other models."""
        query = f'{_ANSWERS_OF} "start" = ? AND "end" = ? ORDER BY at DESC, a.call DESC'
        rows = self.rows(query, recording, span.start, span.end)
        return [_read_answer(row[2:]) for row in rows]

    def captions(self, recording: str) -> Iterator[tuple[Span, StoredAnswer]]:
        """Every caption stored for a recording with its span, in the order they were stored."""
        rows = self.rows(f"{_ANSWERS_OF} a.kind = 'caption' ORDER BY at, a.call", recording)
        return ((Span(*row[:2]), _read_answer(row[2:])) for row in rows)

    def evidence(
        self, recording: str, *, kinds: Collection[str] = KINDS, within: Span | None = None
    ) -> Iterator[EvidenceEntry]:
        """Evidence of a recording in order of time; only what overlaps `within`, if given."""
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
        for start, end, kind, text, confidence, origin, data in rows:
            known = json.loads(data) if data else None
            yield EvidenceEntry(Span(start, end), kind, text, confidence, origin, known)

    def common_sounds(self, *, most: int, origin: str) -> list[str]:
        """The named sounds of the run, the most frequent first; those named by `origin` lead."""
        rows = self.rows(
            "SELECT text FROM evidence JOIN present ON number = recording WHERE kind = 'heard'"
            " GROUP BY text ORDER BY sum(origin = ?) DESC, count(*) DESC, text LIMIT ?",
            origin,
            most,
        )
        return [name for (name,) in rows]

    def first_caption(self) -> tuple[float, str]:
        """The start and the text of the first caption, by path and time; empty without one."""
        rows = self.rows(
            'SELECT p."start", a.text FROM present r'
            " CROSS JOIN picks p ON p.plan = ? AND p.recording = r.number"
            " CROSS JOIN answers a ON a.call = p.call AND a.kind = 'caption'"
            ' ORDER BY r.path, r.id, p."start" LIMIT 1',
            self.plan_number,
        )
        start, text = next(rows, (0.0, ""))
        return float(start), str(text)

    def recordings_with_evidence(self, kind: str, *, origin: str) -> set[str]:
        """The recordings that have evidence of `kind` by the model `origin`."""
        return self._set(
            "SELECT DISTINCT recordings.id FROM evidence JOIN recordings ON number = recording"
            " WHERE kind = ? AND origin = ?",
            kind,
            origin,
        )

    def transcribed(self, transcriber: str) -> set[str]:
        """The recordings that `transcriber` has transcribed, those without speech included."""
        return self._set("SELECT id FROM recordings WHERE transcribed_by = ?", transcriber)

    def last_model(self) -> str:
        """The model that gave the latest answer; empty if there is no answer."""
        query = (
            "SELECT calls.model FROM answers JOIN calls ON id = call WHERE kind = 'caption'"
            " ORDER BY at DESC LIMIT 1"
        )
        return str(next(self.rows(query), [""])[0])

    def totals(self) -> Totals:
        """Counts of the run so far."""
        return Totals(**dict(next(self.rows(_TOTALS, self.plan_number))))

    def search(self, words: str, *, most: int = 50) -> list[SearchHit]:
        """What holds all of `words`, the best match first: see `TextIndex.search`."""
        return self.texts.search(words, most=most)

    @property
    def texts(self) -> TextIndex:
        """The texts that can be searched."""
        from earmark.ledger.text_index import TextIndex

        return TextIndex(self.rows, self.plan_number)

    def _set(self, query: str, *values: object) -> set[str]:
        return {value for (value,) in self.rows(query, *values)}

    def rows(self, query: str, *values: object) -> Iterator[Any]:
        """The rows of a query, read lazily."""
        with explain_errors(self.folder):
            found = self._connection.execute(query, values)
            # Not the cursor itself: an abandoned one would be closed late, after its database.
            yield from (row for row in found)


@lru_cache(maxsize=8)
def _read_survival(kept: str) -> Survival:
    """Parsed once: every recording of an archive uses the same curve."""
    return Survival(*map(tuple, json.loads(kept)))


def find_runs(folder: Path) -> list[Path]:
    """The folder itself if it is a run, and every run in its subfolders, by name."""
    return sorted(path.parent for path in folder.rglob(FILE) if path.is_file())


@lru_cache(maxsize=1)
def _read_error(kept: str) -> ForecastError | None:
    return ForecastError.from_json(json.loads(kept)) if kept else None


def read_recording(row: Sequence[Any], folders: Mapping[str, str]) -> RecordingRow:
    """The recording whose columns `row` begins with; `folders` as `Run.folders` gives them."""
    *facts, chapters, began, marks = row[: len(RECORDING_COLUMNS)]
    marked, folder = tuple(json.loads(marks)), folders.get(facts[1], "")
    return RecordingRow(*(*facts, read_chapters(chapters), began, marked, folder))


def _pick_row(recording: str, row: Sequence[Any]) -> PickRow:
    turn, words, state, failure, *answer = row[8:]
    kept = _read_answer(answer) if answer[0] is not None else None
    is_settled = kept is not None
    tags = sounds = split_tags(words, None)
    if kept and kept.answer.kind == "tags":
        tags = split_tags(words, kept.answer.text)
        kept, state = None, "waiting"
    status = state if state in ("answered", "failed", "in flight") else "not asked"
    failure = failure if status == "failed" else None
    return PickRow(recording, Pick(*row[:8]), tags, status, kept, failure, sounds, is_settled, turn)


def _read_answer(row: Sequence[Any]) -> StoredAnswer:
    text, model, kind, data, *rest, note, spend, at = row
    known = json.loads(data) if data else None
    answer = replace(Answer(text, model, kind, known, *rest), note=note)
    return StoredAnswer(answer, spend, at)
