"""What was not picked, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, gains
from earmark.selection.result import LeftOut
from earmark.selection.rules.rank import best_first
from earmark.timeline import FloatArray, IndexArray, format_clock


def left_out(windows: Windows, picks: Sequence[Pick], limit: int = 10) -> list[LeftOut]:
    """The `limit` best-scoring windows that are not among `picks`, best first.

    Where all scores are equal, those that would add most come first.
    """
    chosen = np.array([pick.window for pick in picks], dtype=np.intp)
    extra = additions(windows, chosen)
    tells_apart = len(windows) > 0 and np.ptp(windows.scores) > 0
    order = best_first(windows.scores if tells_apart else extra)
    taken = np.zeros(len(windows), dtype=bool)
    taken[chosen] = True
    price = float(losses(windows, chosen).min(initial=np.inf))
    return [
        _explained(windows, window, float(extra[window]), chosen, price)
        for window in order[~taken[order]][:limit].tolist()
    ]


def additions(windows: Windows, chosen: IndexArray) -> FloatArray:
    """Actions that one more call on each window is expected to touch; 0 for the chosen.

    picks     j           k        an action that starts between j and m is touched at m
    one more        m              instead of k: rate * (g(to m) - g(to k))
    """
    places = np.arange(len(windows))
    following = np.searchsorted(chosen, places)
    before = np.concatenate([[-1], chosen])[following]
    reach = np.append(windows.survival.reach(windows.length), 0.0)
    far = len(reach) - 1
    after = np.concatenate([chosen, [len(windows) + far]])[following]
    total = np.zeros(len(windows))
    for distance in range(far):
        counted = np.flatnonzero(places - before > distance)
        later = np.minimum(after[counted] - counted + distance, far)
        total[counted] += windows.rates[counted - distance] * (reach[distance] - reach[later])
    return total


def losses(windows: Windows, chosen: IndexArray) -> FloatArray:
    """Actions that are expected to be lost with each of `chosen` alone."""
    kept = gains(windows, chosen)
    reach = np.append(windows.survival.reach(windows.length), 0.0)
    gaps = np.diff(chosen, prepend=-1)
    ahead = np.diff(chosen, append=len(windows) + len(reach))
    for distance in range(len(reach) - 1):
        counted = gaps > distance
        later = np.minimum(distance + ahead[counted], len(reach) - 1)
        kept[counted] -= windows.rates[chosen[counted] - distance] * reach[later]
    return kept


def _explained(
    windows: Windows, window: int, expected: float, chosen: IndexArray, price: float
) -> LeftOut:
    """Why `window` was left out, with the least that a pick brings as the price."""
    span = windows.span(window)
    beside = chosen[np.abs(chosen - window) == 1]
    beyond = f"{expected:.2g} new actions expected beyond the picks"
    if len(chosen) == 0:
        reason = f"{beyond}, and no call to spend"
    elif len(beside):
        beside_at = format_clock(float(beside[0] * windows.length), tenths=False)
        reason = f"next to the pick at {beside_at}; {beyond}"
    elif expected < price:
        reason = f"{beyond}, below the price {price:.2g}"
    else:
        reason = f"{beyond}; the rule ranks it lower than the picks"
    score, rate = float(windows.scores[window]), float(windows.rates[window])
    return LeftOut(window, span.start, span.end, score, rate, expected, reason)
