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
"""Size limit of a batch of recordings: answers times states, padding included."""


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
    """Recordings side by side. States: their activities, one for any other activity, last idle."""

    emission: FloatArray
    """Shape (answers, recordings, states): likelihood of the answer; 1 past the end."""
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
        detected = 1 - errors.missed
        emission = np.ones((longest, count, states))
        emission[labels == -1] = [*[errors.missed] * (states - 1), 1 - errors.invented]
        emission[labels >= 0] = [*[detected * errors.renamed] * (states - 1), errors.invented]
        at = np.nonzero(labels >= 0)
        emission[*at, labels[at]] += words[at[1]] * detected * (1 - errors.renamed)
        return cls(emission, initial, stay, labels)

    def smooth(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Kinds (answers - 1, recordings, kinds), error counts, active shares, evidence."""
        filtered, scale = self._forward()
        longest, count, states = filtered.shape
        kinds = np.empty((longest - 1, count, len(KINDS)))
        backward = np.ones((count, states))
        chances = filtered.copy()
        for place in range(longest - 2, -1, -1):
            incoming = self.emission[place + 1] * backward / scale[place + 1][:, None]
            started = self.initial * incoming
            p_active, p_idle = started[:, :-1].sum(axis=1), started[:, -1]
            continues, stays_idle = self.stay[place].T
            current = filtered[place]
            now_active, now_idle = current[:, :-1].sum(axis=1), current[:, -1]
            ended = now_active * (1 - continues)
            restarted = (1 - continues) * (current[:, :-2] * started[:, :-2]).sum(axis=1)
            kinds[place, :, 0] = (
                continues * (current[:, :-1] * incoming[:, :-1]).sum(axis=1) + restarted
            )
            kinds[place, :, 1] = ended * p_active - restarted
            kinds[place, :, 2] = ended * p_idle + now_idle * (1 - stays_idle) * p_active
            kinds[place, :, 3] = now_idle * (
                stays_idle * incoming[:, -1] + (1 - stays_idle) * p_idle
            )
            switched = (p_active + p_idle)[:, None]
            backward = np.concatenate(
                [
                    continues[:, None] * incoming[:, :-1] + (1 - continues)[:, None] * switched,
                    (stays_idle * incoming[:, -1])[:, None] + (1 - stays_idle)[:, None] * switched,
                ],
                axis=1,
            )
            chances[place] *= backward
        independent = (self.emission * self.initial).sum(axis=2)
        evidence = float(np.log(scale).sum() - np.log(independent).sum())
        return kinds / kinds.sum(axis=2, keepdims=True), *self._count(chances), evidence

    def _forward(self) -> tuple[FloatArray, FloatArray]:
        """State probabilities given the answers so far, and the likelihood of each answer."""
        filtered = np.empty(self.emission.shape)
        scale = np.empty(self.emission.shape[:2])
        now = self.initial
        for place, emission in enumerate(self.emission):
            if place:
                continues, stays_idle = self.stay[place - 1].T
                now_active, now_idle = now[:, :-1].sum(axis=1), now[:, -1]
                switched = now_active * (1 - continues) + now_idle * (1 - stays_idle)
                stayed = np.append(
                    now[:, :-1] * continues[:, None], (now_idle * stays_idle)[:, None], 1
                )
                now = self.initial * switched[:, None] + stayed
            now = now * emission
            scale[place] = now.sum(axis=1)
            now = now / scale[place][:, None]
            filtered[place] = now
        return filtered, scale

    def _count(self, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Expected (errors, opportunities) of each kind, and the active share of each recording."""
        chances = chances / chances.sum(axis=2, keepdims=True)
        is_named, is_empty = self.labels >= 0, self.labels == -1
        p_idle = chances[:, :, -1]
        p_active = 1 - p_idle
        own = np.take_along_axis(chances, np.maximum(self.labels, 0)[:, :, None], axis=2)[:, :, 0]
        matched = np.where(is_named, own, 0.0)
        counts = [
            (p_active[is_empty].sum(), p_active[is_empty | is_named].sum()),
            ((p_active - matched)[is_named].sum(), p_active[is_named].sum()),
            (p_idle[is_named].sum(), p_idle[is_empty | is_named].sum()),
        ]
        answers = (is_named | is_empty).sum(axis=0)
        busy = np.where(is_named | is_empty, p_active, 0.0).sum(axis=0)
        return np.array(counts), np.clip((busy + 2) / (answers + 4), 0.02, 0.98)
