"""The report of a run: one page, or for many recordings an index and a page for each."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from earmark.captioning.dispatch import Tally
from earmark.evidence.picture_evidence import REQUIREMENTS, available_kinds
from earmark.gate.forecast_error import CONFIDENCE, ForecastError, as_count, as_range, as_share
from earmark.grid import Windows
from earmark.media.atomic_file import remove_stale, write_whole
from earmark.models.model_store import model_store
from earmark.report.day import expected_activity, read_day
from earmark.report.export_formats import COLUMNS, Export
from earmark.report.report_page import (
    PAGES,
    day_json,
    describe_run,
    forecast_of,
    link_to,
    pictures_of,
    save_page,
    write_page,
)
from earmark.run.records import Expected, Totals, parts_of, spare_recordings
from earmark.run.run import Run
from earmark.run.summaries import RecordingSummary, read_summaries
from earmark.selection.outlook import FRAMED
from earmark.selection.price_search import coverage_of_budgets
from earmark.selection.result import measured_range
from earmark.text_format import (
    DataFrame,
    counted,
    format_bytes_read,
    format_notes,
    format_spend,
    to_data_frame,
)
from earmark.version import VERSION

if TYPE_CHECKING:
    from earmark.selection.rounds import Sightings

MOST_ON_A_PAGE = 24

SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)

MEASURED = (
    f"The range around the line held {100 * CONFIDENCE:.0f} % of the recordings it was measured on."
)

MOST_LISTED = 20
"""Most failed recordings, and most notes, printed on the terminal; the report lists all."""

NO_EVIDENCE = (
    "no installed model tells what is {kinds}: "
    "pip install 'earmark[yamnet,vision]' and run `earmark models get evidence`"
)
ADD_A_MODEL = (
    "for an overview: earmark show {folder}; for captions, run {command} with "
    "--model gguf:MODEL.gguf (no server needed) or --model http://HOST/v1#NAME"
)


@dataclass(frozen=True, slots=True, repr=False)
class CaptionResult:
    folder: Path
    page: Path
    totals: Totals
    tally: Tally
    """Of this process only; `totals` includes those of earlier processes."""
    missed: int
    interrupted: int
    """Left in flight by an earlier process; these may have been made twice."""
    coverage: Expected = (None, None)
    """Expected share of the actions, 0 to 1, and its range."""
    actions: Expected = (None, None)
    sightings: Sightings | None = None
    currency: str = ""
    framed: float | None = None
    """Expected share of the actions during which a frame was sent; None if not forecast."""
    unwritten: str = ""
    """Why the paragraphs that were asked for were not all written."""

    def open(self) -> Run:
        return Run(self.folder)

    def to_pandas(self) -> DataFrame:
        """One row per pick, as in exported tables. Needs pandas."""
        with self.open() as run:
            return to_data_frame(Export.of(run, run.recordings()).rows(), COLUMNS)

    def __repr__(self) -> str:
        totals = self.totals
        counts = f"answered={totals.answered}, picks={totals.picks}, windows={totals.windows}"
        troubles = f"failed={totals.failed}, missed={self.missed}"
        expected = f"expected coverage {as_range(*self.coverage)}"
        return f"CaptionResult(run={str(self.folder)!r}, {counts}, {troubles}, {expected})"

    @property
    def is_complete(self) -> bool:
        """Whether every recording was processed and no call of this process failed."""
        return not (self.missed or self.tally.failed or self.tally.stopped)

    @property
    def is_asked(self) -> bool:
        """Whether a model was asked."""
        return bool(self.totals.answered or self.totals.failed or self.tally.stopped)

    def to_json(self) -> dict[str, Any]:
        share, limits = self.coverage
        plain = {
            "run": str(self.folder),
            "report": str(self.page),
            "missed": self.missed,
            "coverage": share,
            "coverage_range": asdict(limits) if limits else None,
            "totals": asdict(self.totals),
            "this_run": self.tally.to_json(),
        }
        return plain | ({"sightings": asdict(self.sightings)} if self.sightings else {})

    def lines(self, command: str = "the same command") -> Iterator[str]:
        """What was done so far and what it cost; `command` continues the run."""
        totals = self.totals
        if totals.recordings:
            yield from self._total_lines()
        if self.sightings and totals.answered:
            yield from self.sightings.lines()
        if totals.recordings:
            yield f"report: {self.page}"
        if totals.picks and not self.is_asked:
            available = available_kinds(model_store())
            if missing := [kind for kind in REQUIREMENTS if kind not in available]:
                yield NO_EVIDENCE.format(kinds=" or ".join(missing))
            yield ADD_A_MODEL.format(command=command, folder=self.folder)

    def _total_lines(self) -> Iterator[str]:
        totals, count = self.totals, self.totals.frame_count
        decoded = f"{totals.frames_decoded} of {count} frames decoded"
        if totals.frames_decoded > count:  # windows after the same key frame all decode from it
            decoded = f"{totals.frames_decoded} frames decoded (some of {count} more than once)"
        found = f"{counted(totals.picks, 'moment')} found in {totals.windows} windows"
        done = f"{found}; no model was asked"
        if self.is_asked:
            done = f"{found}; {totals.answered} captioned, {totals.failed} failed"
        yield f"{done}; {decoded}, {format_bytes_read(totals.bytes_read, totals.size_bytes)}"
        if totals.faces_blurred:
            yield f"{counted(totals.faces_blurred, 'face')} blurred in what was sent"
        if totals.expected:
            waits = self.is_asked and totals.answered < totals.picks
            once = f" once all {totals.picks} are answered" if waits else ""
            by = " by the sound alone" if self.sightings else ""
            expected = as_range(*self.coverage)
            yield f"expected coverage{once}{by} {expected}; {as_count(*self.actions)}"
            if self.framed is not None:
                yield FRAMED.format(framed=as_share(self.framed))
        if totals.prompt_tokens:
            spent = format_spend(totals.spend, self.currency)
            yield f"{totals.prompt_tokens:,} tokens in, {totals.completion_tokens:,} out{spent}"

    def errors(self) -> list[str]:
        """Why recordings could not be processed, the first of them."""
        if not self.missed:
            return []
        with self.open() as run:
            return [failed.reason for failed in run.failed_recordings()[:MOST_LISTED]]

    def warnings(self) -> Iterator[str]:
        tally, totals = self.tally, self.totals
        if not totals.recordings and not self.missed:
            yield "there is no recording to work on"
        if self.interrupted and totals.interrupted:  # without a model, nothing is paid twice
            calls = counted(self.interrupted, "call")
            yield f"{calls} in flight when the last run ended may have been asked twice"
        with self.open() as run:
            failed = len(run.failed_recordings()) if self.missed else 0
            paths = [(row.path, run.choice(row.id).notes) for row in run.recordings()]
        if failed > MOST_LISTED:
            yield f"{failed - MOST_LISTED} more recordings could not be processed; see the report"
        notes = format_notes((path, note) for path, notes in paths for note in notes)
        yield from notes[:MOST_LISTED]
        if len(notes) > MOST_LISTED:
            yield f"{len(notes) - MOST_LISTED} more notes on recordings; see the report"
        if tally.failed:
            is_repeated = tally.last_reason in (tally.stopped or "")
            last = "" if is_repeated else f", the last: {tally.last_reason}"
            yield f"{counted(tally.failed, 'call')} failed{last}"
        if totals.cut:
            longer = "--answer-tokens allows longer ones, and asks every window again"
            yield f"{counted(totals.cut, 'answer')} cut off at the longest allowed; {longer}"
        if tally.stopped:
            # Caps include what earlier commands of the run have spent, so only a higher cap helps.
            again = " with a higher cap" if tally.stopped.startswith("the cap o") else ""
            yield f"stopped: {tally.stopped}; run the same command{again} to continue"
        if self.unwritten:
            yield f"the summary was not written: {self.unwritten}"
        if tally.guessed:
            yield (
                f"{counted(tally.guessed, 'attempt')} came without a count of tokens: "
                "the most they can have taken is counted"
            )


def write_report(run: Run, path: Path, *, title: str | None = None) -> Path:
    """One page, or an index with a page per recording; `ValueError` if `path` is a recording."""
    spare_recordings(run.recordings(), [path])
    for folder in (path.parent, path.parent / PAGES, pictures_of(path)):
        remove_stale(folder)
    is_short = len(run.recordings()) <= MOST_ON_A_PAGE
    return (write_page if is_short else write_index)(run, path, title=title)


def write_index(run: Run, path: Path, *, title: str | None = None) -> Path:
    """The index is written last, so that every page it links to exists."""
    heading, error, day = describe_run(run, title), run.forecast_error(), read_day(run)
    summaries = list(read_summaries(run))
    rows = [_index_row(run, summary) for summary in summaries]
    _write_pages(run, heading, list(zip(summaries, rows, strict=True)), path.parent / PAGES)
    data = heading | {
        "columns": list(rows[0]) if rows else [],
        "recordings": [list(row.values()) for row in rows],
        "curve": curve(run, error),
        "sure": MEASURED if error else "",
        "day": day_json(run, day),
        "files": {
            each.row.id: [
                [link_to(file, beside=path.parent), start] for file, start in each.row.files
            ]
            for each in day.recordings
        },
        "pages": {
            summary.recording.id: row["page"] for summary, row in zip(summaries, rows, strict=True)
        },
    }
    return save_page(path, "index", data)


def curve(run: Run, error: ForecastError | None = None) -> list[tuple[float, ...]]:
    """Points (calls, expected coverage), each budget spent at one price over all recordings.

    With the `error` of forecasts, also the low and high end. Empty if no action is expected.
    """
    recordings = []
    for recording in run.recordings():
        if heard := run.heard(recording.id):
            rates = heard.rates  # only the rates of its windows matter
            duration = len(rates) * heard.length
            recordings.append(Windows(heard.length, duration, rates, rates, rates, heard.lengths))
    total = sum(map(len, recordings))
    budgets = sorted({round(share * total) for share in SHARES})
    reached = coverage_of_budgets(recordings, budgets, tolerance=0.002)
    if not total or math.isnan(reached[0]):
        return []
    actions = sum(float(windows.rates.sum()) for windows in recordings)
    range_of = partial(measured_range, error=error, actions=actions, duration=run.totals().duration)
    points: list[tuple[float, ...]] = []
    for calls, coverage in [(0, 0.0), *zip(budgets, reached, strict=True)]:
        bounds = range_of(coverage)
        shares = (bounds.expected, bounds.low, bounds.high) if bounds else (coverage,)
        points.append((calls, *(round(share, 4) for share in shares)))
    return points


def page_name(summary: RecordingSummary) -> str:
    stem = parts_of(summary.recording.path)[-1].rpartition(".")[0] or "recording"
    safe = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in stem)
    return f"{safe[:40]}-{summary.recording.id[:10]}.html"


def _index_row(run: Run, summary: RecordingSummary) -> dict[str, Any]:
    row, totals = summary.recording, summary.totals
    choice, going = run.choice(row.id), expected_activity(run.heard(row.id))
    share, bounds = choice.forecast, choice.forecast_range
    return {
        "name": row.title,
        "path": row.path,
        "page": f"{PAGES}/{quote(page_name(summary))}",
        "duration": round(row.duration, 1),
        "windows": totals.windows,
        "picks": totals.picks,
        "answered": totals.answered,
        "failed": totals.failed,
        "coverage": None if share is None else round(share, 4),
        "low": round(bounds.low, 4) if bounds else None,
        "high": round(bounds.high, 4) if bounds else None,
        "words": as_range(share, bounds),
        "spend": round(totals.spend, 6),
        "active": None if going is None else round(going.hop * float(going.values.sum()), 1),
    }


def _write_pages(
    run: Run,
    heading: dict[str, Any],
    rows: Sequence[tuple[RecordingSummary, dict[str, Any]]],
    folder: Path,
) -> None:
    """Write the page of every recording that has changed since its page was written.

    A page changes only with the counts of its recording, the plan, the version or the blurring of
    faces, which are stored beside the pages. A page with failures is always written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state_file, before = folder / "written.json", {}
    with suppress(FileNotFoundError, ValueError):
        before = json.loads(state_file.read_text(encoding="utf-8"))
    edition = hashlib.sha256(
        json.dumps([VERSION, run.plan(), run.hides_faces]).encode()
    ).hexdigest()[:16]
    now: dict[str, list[Any]] = {}
    for summary, row in rows:
        name, recording = page_name(summary), summary.recording
        now[name] = [edition, *row.values()]
        is_current = isinstance(before, dict) and before.get(name) == now[name]
        if summary.totals.failed or not is_current or not (folder / name).exists():
            heard = run.heard(recording.id)
            changes = {
                "title": recording.title,
                "totals": asdict(summary.totals),
                "missed": [],
                "coverage": forecast_of(run, recording, heard),
            }
            write_page(run, folder / name, rows=[recording], heading=heading | changes)
    write_whole(state_file, json.dumps(now))
