"""One page a day about a watch: what was heard, asked and missed in the last 24 hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from earmark.report.day import read_recordings
from earmark.run.live_rows import gaps
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.text_format import counted, format_length
from earmark.timeline import Span

NOTE = "digest"
"""Of the run: the end of the last one."""

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class DailyDigest:
    at: str
    """Time of day, of this machine's zone."""

    def due(self, run: Run, now: float) -> float | None:
        """The end of a digest that was not made yet; a new run waits for its first."""
        end = latest(self.at, now)
        stored = run.note(NOTE)
        if not stored or float(stored) < end:
            run.set_note(NOTE, str(end))
        return end if stored and float(stored) < end else None


def latest(at: str, now: float) -> float:
    """The last time, up to `now`, at which the clock showed `at`."""
    today = datetime.fromtimestamp(now)
    moment = datetime.combine(today.date(), time.fromisoformat(at))
    if moment > today:
        moment = datetime.combine(today.date() - timedelta(days=1), time.fromisoformat(at))
    return moment.timestamp()


def digest_lines(run: Run, span: Span) -> Iterator[str]:
    """`span` in wall-clock time."""
    for row in run.recordings():
        begin = datetime.fromisoformat(row.began).timestamp() if row.began else 0.0
        inside = Span(max(0.0, span.start - begin), min(row.duration, span.end - begin))
        if row.began and inside.end > inside.start:
            yield from _recording_lines(run, row, inside)


def _recording_lines(run: Run, row: RecordingRow, span: Span) -> Iterator[str]:
    yield row.name
    for title, line in read_recordings(run, [row], within=span)[0].lines():
        if title != "Silent":  # of the part, not of these 24 hours
            yield f"  {title + ':':<12}{line}"
    picks = [pick for pick in run.picks(row.id) if pick.span.overlaps(span)]
    answers = sum(pick.answer is not None for pick in picks)
    yield f"  {'Asked:':<12}{counted(len(picks), 'window')}, {counted(answers, 'answer')}"
    lost = [gap for gap, _ in gaps(run, row.id) if gap.overlaps(span)]
    if lost:
        missing = sum(min(gap.end, span.end) - max(gap.start, span.start) for gap in lost)
        yield f"  {'Not heard:':<12}{format_length(missing)} in {counted(len(lost), 'gap')}"
