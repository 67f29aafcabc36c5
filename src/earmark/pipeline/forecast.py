"""What a budget will reach and cost, told before anything is paid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from earmark.gate.score_cache import ScoreCache
from earmark.grid import Windows
from earmark.media import Source
from earmark.pipeline.triage import Ears, Hearing, Watch, hear_all, make_plan, notes_on
from earmark.selection import calls_for, ladder
from earmark.selection.coverage_forecast import check_coverage
from earmark.selection.result import Failed

LADDER = (0.05, 0.10, 0.15, 0.25, 0.335, 0.50, 0.75, 1.0)
"""Shares of the windows that a forecast is made for: the paper's call rates, and the rest."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """What one call costs."""

    gpu_seconds: float = 0.74
    """The paper's: Qwen3-VL-8B on a V100."""
    money: float = 0.00011
    """In any currency; a full scan of 1,000 h at hosted 8B prices is about 100 dollars."""

    def __post_init__(self) -> None:
        if not (self.gpu_seconds > 0 and self.money >= 0):
            raise ValueError("a call costs more than 0 GPU-seconds and no negative money")


@dataclass(frozen=True, slots=True)
class Rung:
    """One budget, and what it is expected to bring."""

    share: float
    calls: int
    coverage: float | None
    """Expected share of actions touched; none where no action is expected."""
    gpu_hours: float
    """Of the calls alone."""
    money: float
    pays: bool
    """Whether listening and these calls together cost less than calling on every window."""


@dataclass(frozen=True, slots=True)
class Screening:
    """What listening cost: measured, on this machine."""

    seconds: float
    full_scan_seconds: float
    """GPU-seconds of calling on every window."""
    measured_now: int
    """Recordings listened to in this run; the others' times are from when they were heard."""

    @property
    def share(self) -> float:
        """Listening over a full scan; a second of this machine counts as one of the GPU's."""
        return self.seconds / self.full_scan_seconds if self.full_scan_seconds else math.nan

    @property
    def break_even(self) -> float:
        """The share of calls up to which triage pays, `1 - C_gate / C_full`; 0 if it never does."""
        return max(0.0, 1.0 - self.share) if self.full_scan_seconds else math.nan


@dataclass(frozen=True, slots=True)
class Note:
    """What there is to know about one recording."""

    path: str
    note: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """A ladder of budgets over some recordings, spent at one price over all of them."""

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
    """The fewest calls that are expected to reach the coverage asked for."""
    failures: tuple[Failed, ...] = ()
    notes: tuple[Note, ...] = ()
    """What a reader should know about single recordings, in their order."""

    def to_json(self) -> dict[str, Any]:
        """Plain values; `nan` is null."""
        plain = asdict(self)
        shares = {"share": self.screening.share, "break_even": self.screening.break_even}
        plain["screening"] |= {
            name: None if math.isnan(value) else value for name, value in shares.items()
        }
        return plain


def plan(
    paths: Sequence[str | Path | Source],
    *,
    coverage: float | None = None,
    shares: Sequence[float] = LADDER,
    cost: CallCost | None = None,
    cache: ScoreCache | None = None,
    watch: Watch | None = None,
    ears: Ears | None = None,
    **choices: Any,
) -> Forecast:
    """What budgets will reach on the recordings at `paths`, and what they will cost.

    Args:
        paths: Files, folders, globs and addresses.
        coverage: A share of actions to reach; the forecast then says how many calls that takes.
        shares: Shares of the windows to forecast for.
        cost: What one call costs.
        cache: Where to keep what was heard.
        watch: Told how far listening has come.
        ears: Who listens; this process, one recording after the other, if not given.
        choices: `frontline`, `window`, `audio_track`; see `earmark.pipeline.triage.make_plan`.

    Raises:
        ValueError: a choice is unknown or out of range, or no coverage can be forecast.
    """
    made = make_plan(**choices)
    if coverage is not None:
        check_coverage(coverage)
    hearing = hear_all(paths, made, cache=cache, watch=watch, ears=ears)
    price = cost if cost is not None else CallCost()
    many = [scored.windows for scored in hearing.scored]
    screening = _screening(hearing, price)
    calls = sorted({round(share * sum(map(len, many))) for share in shares} - {0})
    rungs = _rungs(many, calls, price, screening)
    goal = None
    if coverage is not None and many:
        goal = _rungs(many, [calls_for(many, coverage)], price, screening)[0]
    return Forecast(
        recordings=len(many),
        duration=sum(windows.duration for windows in many),
        windows=sum(map(len, many)),
        window=made.grid.length,
        frontline=made.to_json()["frontline"],
        cost=price,
        screening=screening,
        rungs=tuple(rungs),
        goal=goal,
        failures=hearing.failures,
        notes=tuple(_notes(hearing)),
    )


def _notes(hearing: Hearing) -> Iterator[Note]:
    for scored in hearing.scored:
        path = scored.heard.recording.source.uris[0]
        yield from (Note(path, note) for note in notes_on(scored.heard))


def _screening(hearing: Hearing, cost: CallCost) -> Screening:
    return Screening(
        seconds=sum(scored.heard.seconds for scored in hearing.scored),
        full_scan_seconds=sum(len(scored.windows) for scored in hearing.scored) * cost.gpu_seconds,
        measured_now=sum(not scored.heard.from_cache for scored in hearing.scored),
    )


def _rungs(
    many: Sequence[Windows], budgets: Sequence[int], cost: CallCost, screening: Screening
) -> list[Rung]:
    windows = sum(map(len, many))
    rungs = []
    for calls, reached in zip(budgets, ladder(many, budgets), strict=True):
        share = calls / windows if windows else math.nan
        rungs.append(
            Rung(
                share=share,
                calls=calls,
                coverage=None if math.isnan(reached) else reached,
                gpu_hours=calls * cost.gpu_seconds / 3600,
                money=calls * cost.money,
                pays=bool(windows) and share < screening.break_even,
            )
        )
    return rungs
