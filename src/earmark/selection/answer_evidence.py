"""What answers tell about the stretches between them: rates changed by what both ends say.

    answers         chop ──────── chop          the same: hardly anything new in between
               .    .    ──────── .    .        nothing is done far and wide: hardly anything at all
               chop .    ──────── .             nothing at either end, but something beyond
                    .    ──────── chop          one end empty
                    chop ──────── wash          different: most of what is new lies here
                    chop ──────── wash chop     bridged: they differ, but one of the two may err

An answer may miss what is done, or call it otherwise: so the answer beyond each end is heard too.

Only the order of the stretches can be learnt from that, not how much there is in all: the rates are
changed so that they expect as much in the stretches between answers as before. Where all ends say
alike, or all differ, nothing changes, and the plan stays what it was.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import gains

NOTHING = ""
"""The activity of an answer that says nothing is being done."""

Kind = Literal["same", "bridged", "idle", "empty", "one_empty", "differ"]
"""What the answers at both ends of a stretch, and next to these, are to one another."""

Agreement = Callable[[str, str], bool]
"""Whether two activities, neither of them `NOTHING`, are the same."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one answer says is being done, and where."""

    window: int
    """The last of its steps, from 0; on the grid a window is a step."""
    activity: str | None
    """A few words; `NOTHING` where nothing is being done, None where the answer does not say."""
    start: float = 0.0
    """Second its window begins at."""


@dataclass(frozen=True, slots=True)
class GapFactors:
    """New actions between two answers, beside those between two that differ.

    By how many mean lengths of an action the answers lie apart: over a stretch much longer than
    an action, that both ends say the same tells less.
    """

    lengths: tuple[float, ...]
    """Distances, in mean lengths of an action, increasing."""
    same: tuple[float, ...]
    bridged: tuple[float, ...]
    """The ends do not agree, but one of them does with the answer beyond the other."""
    idle: tuple[float, ...]
    """Nothing is being done at either end, nor beyond."""
    empty: tuple[float, ...]
    """Nothing is being done at either end, but beyond one of them something is."""
    one_empty: tuple[float, ...]

    def __post_init__(self) -> None:
        for shares in (self.same, self.bridged, self.idle, self.empty, self.one_empty):
            if len(shares) != len(self.lengths) or min(shares) <= 0:
                raise ValueError("factors are above 0, one for each length")

    def of(self, kind: Kind, apart: float) -> float:
        """The factor of a stretch between answers so many mean lengths of an action apart."""
        return 1.0 if kind == "differ" else _factor(self, kind, apart)


@lru_cache(maxsize=1 << 14)
def _factor(factors: GapFactors, kind: Kind, apart: float) -> float:
    """`GapFactors.of`, remembered: an archive has few distances and many stretches."""
    shares: tuple[float, ...] = getattr(factors, kind)
    return float(np.interp(np.log(max(apart, 1e-9)), np.log(factors.lengths), shares))


@dataclass(frozen=True, slots=True)
class Gap:
    """The windows strictly between two answers that say what is being done."""

    first: int
    stop: int
    start: float
    end: float
    """Seconds."""
    kind: Kind
    factor: float
    """New actions beside a stretch whose ends differ."""
    expected: float
    """New actions the sound lets expect, that neither end touches."""


def kind_of(
    first: str, last: str, agree: Agreement, *, before: str | None = None, after: str | None = None
) -> Kind:
    """What two activities, one at either end of a stretch, are to one another.

    `before` and `after` are those of the answers next to them, None where there is none that says.
    """

    def alike(one: str | None, other: str | None) -> bool:
        return bool(one) and bool(other) and agree(str(one), str(other))

    if first == last == NOTHING:
        return "empty" if before or after else "idle"
    if alike(first, last):
        return "same"
    if alike(first, after) or alike(before, last) or (first and last and alike(before, after)):
        return "bridged"
    return "one_empty" if NOTHING in (first, last) else "differ"


def find_gaps(
    windows: Windows, seen: Sequence[Seen], agree: Agreement, factors: GapFactors
) -> list[Gap]:
    """The stretches between answers, in order; those with an end that does not say are left out."""
    ordered = sorted(seen, key=lambda one: one.window)
    if len(ordered) < 2:
        return []
    places = np.array([one.window for one in ordered], dtype=np.intp)
    rates = windows.rates
    total = np.cumsum(rates)
    touched = gains(windows, places) - rates[places]  # of those that start in the stretch before
    expected = (total[places[1:] - 1] - total[places[:-1]] - touched[1:]).tolist()
    mean = float(windows.survival.reach(windows.length).sum()) * windows.length
    said = [None, *(one.activity for one in ordered), None]
    found = []
    for place, lies in enumerate(expected):
        before, one, other, after = said[place : place + 4]
        first, stop = ordered[place].window + 1, ordered[place + 1].window
        is_apart = stop + 1 - first > windows.per_call
        if not is_apart or one is None or other is None:
            continue
        kind = kind_of(one, other, agree, before=before, after=after)
        factor = factors.of(kind, (stop + 1 - first) * windows.step / mean)
        ends = first * windows.step, (stop + 1 - windows.per_call) * windows.step
        found.append(Gap(first, stop, *ends, kind, factor, max(0.0, lies)))
    return found


