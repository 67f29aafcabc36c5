"""Infers the true activity behind answers that may be wrong: a hidden Markov model.

    true       chop ─── chop ─── chop ─── nothing ─── wash
    answers    chop     nothing  stir     nothing     wash
               │        missed   renamed              │
               └─ it continues, or another one starts, or nothing is done ───┘

From one answer to the next, the activity continues with the probability that actions last that
long; otherwise another activity starts, or nothing is done. An answer may miss the activity, invent
one, or name it as no other answer does. The rates of these three errors are learnt from the answers
of the run by expectation maximisation, with a prior that dominates where answers are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isqrt

import numpy as np

from earmark.grid import Windows
from earmark.timeline import FloatArray, IndexArray

Agrees = Callable[[str, str], bool]
"""Whether two activities, neither of them empty, are the same."""

KINDS = ("same", "differ", "one_empty", "idle")
"""The two ends of a gap: same activity, different activities, one of them idle, both idle."""

LOOKBACK = 8
"""Earlier answers searched for the same activity; anything older counts as another action."""

MIN_VOCABULARY = 20
"""Least number of distinct activities assumed: two different actions share a name by chance at most
once in 20."""

EM_ITERATIONS = 4
"""Iterations of expectation maximisation."""

BATCH_CELLS = 1 << 20
"""Size limit of a batch of recordings: answers times states, padding included. Of a recording that
is larger by itself, so much is held at a time."""


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """How often answers are wrong, as shares."""

    missed: float = 0.1
    """Share of windows with an activity whose answer says that nothing is done."""
    renamed: float = 0.15
    """Share of named activities that have a name no other answer uses."""
    invented: float = 0.03
    """Share of windows without an activity whose answer names one."""

    @classmethod
    def learn(cls, counts: FloatArray) -> ErrorRates:
        """The shares for expected (errors, opportunities) of each kind, shape (3, 2)."""
        usual = np.array([PRIOR_ERRORS.missed, PRIOR_ERRORS.renamed, PRIOR_ERRORS.invented])
        shares = (counts[:, 0] + usual * PRIOR_ANSWERS) / (counts[:, 1] + PRIOR_ANSWERS)
        return cls(*shares.tolist())


PRIOR_ERRORS = ErrorRates()

PRIOR_ANSWERS = 20
"""Weight of the prior error rates, in answers."""


@dataclass(frozen=True, slots=True, eq=False)
class ActivitySequence:
    """The answers about one recording that say whether something is done, and what."""

    positions: IndexArray
    """Window of each answer, increasing."""
    labels: IndexArray
    """Activity of each answer, from 0; -1 where nothing is done."""
    remaining: FloatArray
    """By number of steps d: the mean steps an action lasts, times the probability that an action in
    progress still continues d steps later."""

    @classmethod
    def build(
        cls, windows: Windows, positions: Sequence[int], activities: Sequence[str], agree: Agrees
    ) -> ActivitySequence:
        """The sequence of `activities` at the windows `positions`; "" is no activity."""
        remaining = np.cumsum(windows.survival.reach(windows.step)[::-1])[::-1]
        return cls(
            np.array(positions, dtype=np.intp), label_activities(activities, agree), remaining
        )

    @property
    def continues(self) -> FloatArray:
        """Probability that the activity continues from each answer to the next."""
        distances = np.minimum(np.diff(self.positions), len(self.remaining))
        chances: FloatArray = np.append(self.remaining / self.remaining[0], 0.0)[distances]
        return chances

    @property
    def mean_steps(self) -> float:
        """Mean duration of an action, in steps."""
        return float(self.remaining[0])

    def every_other(self, first: int) -> ActivitySequence:
        """Every second answer, starting with number `first`."""
        return replace(self, positions=self.positions[first::2], labels=self.labels[first::2])

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def cells(self) -> int:
        """Space needed in a batch: answers times states."""
        return len(self) * (int(self.labels.max(initial=0)) + 3)


def label_activities(activities: Sequence[str], agree: Agrees) -> IndexArray:
    """A number for each activity, shared with a recent answer that agrees; -1 for no activity."""
    found: list[int] = []
    recent: dict[str, tuple[int, int]] = {}  # by words: number, and when last used
    known = position = 0
    for words in activities:
        if not words:
            found.append(-1)
            continue
        position += 1
        number, last = recent.pop(words, (-1, -LOOKBACK))
        if position - last > LOOKBACK:
            latest = islice(reversed(recent), LOOKBACK)  # in the order of their last use
            near = (other for other in latest if position - recent[other][1] <= LOOKBACK)
            same = next((other for other in near if agree(other, words)), None)
            number = known if same is None else recent[same][0]
        known = max(known, number + 1)
        recent[words] = number, position
        found.append(number)
    return np.array(found, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerStatistics:
    """Error rates of the answers of a run, and how active each of its recordings is."""

    errors: ErrorRates
    active: FloatArray
    """Share of time in which something is done, one value per recording."""


def infer_kinds(
    many: Sequence[ActivitySequence], statistics: AnswerStatistics | None = None
) -> tuple[list[FloatArray], float, AnswerStatistics]:
    """Infer what lies at the two ends of each gap between consecutive answers.

    Returns:
        For each recording the probabilities of `KINDS`, shape (answers - 1, kinds); the gain in
        log-likelihood over a model in which every answer is independent; and the statistics, learnt
        from these answers unless given.
    """
    kinds: list[FloatArray] = [np.empty((0, len(KINDS)))] * len(many)
    batches = list(_batches(many))
    passes = 1 if statistics else EM_ITERATIONS
    statistics = statistics or AnswerStatistics(PRIOR_ERRORS, np.full(len(many), 0.5))
    for _ in range(passes):
        counts, evidence, active = np.zeros((3, 2)), 0.0, statistics.active.copy()
        for batch in batches:
            own = [many[place] for place in batch]
            model = _BatchedHmm.build(own, statistics.errors, statistics.active[batch])
            found, learnt, active[batch], gain = model.smooth()
            counts += learnt
            evidence += gain
            for row, place in enumerate(batch):
                kinds[place] = found[: max(0, len(many[place]) - 1), row]
        statistics = AnswerStatistics(ErrorRates.learn(counts), active)
    return kinds, evidence, statistics


def _batches(many: Sequence[ActivitySequence]) -> Iterator[list[int]]:
    """Indices of recordings with similar numbers of answers; those without any are skipped."""
    order = [place for place, one in enumerate(many) if len(one)]
    order.sort(key=lambda place: many[place].cells)
    batch: list[int] = []
    for place in order:
        if batch and (len(batch) + 1) * many[place].cells > BATCH_CELLS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True, eq=False)
class _BatchedHmm:
    """Recordings side by side. States: their activities, one for any other activity, last idle.

    Answers times states can be far more than memory holds, so only a block of answers is expanded
    at a time: the forward pass keeps the state before each block, and the backward pass computes
    the block again from it.
    """

    errors: ErrorRates
    words: IndexArray
    """Shape (recordings,): number of activities that a name is drawn from."""
    initial: FloatArray
    """Shape (recordings, states): probability of each state when something new starts."""
    stay: FloatArray
    """Shape (answers - 1, recordings, 2): an activity continues; idleness continues."""
    labels: IndexArray
    """Shape (answers, recordings); -1 for no activity, -2 past the end."""

    @classmethod
    def build(
        cls, many: Sequence[ActivitySequence], errors: ErrorRates, active: FloatArray
    ) -> _BatchedHmm:
        count, longest = len(many), max(map(len, many))
        labels = np.full((longest, count), -2, dtype=np.intp)
        stay = np.ones((longest - 1, count, 2))
        for column, one in enumerate(many):
            leaves = active[column] / (one.mean_steps * (1 - active[column]))
            labels[: len(one), column] = one.labels
            stay[: len(one) - 1, column, 0] = one.continues
            stay[: len(one) - 1, column, 1] = np.exp(-leaves * np.diff(one.positions))
        known = labels.max(axis=0, initial=-1) + 1
        states = int(known.max()) + 2
        words = np.maximum(MIN_VOCABULARY, known + 1)
        is_own = np.arange(states - 1) < known[:, None]
        initial = np.zeros((count, states))
        initial[:, :-1] = np.where(is_own, (active / words)[:, None], 0.0)
        initial[:, -2] = active * (1 - known / words)
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
                place = block.start + row
                chances = filtered[row + 1] * backward
                own[place], idle[place] = self._share_own_and_idle(place, chances)
                if place:
                    incoming = emission[row] * backward / scale[number][row][:, None]
                    kinds[place - 1], backward = self._step_back(place, filtered[row], incoming)
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
        """State probabilities given the answers so far, and the likelihood of each answer.

        The first of the probabilities is `before`, the one before the block.
        """
        filtered = np.empty((len(emission) + 1, *before.shape))
        scale = np.empty(emission.shape[:2])
        filtered[0] = now = before
        for row, likelihood in enumerate(emission):
            if place := block.start + row:
                continues, stays_idle = self.stay[place - 1].T
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
        self, place: int, current: FloatArray, incoming: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Kinds of the gap before answer `place`, and the likelihood of all that follows it.

        `current` is the state before the gap, `incoming` the likelihood of what follows the gap.
        """
        started = self.initial * incoming
        p_active, p_idle = started[:, :-1].sum(axis=1), started[:, -1]
        continues, stays_idle = self.stay[place - 1].T
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

    def _share_own_and_idle(self, place: int, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities of the activity that answer `place` names, and of none."""
        label = np.maximum(self.labels[place], 0)[:, None]
        total = chances.sum(axis=1)
        return np.take_along_axis(chances, label, axis=1)[:, 0] / total, chances[:, -1] / total

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
