"""The picks of a run as flat rows, the same for every table format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from earmark.ledger import PickRow, RecordingRow, Run


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One pick and all that is known of it."""

    recording: str
    """Of its content: the same wherever the file lies."""
    id: str
    """What the user's manifest calls the recording; empty where none does."""
    path: str
    window: int
    start: float
    end: float
    instant: float
    score: float
    rate: float
    expected: float
    reason: str
    tags: tuple[str, ...]
    """What is heard (or seen) in words; not a caption."""
    status: str
    """`answered`, `failed`, `in flight` or `not asked`."""
    caption: str | None
    """None unless a model answered."""
    model: str | None
    form: str | None
    finish: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    latency: float | None
    spend: float | None
    failure: str | None


def rows(run: Run) -> Iterator[ExportRow]:
    """Every pick of the present plan, by recording and time."""
    for recording in run.recordings():
        for pick in run.picks(recording.id):
            yield _row(recording, pick)


def _row(recording: RecordingRow, row: PickRow) -> ExportRow:
    pick, kept = row.pick, row.kept
    answer = kept.answer if kept else None
    return ExportRow(
        recording=recording.id,
        id=recording.name,
        path=recording.path,
        window=pick.window,
        start=pick.start,
        end=pick.end,
        instant=pick.instant,
        score=pick.score,
        rate=pick.rate,
        expected=pick.expected,
        reason=pick.reason,
        tags=row.tags,
        status=row.status,
        caption=answer.text if answer else None,
        model=answer.model if answer else None,
        form=answer.form if answer else None,
        finish=answer.finish if answer else None,
        prompt_tokens=answer.prompt_tokens if answer else None,
        completion_tokens=answer.completion_tokens if answer else None,
        latency=answer.latency if answer else None,
        spend=kept.spend if kept else None,
        failure=row.failure,
    )