LEAST_EVIDENCE = 1.4
"""Standard deviation of the factors beside their mean, times the root of how many stretches say so,
from which on answers are planned by. Set on the development halves, between what it saves in dense
kitchens and what it costs elsewhere: see experiments/LOG.md."""

IN_WORDS: Mapping[Kind, str] = {
    "same": "between answers that agree",
    "bridged": "between answers that differ, beside one that agrees",
    "idle": "between answers that see nothing done",
    "empty": "between answers that see nothing done, beside something",
    "one_empty": "between something and nothing done",
    "differ": "between answers that differ",
}


class RevisedWindows(Collection[Windows]):
    """The windows of many recordings with rates that know the answers; gone over, never held."""

    def __init__(
        self,
        many: Collection[Windows],
        seen: Sequence[Sequence[Seen]],
        *,
        agree: Agreement,
        factors: GapFactors | None = None,
        busyness: Sequence[float] | None = None,
    ) -> None:
        """Read the answers about each of `many`.

        Args:
            many: The windows of each recording, rated by the sound.
            seen: The answers about each.
            agree: Compares what two answers say.
            factors: What the ends of a stretch tell; `FITTED` if not given.
            busyness: How many times as busy as it sounds each is; 1 if not given.
        """
        self.many = many
        self.busyness = [1.0] * len(many) if busyness is None else busyness
        wanted = factors or FITTED
        self.gaps = [
            find_gaps(windows, some, agree, wanted)
            for windows, some in zip(many, seen, strict=True)
        ]
        every = [gap for row in self.gaps for gap in row]
        after = sum(gap.expected * gap.factor for gap in every)
        self.level = sum(gap.expected for gap in every) / after if after > 0 else 1.0
        """What all factors are multiplied by, so that as much is expected in all as before."""

    def __len__(self) -> int:
        return len(self.many)

    def __iter__(self) -> Iterator[Windows]:
        for windows, row, busy in zip(self.many, self.gaps, self.busyness, strict=True):
            rates = np.array(windows.rates, dtype=float) * busy
            for gap in row:
                rates[gap.first : gap.stop] *= gap.factor * self.level
            yield replace(windows, rates=rates)

    def __contains__(self, item: object) -> bool:
        return any(windows is item for windows in self)

    def forget_gaps(self) -> None:
        """Let the stretches between answers be rated by their sound again."""
        self.gaps = [[] for _ in self.gaps]

    def why(self, recording: int, start: float) -> str:
        """What the answers around a window are to one another, in words; empty where none are."""
        row = self.gaps[recording]
        place = bisect_right(row, start, key=lambda gap: gap.start) - 1
        inside = place >= 0 and start < row[place].end
        return IN_WORDS[row[place].kind] if inside else ""

    @property
    def tells(self) -> bool:
        """Whether the answers tell one stretch from another by enough to plan by."""
        every = [gap for row in self.gaps for gap in row]
        weights = np.array([gap.expected for gap in every])
        if not weights.sum() > 0:
            return False
        factors = np.array([gap.factor for gap in every]) * self.level  # their mean is 1
        spread = np.average((factors - 1) ** 2, weights=weights)
        return bool(spread * len(every) >= LEAST_EVIDENCE**2)


FITTED = GapFactors(
    lengths=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    same=(0.13, 0.16, 0.19, 0.23, 0.31, 0.5, 0.6, 0.9),
    bridged=(0.2, 0.5, 0.5, 0.55, 0.55, 0.6, 0.7, 0.9),
    idle=(0.02, 0.02, 0.04, 0.11, 0.25, 0.5, 0.55, 0.55),
    empty=(0.3, 0.3, 0.3, 0.35, 0.43, 0.6, 0.8, 0.8),
    one_empty=(0.75,) * 8,
)
"""The middle between perfect and noisy played answers, over GoalStep steps and substeps and
EPIC-KITCHENS-100, on the development half of each (`earmark.evaluation.answer_bench`)."""
