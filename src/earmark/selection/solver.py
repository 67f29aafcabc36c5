"""The best picks at a price per call, for many recordings at once.

Expected coverage of picks P, with `g(d)` the chance that an action is still going d windows on:

    F(P) = sum over m of  rate[m] * g(next pick at or after m, minus m)

What a pick k adds depends only on the pick j before it,
`worth(j, k) = sum over j < m <= k of rate[m] * g(k - m)`, so picks are a path over windows:

    start ───▶ j ─────────▶ k ───▶ ...        best[k] = max over j of best[j] + worth(j, k) - price

`best` may stand for "the best path that ends at or *before* a window": starting step k from an
earlier pick than the one assumed only understates it. Then steps no longer than the reach of g are
enough, and one pass costs windows x reach at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from earmark.timeline import FloatArray, IndexArray

Paths = list[NDArray[np.int32]]

BATCH_CELLS = 1 << 20
"""A few arrays of 8 MB each."""
BATCH_COLUMNS = 512
"""More do not fit the processor's cache together with their reach."""
BLOCK_CELLS = 1 << 18
"""2 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    rates: FloatArray
    reach: FloatArray
    """`g(0) = 1, g(1), ...`, never increasing."""
    bonus: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.rates)


def solve(lines: Sequence[Line], prices: FloatArray) -> tuple[Paths, FloatArray]:
    """The picks of greatest value at each price, the fewest among equals; and these values."""
    paths: Paths = [np.empty(0, np.int32)] * len(lines)
    values = np.zeros(len(lines))
    for batch in _batches(lines):
        columns = _Columns.build([lines[place] for place in batch], prices[batch])
        best, steps = columns.advance()
        values[batch], traced = columns.trace(best, steps)
        for place, path in zip(batch.tolist(), traced, strict=True):
            paths[place] = path
    return paths, values


def _batches(lines: Sequence[Line]) -> Iterator[IndexArray]:
    """Recordings of similar length together, longest first."""
    lengths = np.array([len(line) for line in lines], dtype=np.intp)
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    while len(order):
        longest = int(lengths[order[0]])
        fitting = max(1, min(BATCH_COLUMNS, BATCH_CELLS // longest))
        # With few columns a pass costs by the step, so much padding is worth it only then.
        similar = int(np.count_nonzero(lengths[order] * 2 >= longest))
        count = min(fitting, max(similar, 64))
        yield order[:count]
        order = order[count:]


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """A batch: time runs down, recordings side by side; `len(reach)` rows stand before window 0.

    row            0 ... reach-2   reach-1    reach   reach+1 ...
    window                         (start)    0       1
    """

    rates: FloatArray
    """Shape (reach + windows, recordings); 0 outside a recording."""
    reach: FloatArray
    """Shape (reach, recordings); 0 beyond a recording's own."""
    prices: FloatArray
    lengths: IndexArray
    bonus: FloatArray | None

    @classmethod
    def build(cls, lines: Sequence[Line], prices: FloatArray) -> _Columns:
        lengths = np.array([len(line) for line in lines], dtype=np.intp)
        depth = max(len(line.reach) for line in lines)
        rates = np.zeros((depth + int(lengths.max()), len(lines)))
        reach = np.zeros((depth, len(lines)))
        bonus = np.zeros_like(rates) if any(line.bonus is not None for line in lines) else None
        for column, line in enumerate(lines):
            rates[depth : depth + len(line), column] = line.rates
            reach[: len(line.reach), column] = line.reach
            if bonus is not None and line.bonus is not None:
                bonus[depth : depth + len(line), column] = line.bonus
        return cls(rates, reach, prices, lengths, bonus)

    def advance(self) -> tuple[FloatArray, NDArray[np.integer]]:
        """For each row, the best value of a path that ends at or before it, and its last step.

        The best path to a pick in `row` comes from `row - reach + step`. The best row to come from
        never moves back, because g decreases with time, so earlier rows are not tried again.
        """
        depth = len(self.reach)
        best = np.full(self.rates.shape, -np.inf)
        best[depth - 1] = 0.0
        steps = np.zeros(self.rates.shape, dtype=np.min_scalar_type(depth))
        numbers = np.arange(depth, dtype=steps.dtype)[:, None]
        candidates = np.empty(self.reach.shape)
        is_best = np.empty(self.reach.shape, dtype=bool)
        numbered = np.empty(self.reach.shape, dtype=steps.dtype)
        unfinished = np.searchsorted(-self.lengths, depth - np.arange(len(self.rates))).tolist()
        row, first = depth, depth - 1  # the first step to a row that may be best
        while row < len(self.rates):
            for worth in self._worths(row, depth - first):
                near = slice(first, None)
                here = best[row]
                np.add(
                    best[row - depth + first : row], worth[first - depth :], out=candidates[near]
                )
                np.maximum.reduce(candidates[near], axis=0, out=here)
                # The step of the best candidate; several times faster than argmax.
                np.equal(candidates[near], here, out=is_best[near])
                np.multiply(is_best[near], numbers[near], out=numbered[near])
                np.maximum.reduce(numbered[near], axis=0, out=steps[row])
                first = max(0, int(steps[row, : unfinished[row]].min()) - 1)
                np.maximum(here, best[row - 1], out=here)
                row += 1
        return best, steps

    def _worths(self, row: int, width: int) -> FloatArray:
        """Shape (windows, steps, recordings), the longest step first.

        Covers as many windows as fit a block. Steps to the first are at most `width` long.
        """
        depth, count = self.reach.shape
        rows = min(max(1, BLOCK_CELLS // (depth * count), width), len(self.rates) - row)
        longest = min(depth, width + rows - 1)
        block = np.empty((rows, longest, count))
        extra = 0.0 if self.bonus is None else self.bonus[row : row + rows]
        total = np.broadcast_to(extra - self.prices, (rows, count))
        for step in range(longest):
            total = total + self.reach[step] * self.rates[row - step : row - step + rows]
            block[:, longest - 1 - step] = total
        return block

    def trace(self, best: FloatArray, steps: NDArray[np.integer]) -> tuple[FloatArray, Paths]:
        depth, count = self.reach.shape
        # For each row, the last row at or before it whose value rose: where the best path ends.
        numbers = np.arange(1, len(best), dtype=np.int32)[:, None]
        last_pick = np.zeros(best.shape, dtype=np.int32)
        np.maximum.accumulate(np.where(best[1:] > best[:-1], numbers, 0), axis=0, out=last_pick[1:])
        backwards = []
        column, ends = np.arange(count), depth - 1 + self.lengths
        values: FloatArray = best[ends, column]
        row = last_pick[ends, column]
        taken = np.zeros(count, dtype=np.intp)
        while len(column):
            inside = row >= depth
            column, row = column[inside], row[inside]
            backwards.append((column, row))
            taken[column] += 1
            row = last_pick[row - depth + steps[row, column], column]
        flat, ends = np.empty(int(taken.sum()), dtype=np.int32), np.cumsum(taken)
        for step, (column, row) in enumerate(backwards, start=1):
            flat[ends[column] - step] = row - depth
        return values, np.split(flat, ends[:-1])
