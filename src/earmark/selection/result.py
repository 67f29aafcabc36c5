from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from earmark.gate.forecast_error import (
    UNLIKE,
    ForecastError,
    ForecastRange,
    as_count,
    as_range,
    as_share,
)
from earmark.gate.listener import Failed, Listened
from earmark.grid import Windows
from earmark.selection.allocation import Choice
from earmark.selection.outlook import BudgetOutlook, coverage_of_shares
from earmark.selection.pick import Pick
from earmark.selection.price_search import coverage_of_budgets
from earmark.text_format import (
    DataFrame,
    Heading,
    Table,
    TextLine,
    counted,
    format_bytes_read,
    format_length,
    format_notes,
    format_spend,
    html_table,
    to_data_frame,
)
from earmark.timeline import format_clock

SCHEMA_VERSION = 1
"""Incremented when a field of the JSON changes meaning."""

COLUMNS = ("path", *(each.name for each in fields(Pick)))

NOTHING_HEARD_NOTE = (
    "nothing in its sound makes a call worth its price, so none is made; "
    "to look anyway, spend a share of its windows, such as a budget of 10%"
)


@dataclass(frozen=True, slots=True, repr=False)
class Chosen:
    path: str
    duration: float
    window: float
    """Seconds."""
    windows: int
    """The calls of a full scan."""
    budget: int
    rule: str
    """Not the requested one if a note says so."""
    frontline: str
    access: str
    """`index`, `demux` if any chapter needs it, or `none`."""
    bytes_read: int
    bytes_total: int
    forecast: float | None
    """Share of all actions the picks are expected to touch; None if none are expected."""
    picks: tuple[Pick, ...]
    chapters: tuple[str, ...] = ()
    chapter_starts: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[Pick, ...] = ()
    forecast_range: ForecastRange | None = None
    """None if forecast errors were not measured."""
    actions: float | None = None
    actions_range: ForecastRange | None = None
    lengths: str = ""
    """How long actions last, in words, and how that is known."""

    def __repr__(self) -> str:
        return f"Chosen(path={self.path!r}, picks={len(self.picks)}, windows={self.windows})"

    def summary(self) -> str:
        """Picks, how the recording was listened to, bytes read, and expected coverage."""
        read = format_bytes_read(self.bytes_read, self.bytes_total)
        how = "through the MP4 index, " if self.access == "index" else ""
        listening = "not listened to" if self.access == "none" else f"{how}{read}"
        actions = as_count(self.actions, self.actions_range)
        return (
            f"{self.path}: {len(self.picks)} of {self.windows} windows "
            f"({format_clock(self.duration)}, {listening}); "
            f"rule {self.rule}, frontline {self.frontline}, "
            f"expected coverage {as_range(self.forecast, self.forecast_range)}"
            f"{actions and f'; {actions}'}{self.lengths and f'; {self.lengths}'}"
        )

    def lines(self) -> Iterator[TextLine]:
        """The summary, the picks, and the best windows not chosen, in order of time."""
        yield Heading(self.summary())
        numbers = () if self.access == "none" else ("score", "rate", "expected")
        if self.picks:
            rows = [
                _cells(pick, numbers, pick.start, pick.end, pick.instant) for pick in self.picks
            ]
            yield Table(("window", "start", "end", "look at", *numbers, "why"), rows, words=["why"])
        if self.left_out:
            others, listed = self.windows - len(self.picks), len(self.left_out)
            title = "left out" if listed == others else f"left out: the best {listed} of {others}"
            in_order = sorted(self.left_out, key=lambda window: window.start)
            rows = [_cells(window, numbers, window.start, window.end) for window in in_order]
            columns = ("window", "start", "end", *numbers, "why not")
            yield Table(columns, rows, words=["why not"], title=title)
        if self.picks or self.left_out:
            yield ""


def _cells(pick: Pick, numbers: Sequence[str], *times: float) -> tuple[str, ...]:
    values = {"score": f"{pick.score:.3g}", "rate": f"{pick.rate:.2f}"}
    values["expected"] = f"{pick.expected:.2f}"
    texts = [values[name] for name in numbers]
    return (str(pick.window), *map(format_clock, times), *texts, pick.reason)


