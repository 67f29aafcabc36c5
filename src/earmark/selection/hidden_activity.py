"""Infers the true activity behind answers that may be wrong: a hidden Markov model.

    true       chop ─── chop ─── chop ─── nothing ─── wash
    answers    chop     nothing  stir     nothing     wash
               │        missed   renamed              │
               └─ it continues, or another one starts, or nothing is done ───┘

The rates of missed, invented and renamed activities are learnt from the answers of the run by
expectation maximisation, with a prior that dominates if answers are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import islice
from math import isqrt

import numpy as np

from earmark.grid import Windows
from earmark.timeline import FloatArray, IndexArray

Agrees = Callable[[str, str], bool]

KINDS = ("same", "differ", "one_empty", "idle")
"""The two ends of a gap; `one_empty` if nothing is done at one, `idle` if at both."""

LOOKBACK = 8
"""Earlier answers searched; anything older counts as another action."""

MIN_VOCABULARY = 20
"""Two different actions share a name by chance at most once in 20."""

EM_ITERATIONS = 4

BATCH_CELLS = 1 << 20
"""Answers times states, padding included."""


@dataclass(frozen=True, slots=True)
class ErrorRates:
    missed: float = 0.1
    """Share of windows with an activity whose answer says that nothing is done."""
    renamed: float = 0.15
    """Share of named activities that have a name no other answer uses."""
    invented: float = 0.03
    """Share of windows without an activity whose answer names one."""


PRIOR_ERRORS = ErrorRates()

PRIOR_ANSWERS = 20


@dataclass(frozen=True, slots=True, eq=False)
class ActivitySequence:
    positions: IndexArray
    """Windows, increasing."""
    labels: IndexArray
    """From 0; -1 if nothing is done."""
    remaining: FloatArray
    """By number of steps d: the mean steps an action lasts, times the probability that an action in
    progress still continues d steps later."""

    @classmethod
    def build(
        cls, windows: Windows, positions: Sequence[int], activities: Sequence[str], agree: Agrees
    ) -> ActivitySequence:
        remaining = np.cumsum(windows.reach[::-1])[::-1]
        return cls(
            np.array(positions, dtype=np.intp), label_activities(activities, agree), remaining
        )

    @property
    def continues(self) -> FloatArray:
        """Probability that an action in progress at one answer still is at the next."""
        distances = np.minimum(np.diff(self.positions), len(self.remaining))
        chances: FloatArray = np.append(self.remaining / self.remaining[0], 0.0)[distances]
        return chances

    @property
    def mean_steps(self) -> float:
        return float(self.remaining[0])

    def every_other(self, first: int) -> ActivitySequence:
        return replace(self, positions=self.positions[first::2], labels=self.labels[first::2])

    def __len__(self) -> int:
        return len(self.positions)


def label_activities(activities: Sequence[str], agree: Agrees) -> IndexArray:
    """An activity shares the number of a recent answer that agrees; -1 for none."""
    labels: list[int] = []
    recent: dict[str, tuple[int, int]] = {}  # by words: number, and when last used
    count = position = 0
    for words in activities:
        if not words:
            labels.append(-1)
            continue
        position += 1
        number, last = recent.pop(words, (-1, -LOOKBACK))
        if position - last > LOOKBACK:
            latest = islice(reversed(recent), LOOKBACK)  # in the order of their last use
            near = (other for other in latest if position - recent[other][1] <= LOOKBACK)
            same = next((other for other in near if agree(other, words)), None)
            number = count if same is None else recent[same][0]
        count = max(count, number + 1)
        recent[words] = number, position
        labels.append(number)
    return np.array(labels, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerStatistics:
    errors: ErrorRates
    active: FloatArray


def infer_kinds(
    sequences: Sequence[ActivitySequence], statistics: AnswerStatistics | None = None
) -> tuple[list[FloatArray], float, AnswerStatistics]:
    """The probabilities of `KINDS`, shape (answers - 1, kinds); evidence; statistics.

    The evidence is the gain in log-likelihood over a model in which every answer is independent.
    """
    kinds: list[FloatArray] = [np.empty((0, len(KINDS)))] * len(sequences)
    batches = list(_batches(sequences))
    passes = 1 if statistics else EM_ITERATIONS
    statistics = statistics or AnswerStatistics(PRIOR_ERRORS, np.full(len(sequences), 0.5))
    for _ in range(passes):
        counts, evidence, active = np.zeros((3, 2)), 0.0, statistics.active.copy()
        for batch in batches:
            own = [sequences[index] for index in batch]
            model = _BatchedHmm.build(own, statistics.errors, statistics.active[batch])
            batch_kinds, batch_counts, active[batch], gain = model.smooth()
            counts += batch_counts
            evidence += gain
            for column, index in enumerate(batch):
                kinds[index] = batch_kinds[: max(0, len(sequences[index]) - 1), column]
        errors = counts[:, 0] + np.array(astuple(PRIOR_ERRORS)) * PRIOR_ANSWERS
        shares = errors / (counts[:, 1] + PRIOR_ANSWERS)
        statistics = AnswerStatistics(ErrorRates(*shares.tolist()), active)
    return kinds, evidence, statistics


def _batches(sequences: Sequence[ActivitySequence]) -> Iterator[list[int]]:
    cells = [len(answers) * (int(answers.labels.max(initial=0)) + 3) for answers in sequences]
    batch: list[int] = []
    for index in sorted(np.flatnonzero(cells).tolist(), key=cells.__getitem__):
        if batch and (len(batch) + 1) * cells[index] > BATCH_CELLS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True, eq=False)
class _BatchedHmm:
    """Recordings side by side. States: their activities, one for any other activity, last idle.

    The forward pass keeps only the state before each block of answers, and the backward pass
    computes the block again from it.
    """

    errors: ErrorRates
    words: IndexArray
    """Activities that a name is drawn from, shape (recordings,)."""
    initial: FloatArray
    """Shape (recordings, states)."""
    stay: FloatArray
    """Shape (answers - 1, recordings, 2): an activity continues; idleness continues."""
    labels: IndexArray
    """Shape (answers, recordings); -1 for no activity, -2 past the end."""

    @classmethod
    def build(
        cls, sequences: Sequence[ActivitySequence], errors: ErrorRates, active: FloatArray
    ) -> _BatchedHmm:
        count, longest = len(sequences), max(map(len, sequences))
        labels = np.full((longest, count), -2, dtype=np.intp)
        stay = np.ones((longest - 1, count, 2))
        for column, answers in enumerate(sequences):
            leaves = active[column] / (answers.mean_steps * (1 - active[column]))
            labels[: len(answers), column] = answers.labels
            stay[: len(answers) - 1, column, 0] = answers.continues
            stay[: len(answers) - 1, column, 1] = np.exp(-leaves * np.diff(answers.positions))
        named = labels.max(axis=0, initial=-1) + 1
        states = int(named.max()) + 2
        words = np.maximum(MIN_VOCABULARY, named + 1)
        is_own = np.arange(states - 1) < named[:, None]
        initial = np.zeros((count, states))
        initial[:, :-1] = np.where(is_own, (active / words)[:, None], 0.0)
        initial[:, -2] = active * (1 - named / words)
        initial[:, -1] = 1 - active
        return cls(errors, words, initial, stay, labels)

    def smooth(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Kinds (answers - 1, recordings, kinds), error counts, active shares, evidence."""
        longest, count = self.labels.shape
        size = max(BATCH_CELLS // self.initial.size, isqrt(longest), 1)
        blocks = [slice(first, first + size) for first in range(0, longest, size)]
        before, scale, independent = [self.initial], [], []
        for block in blocks:
            emission = self._emission(block)
            filtered, scaled = self._forward(block, emission, before[-1])
            before.append(filtered[-1].copy())  # not a view, which would hold the block
            scale.append(scaled)
            independent.append((emission * self.initial).sum(axis=2))
        kinds = np.empty((longest - 1, count, len(KINDS)))
        own, idle = np.empty((longest, count)), np.empty((longest, count))
        backward: FloatArray = np.ones(self.initial.shape)
        for number, block in reversed(list(enumerate(blocks))):
            if number < len(blocks) - 1:  # of the last one it is still there
                emission = self._emission(block)
                filtered, _ = self._forward(block, emission, before[number])
            for row in range(len(emission) - 1, -1, -1):
                answer = block.start + row
                chances = filtered[row + 1] * backward
                total = chances.sum(axis=1)
                label = np.maximum(self.labels[answer], 0)[:, None]
                own[answer] = np.take_along_axis(chances, label, axis=1)[:, 0] / total
                idle[answer] = chances[:, -1] / total
                if answer:
                    incoming = emission[row] * backward / scale[number][row][:, None]
                    kinds[answer - 1], backward = self._step_back(answer, filtered[row], incoming)
        evidence = float(
            np.log(np.concatenate(scale)).sum() - np.log(np.concatenate(independent)).sum()
        )
        return kinds / kinds.sum(axis=2, keepdims=True), *self._count(own, idle), evidence

    def _emission(self, block: slice) -> FloatArray:
        """Likelihood of the answers, shape (answers, recordings, states); 1 past the end."""
        labels, errors, states = self.labels[block], self.errors, self.initial.shape[1]
        detected = 1 - errors.missed
        emission = np.ones((*labels.shape, states))
        emission[labels == -1] = [*[errors.missed] * (states - 1), 1 - errors.invented]
        emission[labels >= 0] = [*[detected * errors.renamed] * (states - 1), errors.invented]
        at = np.nonzero(labels >= 0)
        emission[*at, labels[at]] += self.words[at[1]] * detected * (1 - errors.renamed)
        return emission

    def _forward(
        self, block: slice, emission: FloatArray, before: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """`before` is the state before the block, and the first of the probabilities returned."""
        filtered = np.empty((len(emission) + 1, *before.shape))
        scale = np.empty(emission.shape[:2])
        filtered[0] = now = before
        for row, likelihood in enumerate(emission):
            if answer := block.start + row:
                continues, stays_idle = self.stay[answer - 1].T
                now_active, now_idle = now[:, :-1].sum(axis=1), now[:, -1]
                switched = now_active * (1 - continues) + now_idle * (1 - stays_idle)
                stayed = np.append(
                    now[:, :-1] * continues[:, None], (now_idle * stays_idle)[:, None], 1
                )
                now = self.initial * switched[:, None] + stayed
            now = now * likelihood
            scale[row] = now.sum(axis=1)
            now = now / scale[row][:, None]
            filtered[row + 1] = now
        return filtered, scale

    def _step_back(
        self, answer: int, current: FloatArray, incoming: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        started = self.initial * incoming
        p_active, p_idle = started[:, :-1].sum(axis=1), started[:, -1]
        continues, stays_idle = self.stay[answer - 1].T
        now_active, now_idle = current[:, :-1].sum(axis=1), current[:, -1]
        ended = now_active * (1 - continues)
        restarted = (1 - continues) * (current[:, :-2] * started[:, :-2]).sum(axis=1)
        stayed = continues * (current[:, :-1] * incoming[:, :-1]).sum(axis=1)
        kinds = (
            stayed + restarted,
            ended * p_active - restarted,
            ended * p_idle + now_idle * (1 - stays_idle) * p_active,
            now_idle * (stays_idle * incoming[:, -1] + (1 - stays_idle) * p_idle),
        )
        switched = (p_active + p_idle)[:, None]
        backward = np.concatenate(
            [
                continues[:, None] * incoming[:, :-1] + (1 - continues)[:, None] * switched,
                (stays_idle * incoming[:, -1])[:, None] + (1 - stays_idle)[:, None] * switched,
            ],
            axis=1,
        )
        return np.stack(kinds, axis=1), backward

    def _count(self, own: FloatArray, p_idle: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Expected (errors, opportunities) of each kind, and the active share of each recording."""
        is_named, is_empty = self.labels >= 0, self.labels == -1
        p_active = 1 - p_idle
        matched = np.where(is_named, own, 0.0)
        counts = [
            (p_active[is_empty].sum(), p_active[is_empty | is_named].sum()),
            ((p_active - matched)[is_named].sum(), p_active[is_named].sum()),
            (p_idle[is_named].sum(), p_idle[is_empty | is_named].sum()),
        ]
        answers = (is_named | is_empty).sum(axis=0)
        busy = np.where(is_named | is_empty, p_active, 0.0).sum(axis=0)
        return np.array(counts), np.clip((busy + 2) / (answers + 4), 0.02, 0.98)
