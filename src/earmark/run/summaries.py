"""Counts of each recording of a run, by which an archive is listed and sorted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from earmark.run.records import RecordingRow, Totals
from earmark.run.run import EXACT, Run, read_recording
from earmark.timeline import FloatArray

_SUMMARIES = """
SELECT r.*, 1 AS recordings, coalesce(h.windows, 0) AS windows,
    iif(o.plan IS NOT NULL AND o.forecast IS NULL, 0.0, coalesce(h.expected, 0.0)) AS expected,
    count(p.plan) AS picks, coalesce(sum(a.kind = 'caption'), 0) AS answered,
    coalesce(sum(c.state = 'failed'), 0) AS failed,
    count(CASE WHEN a.kind = 'caption' OR c.state = 'failed' THEN 1 END) AS asked,
    total(iif(o.forecast IS NULL, 0, p.expected)) AS touched, total(a.spend) AS spend,
    coalesce(sum(iif(a.kind = 'caption', a.prompt_tokens, 0)), 0) AS prompt_tokens,
    coalesce(sum(iif(a.kind = 'caption', a.completion_tokens, 0)), 0) AS completion_tokens,
    coalesce(f.decoded, 0) AS frames_decoded, coalesce(f.sent, 0) AS frames_sent,
    coalesce(f.faces, 0) AS faces_blurred,
    coalesce(f.bytes, 0) + coalesce(h.sound_bytes, 0) AS bytes_read, max(p.score) AS best_score,
    h.recording IS NOT NULL AND (o.plan IS NULL OR o.forecast IS NOT NULL) AS has_forecast,
    (SELECT count(*) FROM evidence WHERE recording = r.number AND kind = 'said') AS said,
    (SELECT count(*) FROM evidence WHERE recording = r.number AND kind = 'heard') AS sounds,
    (SELECT count(*) FROM corrections WHERE recording = r.number AND withdrawn IS NULL)
        AS corrections
FROM present r LEFT JOIN heard h ON h.recording = r.number
    LEFT JOIN (
        SELECT recording, sum(frames_decoded) AS decoded, sum(frames_sent) AS sent,
            sum(bytes_read) AS bytes, sum(faces_blurred) AS faces
        FROM frames GROUP BY recording) f ON f.recording = r.number
    LEFT JOIN choices o ON o.plan = ?1 AND o.recording = r.number
    LEFT JOIN picks p ON p.plan = ?1 AND p.recording = r.number
    LEFT JOIN calls c ON c.id = p.call LEFT JOIN answers a ON a.call = p.call
GROUP BY r.number ORDER BY r.path, r.id
"""

_MARKS = """
SELECT w.key, p."start", p."end",
    CASE WHEN a.kind = 'caption' THEN 'answered' WHEN state = 'failed' THEN 'failed'
        ELSE 'picked' END
FROM json_each(?1) w CROSS JOIN recordings r ON r.id = value
    CROSS JOIN picks p ON p.plan = ?2 AND p.recording = r.number
    LEFT JOIN calls ON calls.id = p.call LEFT JOIN answers a ON a.call = p.call
UNION ALL
SELECT w.key, c."start", c."end", 'corrected'
FROM json_each(?1) w CROSS JOIN recordings r ON r.id = value
    CROSS JOIN corrections c ON c.recording = r.number AND withdrawn IS NULL
"""
"""In the order written: SQLite would begin with all picks."""


@dataclass(frozen=True, slots=True)
class RecordingSummary:
    recording: RecordingRow
    totals: Totals
    """Calls, tokens and spend are those of the answers its picks are shown with."""
    best_score: float | None = None
    has_forecast: bool = True
    said: int = 0
    sounds: int = 0
    corrections: int = 0


def read_summaries(run: Run) -> Iterator[RecordingSummary]:
    folders = run.folders()
    for row in run.rows(_SUMMARIES, run.plan_number):
        totals = Totals(**{name: row[name] for name in {*row.keys()} & {*Totals.__slots__}})
        best_score, has_forecast, *counts = row[-5:]
        recording = read_recording(row, folders)
        yield RecordingSummary(recording, totals, best_score, bool(has_forecast), *counts)


def read_strips(
    run: Run, recordings: Sequence[str]
) -> tuple[list[FloatArray], list[tuple[int, float, float, str]]]:
    """The scores of each, and what is `picked`, `answered`, `failed` or `corrected`.

    The latter are the index of the recording, start, end, and which of these it is.
    """
    ids = json.dumps(list(recordings))
    scores: list[FloatArray] = [np.zeros(0) for _ in recordings]
    for index, blob in run.rows(
        "SELECT w.key, scores FROM json_each(?) w CROSS JOIN recordings r ON r.id = value"
        " CROSS JOIN heard ON recording = number",
        ids,
    ):
        scores[index] = np.frombuffer(blob, EXACT)
    return scores, list(map(tuple, run.rows(_MARKS, ids, run.plan_number)))
