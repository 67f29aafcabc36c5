from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, explain
from earmark.timeline import Span


@dataclass(frozen=True, slots=True)
class Oracle:
    """Greedy set cover, ties to the earlier window; leaves calls unspent once all is touched."""

    actions: tuple[Span, ...]

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        calls = allowance(windows, budget)
        touching = self._touching(windows)
        queue = [(-len(held), window) for window, held in enumerate(touching) if held]
        heapq.heapify(queue)
        fresh: dict[int, int] = {}
        while queue and len(fresh) < calls:
            _, window = heapq.heappop(queue)
            entry = (-len(touching[window]), window)
            if not touching[window]:
                continue
            if queue and queue[0] < entry:
                heapq.heappush(queue, entry)
                continue
            fresh[window] = len(touching[window])
            self._settle(touching, window)
        return explain(windows, list(fresh), lambda window, _: f"{fresh[window]} new actions")

    def _touching(self, windows: Windows) -> list[set[int]]:
        held: list[set[int]] = [set() for _ in range(len(windows))]
        for number, action in enumerate(self.actions):
            for window in _overlapped(windows, action):
                held[window].add(number)
        return held

    def _settle(self, touching: list[set[int]], window: int) -> None:
        done = set(touching[window])
        for step in (-1, 1):
            place = window + step
            while 0 <= place < len(touching) and touching[place] & done:
                touching[place] -= done
                place += step
        touching[window] = set()


def _overlapped(windows: Windows, action: Span) -> range:
    if action.duration == 0:
        return range(0)
    first = max(0, int(np.floor(action.start / windows.length)))
    last = min(len(windows), int(np.ceil(action.end / windows.length)))
    return range(first, last)
