"""The result of a run, as an object that a notebook can display."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from earmark.captioning.usage import Tally
from earmark.gate.forecast_error import as_range
from earmark.ledger.records import Expected, RecordingRow, Totals
from earmark.ledger.run_reader import Run
from earmark.reporting.html_document import embed_image
from earmark.selection.notebook import (
    MAX_RECORDINGS,
    MAX_ROWS,
    DataFrame,
    Markup,
    draw_strip,
    to_data_frame,
    write_section,
    write_table,
)
from earmark.timeline import format_clock

if TYPE_CHECKING:
    from earmark.selection.stopping import Sightings


@dataclass(frozen=True, slots=True, repr=False)
class CaptionResult:
    """The result of a run."""

    folder: Path
    page: Path
    totals: Totals
    tally: Tally
    """Calls of this process only; `totals` includes those of earlier processes."""
    missed: int
    """Number of recordings that could not be processed."""
    interrupted: int
    """Calls that an earlier process left in flight; these may have been made twice."""
    coverage: Expected = (None, None)
    """Share of the actions that the picks are expected to touch, 0 to 1, and its range."""
    actions: Expected = (None, None)
    """Number of actions expected in all recordings, and its range."""
    sightings: Sightings | None = None
    """New activities in the answers: expected, seen, probably missed; None without rounds."""

    def open(self) -> Run:
        """The run, open for reading; close it when done."""
        return Run(self.folder)

    def to_pandas(self) -> DataFrame:
        """A data frame with one row per pick, the fields of `ExportRow`. Needs pandas."""
        from earmark.reporting.exporter import Export, ExportRow

        with self.open() as run:
            rows = map(asdict, Export.of(run, run.recordings()).rows)
            return to_data_frame(rows, [each.name for each in fields(ExportRow)])

    def __repr__(self) -> str:
        totals = self.totals
        counts = f"answered={totals.answered}, picks={totals.picks}, windows={totals.windows}"
        troubles = f"failed={totals.failed}, missed={self.missed}"
        expected = f"expected coverage {as_range(*self.coverage)}"
        return f"CaptionResult(run={str(self.folder)!r}, {counts}, {troubles}, {expected})"

    def _repr_html_(self) -> str:
        with self.open() as run:
            recordings = run.recordings()
            shown = [_as_html(run, row) for row in recordings[:MAX_RECORDINGS]]
            missed = [{"path": row.path, "why": row.reason} for row in run.failed_recordings()]
        more = len(recordings) - len(shown)
        rest = [f"<p>… and {more} more recordings</p>"] if more > 0 else []
        return "".join([*shown, *rest, write_table(missed)])


def _as_html(run: Run, recording: RecordingRow) -> str:
    picks = list(run.picks(recording.id))
    rows: list[dict[str, object]] = []
    for place, row in enumerate(picks):
        picture = run.thumbnail(recording.id, row.span) if place < MAX_ROWS else b""
        image = f'<img alt="" src="{embed_image(picture)}">' if picture else ""
        caption = row.caption if row.kept else row.failure or row.status
        span = f"{format_clock(row.span.start)} – {format_clock(row.span.end)}"
        tags = ", ".join(row.tags)
        rows.append({"": Markup(image), "span": span, "caption": caption, "tags": tags})
    strip = draw_strip(recording.duration, (row.span for row in picks))
    choice = run.choice(recording.id)
    expected = f"expected coverage {as_range(choice.forecast, choice.forecast_range)}"
    return write_section(recording.name or recording.path, strip, expected, write_table(rows))
