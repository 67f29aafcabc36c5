from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from earmark.grid import Windows
from earmark.timeline import FloatArray, IndexArray, Span, format_clock

BEYOND = "new actions expected beyond the picks"


@dataclass(frozen=True, slots=True)
class Pick:
    window: int
    start: float
    end: float
    """Seconds; cut at the end of the recording."""
    instant: float
    """When the window's largest score occurs: the moment to show a vision model."""
    score: float
    rate: float
    """Action starts expected in this window."""
    expected: float
    """New actions that no earlier pick touches; of a window left out, beyond all picks."""
    reason: str

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


def allowance(windows: Windows, budget: int) -> int:
    if budget < 0:
        raise ValueError(f"a budget is 0 calls or more, not {budget}")
    return min(budget, len(windows))


def places_of(windows: Windows, picks: Iterable[Pick]) -> IndexArray:
    places = np.array([windows.window_at(pick.start) for pick in picks], dtype=np.intp)
    return np.minimum(places, len(windows) - 1)


def best_first(scores: FloatArray) -> IndexArray:
    """The earlier window first among equals."""
    return np.argsort(-scores, kind="stable")


def gains(windows: Windows, chosen: IndexArray) -> FloatArray:
    """Expected new actions of each of `chosen`, in increasing order of window.

    picks      ^        ^             gain of the second =
    windows  . j . . .  k . .         rate[k] + sum over j < m < k of rate[m] * g(k - m)
    """
    gaps = np.diff(chosen, prepend=-1)
    reach = windows.reach[: gaps.max(initial=0)]
    back = np.arange(len(reach))
    rates = windows.rates[chosen[:, None] - back] * reach  # (chosen, windows back)
    total: FloatArray = np.where(back < gaps[:, None], rates, 0.0).sum(axis=1)
    return total


def explain(windows: Windows, chosen: ArrayLike, reason: Callable[[int, float], str]) -> list[Pick]:
    ordered = np.sort(np.asarray(chosen, dtype=np.intp))
    starts = ordered * windows.length
    ends = np.minimum(starts + windows.length, np.maximum(starts, windows.duration))
    described = windows.instants[ordered], windows.scores[ordered], windows.rates[ordered]
    columns = (ordered, starts, ends, *described, gains(windows, ordered))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Pick(*(*row, reason(row[0], row[-1]))) for row in rows]


def best_left_out(windows: Windows, picks: Sequence[Pick], limit: int = 10) -> list[Pick]:
    """Best scores first; if all are equal, windows that would add most."""
    chosen = places_of(windows, picks)
    added = additions(windows, chosen)
    others = np.setdiff1d(np.arange(len(windows)), chosen)
    scores_differ = len(np.unique(windows.scores)) > 1
    order = best_first((windows.scores if scores_differ else added)[others])
    price = float(losses(windows, chosen).min(initial=np.inf))
    left_out = explain(windows, others, lambda *_: "")
    return [
        _explain_omission(windows, left_out[place], float(added[others[place]]), chosen, price)
        for place in order[:limit].tolist()
    ]


def additions(windows: Windows, chosen: IndexArray) -> FloatArray:
    """Actions that one more call on each window is expected to touch; 0 for the chosen.

    picks     j           k        an action that starts between j and m is touched at m
    one more        m              instead of k: rate * (g(to m) - g(to k))
    """
    places = np.arange(len(windows))
    following = np.searchsorted(chosen, places)
    before = np.concatenate([[-1], chosen])[following]
    reach = np.append(windows.reach, 0.0)
    far = len(reach) - 1
    after = np.concatenate([chosen, [len(windows) + far]])[following]
    total = np.zeros(len(windows))
    for distance in range(far):
        counted = np.flatnonzero(places - before > distance)
        later = np.minimum(after[counted] - counted + distance, far)
        total[counted] += windows.rates[counted - distance] * (reach[distance] - reach[later])
    return total


def losses(windows: Windows, chosen: IndexArray) -> FloatArray:
    lost = gains(windows, chosen)
    reach = np.append(windows.reach, 0.0)
    gaps = np.diff(chosen, prepend=-1)
    ahead = np.diff(chosen, append=len(windows) + len(reach))
    for distance in range(len(reach)):
        counted = gaps > distance
        later = np.minimum(distance + ahead[counted], len(reach) - 1)
        lost[counted] -= windows.rates[chosen[counted] - distance] * reach[later]
    return lost


def _explain_omission(
    windows: Windows, other: Pick, expected: float, chosen: IndexArray, price: float
) -> Pick:
    beside = chosen[np.abs(chosen - other.window) <= 1]
    beyond = f"{expected:.2g} {BEYOND}"
    if len(chosen) == 0:
        reason = f"{beyond}, and no call to spend"
    elif len(beside):
        beside_at = format_clock(windows.span(int(beside[0])).start, tenths=False)
        reason = f"next to the pick at {beside_at}; {beyond}"
    elif expected < price:
        reason = f"{expected:.3g} {BEYOND}, below the price {price:.3g}"
    else:
        reason = f"{beyond}; the rule ranks it lower than the picks"
    return replace(other, expected=expected, reason=reason)
