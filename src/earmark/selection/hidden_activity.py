"""What is likely behind answers that may err: a hidden Markov model of what is being done.

    done       chop ─── chop ─── chop ─── nothing ─── wash
    answers    chop     nothing  stir     nothing     wash
               │        missed   renamed              │
               └─ the same goes on, or another is begun, or nothing is done ─┘

From one answer to the next the same goes on, by how long actions last; else something else is being
done, or nothing. An answer misses what is done, invents, or names it as no other answer does, each
with a chance of its own; these are learnt from the answers of the run themselves
(expectation maximisation), and held back by what is usual where answers are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.timeline import FloatArray, IndexArray

Agreement = Callable[[str, str], bool]
"""Whether two activities, neither of them empty, are the same."""

KINDS = ("same", "differ", "one_empty", "idle")
"""What is being done at both ends of a stretch: the same, two activities, one, or none."""

LOOKBACK = 8
"""Answers back that an activity is looked for: what was done long before is another action."""

MIN_VOCABULARY = 20
"""Activities that there are at least, so that two actions bear one name by chance at most so often
as once in so many."""

EM_ITERATIONS = 4
"""Of expectation maximisation."""

BATCH_CELLS = 1 << 20
"""Answers times activities of recordings that are worked on together, padding included."""


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """How often answers err, as a share."""

    missed: float = 0.1
    """Of windows in which something is done."""
    renamed: float = 0.15
    """Of activities that are told."""
    invented: float = 0.03
    """Of windows in which nothing is done."""

    @classmethod
    def learn(cls, counts: FloatArray) -> ErrorRates:
        """The shares by expected (faults, chances) of each kind, beside the usual ones."""
        usual = np.array([PRIOR_ERRORS.missed, PRIOR_ERRORS.renamed, PRIOR_ERRORS.invented])
        shares = (counts[:, 0] + usual * PRIOR_ANSWERS) / (counts[:, 1] + PRIOR_ANSWERS)
        return cls(*shares.tolist())


PRIOR_ERRORS = ErrorRates()

PRIOR_ANSWERS = 20
"""Answers that the usual faults count as much as."""


@dataclass(frozen=True, slots=True, eq=False)
class ActivitySequence:
    """The answers about one recording that say what is being done."""

    positions: IndexArray
    """Their windows, increasing."""
    labels: IndexArray
    """The activity of each, from 0; -1 where nothing is done."""
    remaining: FloatArray
    """Steps that what is being done goes on for in the mean, times the chance that it still goes on
    after so many steps."""

    @classmethod
    def build(
        cls, windows: Windows, positions: Sequence[int], activities: Sequence[str], agree: Agreement
    ) -> ActivitySequence:
        """What `said` at the windows `places` is about."""
        remaining = np.cumsum(windows.survival.reach(windows.step)[::-1])[::-1]
        return cls(
            np.array(positions, dtype=np.intp), label_activities(activities, agree), remaining
        )

    @property
    def continues(self) -> FloatArray:
        """From each to the next, the chance that what is being done goes on."""
        distances = np.minimum(np.diff(self.positions), len(self.remaining))
        chances: FloatArray = np.append(self.remaining / self.remaining[0], 0.0)[distances]
        return chances

    @property
    def mean_steps(self) -> float:
        """Steps that an action lasts in the mean."""
        return float(self.remaining[0])

    def every_other(self, first: int) -> ActivitySequence:
        """Every second of the answers, from the `first` on."""
        return replace(self, positions=self.positions[first::2], labels=self.labels[first::2])

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def cells(self) -> int:
        """What it takes of a batch."""
        return len(self) * (int(self.labels.max(initial=0)) + 3)


def label_activities(activities: Sequence[str], agree: Agreement) -> IndexArray:
    """A number for each activity, the same where a recent answer agrees; -1 for nothing."""
    found: list[int] = []
    recent: dict[str, tuple[int, int]] = {}  # by words, the number and when they were last said
    known = position = 0
    for words in activities:
        if not words:
            found.append(-1)
            continue
        position += 1
        number, last = recent.pop(words, (-1, -LOOKBACK))
        if position - last > LOOKBACK:
            near = (other for other in reversed(recent) if position - recent[other][1] <= LOOKBACK)
            same = next((other for other in near if agree(other, words)), None)
            number = known if same is None else recent[same][0]
        known = max(known, number + 1)
        recent[words] = number, position
        found.append(number)
    return np.array(found, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerStatistics:
    """How often answers err, and how often something is being done, in the recordings of a run."""

    errors: ErrorRates
    active: FloatArray
    """The share of the time of each recording that something is being done."""


def infer_kinds(
    many: Sequence[ActivitySequence], statistics: AnswerStatistics | None = None
) -> tuple[list[FloatArray], float, AnswerStatistics]:
    """For the answers about each recording the chances of `KINDS` between each and the next.

    Shape (answers - 1, kinds). And how much likelier all answers are because things go on from one
    to the next, than if each was about something else: the difference of log-likelihoods. And the
    habits that were learnt from the answers, where none are given.
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
    """Recordings of a similar number of answers together; those without any are left out."""
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
    """Recordings side by side; states are their activities, one not told of, and last nothing."""

    emission: FloatArray
    """Shape (answers, recordings, states): how likely each makes the answer; 1 past the end."""
    initial: FloatArray
    """Shape (recordings, states): chances of whatever is begun."""
    stay: FloatArray
    """Shape (answers - 1, recordings, 2): what is done goes on; so does that nothing is."""
    labels: IndexArray
    """Shape (answers, recordings); -1 for nothing, -2 past the end."""

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
        """Chances of kinds (answers - 1, recordings, kinds), faults, active shares, evidence."""
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
        """The chances of the states by the answers so far, and how likely each answer was."""
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
        """Expected (faults, chances to err) of each kind, and the active share of each."""
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