@dataclass(frozen=True, slots=True, repr=False)
class Selection:
    plan: dict[str, Any]
    recordings: tuple[Chosen, ...]
    failures: tuple[Failed, ...] = ()
    version: int = SCHEMA_VERSION

    @property
    def calls(self) -> int:
        return sum(len(chosen.picks) for chosen in self.recordings)

    @property
    def windows(self) -> int:
        return sum(chosen.windows for chosen in self.recordings)

    def rows(self) -> Iterator[dict[str, Any]]:
        for chosen in self.recordings:
            for pick in chosen.picks:
                yield {"path": chosen.path, **asdict(pick)}

    def to_pandas(self) -> DataFrame:
        return to_data_frame(self.rows(), COLUMNS)

    def __repr__(self) -> str:
        reason = f": {self.failures[0].error!r}" if self.failures else ""
        counts = f"recordings={len(self.recordings)}, failures={len(self.failures)}{reason}"
        return f"Selection(calls={self.calls}, windows={self.windows}, {counts})"

    def _repr_html_(self) -> str:
        return html_table(self.rows()) + html_table(map(asdict, self.failures))

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        return {name: plain[name] for name in ("version", "plan", "recordings", "failures")}

    def to_jsonl(self) -> str:
        """One line of JSON per pick, then one per failure."""
        rows = [*self.rows(), *map(asdict, self.failures)]
        return "".join(f"{json.dumps(row)}\n" for row in rows)

    def table(self) -> Table:
        return Table(COLUMNS, [[row[name] for name in COLUMNS] for row in self.rows()])

    def lines(self) -> Iterator[TextLine]:
        for chosen in self.recordings:
            yield from chosen.lines()
        if len(self.recordings) + len(self.failures) > 1:
            yield (
                f"{counted(self.calls, 'call')} of {self.windows} in "
                f"{counted(len(self.recordings), 'recording')}; {len(self.failures)} failed"
            )

    def warnings(self) -> list[str]:
        return format_notes(
            (chosen.path, note) for chosen in self.recordings for note in chosen.notes
        )


def selection_schema() -> dict[str, Any]:
    from pydantic import TypeAdapter  # slow to import, and nothing else here needs it

    return TypeAdapter(Selection).json_schema(mode="serialization")


def recording_notes(heard: Listened, choice: Choice) -> tuple[str, ...]:
    has_no_price = choice.is_overpriced and not heard.is_heard
    return heard.notes(NOTHING_HEARD_NOTE if has_no_price else choice.note)


def forecast_coverage(
    heard: Listened, choice: Choice, error: ForecastError | None, *, actions: float, duration: float
) -> tuple[float | None, ForecastRange | None]:
    """None if nothing was heard; the range was measured for the rule `coverage` alone."""
    if choice.lacks_evidence or not heard.is_heard or not actions:
        return None, None
    share = min(sum(pick.expected for pick in choice.picks) / actions, 1.0)  # sums round
    known = error if choice.rule_used == "coverage" else None
    return share, measured_range(share, known, actions=actions, duration=duration)


def measured_range(
    share: float, error: ForecastError | None, *, actions: float, duration: float
) -> ForecastRange | None:
    if error is None or math.isnan(share):
        return None
    return error.range(share, actions=actions, duration=duration)


LADDER = (0.05, 0.10, 0.15, 0.25, 0.335, 0.50, 0.75, 1.0)
"""Shares of the windows: the paper's call rates and some more."""


@dataclass(frozen=True, slots=True)
class CallCost:
    gpu_seconds: float = 0.74
    """The paper's: Qwen3-VL-8B on a V100."""
    money: float = 0.0
    """The most that one call costs by the prices; 0 if there are none."""
    currency: str = ""

    def __post_init__(self) -> None:
        if not (self.gpu_seconds > 0 and self.money >= 0):
            raise ValueError("a call costs more than 0 GPU-seconds and no negative money")


@dataclass(frozen=True, slots=True)
class Rung:
    share: float
    calls: int
    coverage: float | None
    """Expected share of actions touched; None if no action is expected."""
    gpu_hours: float
    """Of the calls alone."""
    money: float
    pays: bool
    """Listening and these calls together cost less than calling on every window."""
    range: ForecastRange | None = None
    """None if forecast errors were not measured."""

    def cells(self) -> tuple[str, ...]:
        limits = self.range
        return (
            str(self.calls),
            as_share(self.share),
            as_share(self.coverage),
            f"{100 * limits.low:.0f}–{100 * limits.high:.0f} %" if limits else "–",
            format_length(3600 * self.gpu_hours),
            f"{self.money:,.2f}" if self.money >= 0.005 else "< 0.01" if self.money else "–",
            "yes" if self.pays else "no",
        )


@dataclass(frozen=True, slots=True)
class Screening:
    seconds: float
    full_scan_seconds: float
    """GPU-seconds of calling on every window."""
    measured_now: int
    """Recordings listened to in this run; the others were timed when they were heard."""

    @property
    def share(self) -> float:
        """Listening time over a full scan; a second of this machine counts as a GPU-second."""
        return self.seconds / self.full_scan_seconds if self.full_scan_seconds else math.nan

    @property
    def break_even(self) -> float:
        """The share of calls up to which triage pays, `1 - C_gate / C_full`; 0 if it never does."""
        return max(0.0, 1.0 - self.share) if self.full_scan_seconds else math.nan


@dataclass(frozen=True, slots=True)
class RecordingNote:
    path: str
    note: str


