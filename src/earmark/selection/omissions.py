"""The best windows that were not picked, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, best_first, explain, gains, places_of
from earmark.selection.result import LeftOut
from earmark.timeline import FloatArray, IndexArray, format_clock

BEYOND = "new actions expected beyond the picks"


def best_left_out(windows: Windows, picks: Sequence[Pick], limit: int = 10) -> list[LeftOut]:
    """The `limit` best-scoring windows that are not among `picks`, best first.

    Where all scores are equal, windows that would add most come first. With free placement, only
    windows that lie side by side are considered.
    """
    chosen = places_of(windows, picks)
    extra = additions(windows, chosen)
    beside = np.arange(windows.per_call - 1, len(windows), windows.per_call)
    places = np.setdiff1d(beside, chosen)
    others = explain(windows, places, lambda *_: "")
    scores = np.array([other.score for other in others])
    scores_differ = len(np.unique(windows.scores)) > 1
    order = best_first(scores if scores_differ else extra[places])
    price = float(losses(windows, chosen).min(initial=np.inf))
    return [
        _explain_omission(windows, others[place], float(extra[places[place]]), chosen, price)
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
    """Actions expected to be lost if each of `chosen` alone is removed."""
    kept = gains(windows, chosen)
    reach = np.append(windows.reach, 0.0)
    gaps = np.diff(chosen, prepend=-1)
    ahead = np.diff(chosen, append=len(windows) + len(reach))
    for distance in range(len(reach)):
        counted = gaps > distance
        later = np.minimum(distance + ahead[counted], len(reach) - 1)
        kept[counted] -= windows.rates[chosen[counted] - distance] * reach[later]
    return kept


def _explain_omission(
    windows: Windows, other: Pick, expected: float, chosen: IndexArray, price: float
) -> LeftOut:
    """Why the window `other` was left out; `price` is the least that a pick brings."""
    away = np.abs(chosen - windows.window_at(other.start))
    beside = chosen[away <= windows.per_call]
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
    fields = (other.window, other.start, other.end, other.score, other.rate)
    return LeftOut(*fields, expected, reason)