@dataclass(frozen=True, slots=True, repr=False)
class Forecast:
    recordings: int
    duration: float
    """Seconds of all recordings."""
    windows: int
    window: float
    frontline: str
    cost: CallCost
    screening: Screening
    rungs: tuple[Rung, ...]
    goal: Rung | None = None
    failures: tuple[Failed, ...] = ()
    notes: tuple[RecordingNote, ...] = ()
    actions: float | None = None
    """None if nothing was heard."""
    actions_range: ForecastRange | None = None
    across: bool = False
    outlook: BudgetOutlook | None = None
    """None if nothing was heard."""
    frames: int = 1
    lengths: str = ""
    """How long actions last, in words, and how that is known."""

    def rows(self) -> Iterator[dict[str, Any]]:
        for rung in self.rungs:
            plain = asdict(rung)
            limits = plain.pop("range") or {}
            yield plain | {end: limits.get(end) for end in ("low", "high")}

    def to_pandas(self) -> DataFrame:
        names = [each.name for each in fields(Rung) if each.name != "range"]
        return to_data_frame(self.rows(), [*names, "low", "high"])

    def __repr__(self) -> str:
        counts = f"recordings={self.recordings}, windows={self.windows}, budgets={len(self.rungs)}"
        goal = f", goal={self.goal.calls}" if self.goal else ""
        return f"Forecast({counts}{goal}, failures={len(self.failures)})"

    def _repr_html_(self) -> str:
        return html_table(self.rows()) + html_table(map(asdict, self.failures))

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        shares = {"share": self.screening.share, "break_even": self.screening.break_even}
        plain["screening"] |= {
            name: None if math.isnan(value) else value for name, value in shares.items()
        }
        return plain

    def lines(self) -> Iterator[TextLine]:
        """The budgets as a table, and below it the cost of listening."""
        if not self.recordings:
            return
        yield Heading(
            f"{counted(self.recordings, 'recording')}, {format_clock(self.duration)}, "
            f"{counted(self.windows, 'window')} of {self.window:g} s; frontline {self.frontline}"
        )
        if self.actions is not None:
            count = as_count(self.actions, self.actions_range)
            yield f"{count}; {self.lengths}" if self.lengths else count
        columns = ("calls", "of all", "expected coverage", "range", "GPU time", "cost", "pays")
        yield Table(columns, [rung.cells() for rung in self.rungs])
        if first := next((rung.range for rung in self.rungs if rung.range), None):
            held = f"held {100 * first.confidence:.0f} % of the recordings it was measured on"
            yield f"The range {f'says nothing: {UNLIKE}' if first.is_unlike else held}."
        if self.recordings > 1 and self.across:
            yield "Each budget is one over all recordings (--across)."
        elif self.recordings > 1:
            yield "Each budget is that share of every recording; --across shares one among all."
        if self.outlook:
            yield self.outlook.line(self.frames)
        currency = self.cost.currency
        if rung := self.goal:
            yield (
                f"\n{as_range(rung.coverage, rung.range)} coverage is expected from "
                f"{counted(rung.calls, 'call')} ({as_share(rung.share)}): "
                f"{format_length(3600 * rung.gpu_hours)} of GPU time"
                f"{format_spend(rung.money, currency)}"
            )
        screening = self.screening
        unit = currency or "the currency of your prices"
        most = f"The cost is the most that the calls can cost, in {unit}"
        unpriced = "Calls have no price: set --input-price and --output-price, and --currency"
        yield (
            f"\n{most if self.cost.money else unpriced}. "
            f"Listening took {screening.seconds:.1f} s, {as_share(screening.share)} of a full "
            f"scan's {screening.full_scan_seconds:.0f} GPU-seconds: triage pays up to "
            f"{as_share(screening.break_even)} of the calls."
        )
        if earlier := self.recordings - screening.measured_now:
            yield f"({counted(earlier, 'recording')} from the cache, with the time measured then.)"

    def warnings(self) -> list[str]:
        return format_notes((note.path, note.note) for note in self.notes)


def forecast_rungs(
    many: Sequence[Windows],
    budgets: Sequence[int],
    cost: CallCost,
    screening: Screening,
    error: ForecastError | None = None,
    *,
    shares: Sequence[float] = (),
) -> list[Rung]:
    """One budget over all recordings for each of `budgets`, or each of `shares` of every recording.

    The range is that of one recording as long and busy as all of them.
    """
    count = sum(map(len, many))
    actions = sum(float(windows.rates.sum()) for windows in many)
    duration = sum(windows.duration for windows in many)
    reaches = coverage_of_shares(many, shares) if shares else coverage_of_budgets(many, budgets)
    if shares:
        budgets = [sum(round(share * len(windows)) for windows in many) for share in shares]
    rungs = []
    for calls, reached in zip(budgets, reaches, strict=True):
        share = calls / count if count else math.nan
        measured = measured_range(reached, error, actions=actions, duration=duration)
        coverage = measured.expected if measured else None if math.isnan(reached) else reached
        spent = (calls * cost.gpu_seconds / 3600, calls * cost.money)
        rungs.append(Rung(share, calls, coverage, *spent, share < screening.break_even, measured))
    return rungs
