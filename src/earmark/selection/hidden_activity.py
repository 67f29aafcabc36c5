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

RECALLED = 8
"""Answers back that an activity is looked for: what was done long before is another action."""

VOCABULARY = 20
"""Activities that there are at least, so that two actions bear one name by chance at most so often
as once in so many."""

PASSES = 4
"""Of expectation maximisation."""

BATCH_CELLS = 1 << 20
"""Answers times activities of recordings that are worked on together, padding included."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How often answers err, as a share."""

    missed: float = 0.1
    """Of windows in which something is done."""
    renamed: float = 0.15
    """Of activities that are told."""
    invented: float = 0.03
    """Of windows in which nothing is done."""

    @classmethod
    def learn(cls, counts: FloatArray) -> Faults:
        """The shares by expected (faults, chances) of each kind, beside the usual ones."""
        usual = np.array([USUAL.missed, USUAL.renamed, USUAL.invented])
        shares = (counts[:, 0] + usual * CERTAINTY) / (counts[:, 1] + CERTAINTY)
        return cls(*shares.tolist())


USUAL = Faults()

CERTAINTY = 20
"""Answers that the usual faults count as much as."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownActivities:
    """The answers about one recording that say what is being done."""

    places: IndexArray
    """Their windows, increasing."""
    names: IndexArray
    """The activity of each, from 0; -1 where nothing is done."""
    left: FloatArray
    """Steps that what is being done goes on for in the mean, times the chance that it still goes on
    after so many steps."""

    @classmethod
    def of(
        cls, windows: Windows, places: Sequence[int], said: Sequence[str], agree: Agreement
    ) -> KnownActivities:
        """What `said` at the windows `places` is about."""
        left = np.cumsum(windows.survival.reach(windows.step)[::-1])[::-1]
        return cls(np.array(places, dtype=np.intp), name_activities(said, agree), left)

    @property
    def goes_on(self) -> FloatArray:
        """From each to the next, the chance that what is being done goes on."""
        apart = np.minimum(np.diff(self.places), len(self.left))
        chances: FloatArray = np.append(self.left / self.left[0], 0.0)[apart]
        return chances

    @property
    def length(self) -> float:
        """Steps that an action lasts in the mean."""
        return float(self.left[0])

    def every_other(self, first: int) -> KnownActivities:
        """Every second of the answers, from the `first` on."""
        return replace(self, places=self.places[first::2], names=self.names[first::2])

    def __len__(self) -> int:
        return len(self.places)

    @property
    def cells(self) -> int:
        """What it takes of a batch."""
        return len(self) * (int(self.names.max(initial=0)) + 3)


def name_activities(said: Sequence[str], agree: Agreement) -> IndexArray:
    """A number for each activity, the same where a recent answer agrees; -1 for nothing."""
    found: list[int] = []
    recent: dict[str, tuple[int, int]] = {}  # by words, the number and when they were last said
    known = told = 0
    for words in said:
        if not words:
            found.append(-1)
            continue
        told += 1
        number, last = recent.pop(words, (-1, -RECALLED))
        if told - last > RECALLED:
            near = (other for other in reversed(recent) if told - recent[other][1] <= RECALLED)
            same = next((other for other in near if agree(other, words)), None)
            number = known if same is None else recent[same][0]
        known = max(known, number + 1)
        recent[words] = number, told
        found.append(number)
    return np.array(found, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Habits:
    """How often answers err, and how often something is being done, in the recordings of a run."""

    faults: Faults
    active: FloatArray
    """The share of the time of each recording that something is being done."""


def likely_kinds(
    many: Sequence[KnownActivities], habits: Habits | None = None
) -> tuple[list[FloatArray], float, Habits]:
    """For the answers about each recording the chances of `KINDS` between each and the next.

    Shape (answers - 1, kinds). And how much likelier all answers are because things go on from one
    to the next, than if each was about something else: the difference of log-likelihoods. And the
    habits that were learnt from the answers, where none are given.
    """
    kinds: list[FloatArray] = [np.empty((0, len(KINDS)))] * len(many)
    batches = list(_batches(many))
    passes = 1 if habits else PASSES
    habits = habits or Habits(USUAL, np.full(len(many), 0.5))
    for _ in range(passes):
        counts, evidence, active = np.zeros((3, 2)), 0.0, habits.active.copy()
        for batch in batches:
            own = [many[place] for place in batch]
            model = _Chains.of(own, habits.faults, habits.active[batch])
            found, learnt, active[batch], gained = model.smooth()
            counts += learnt
            evidence += gained
            for row, place in enumerate(batch):
                kinds[place] = found[: max(0, len(many[place]) - 1), row]
        habits = Habits(Faults.learn(counts), active)
    return kinds, evidence, habits


def _batches(many: Sequence[KnownActivities]) -> Iterator[list[int]]:
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
class _Chains:
    """Recordings side by side; states are their activities, one not told of, and last nothing."""

    likely: FloatArray
    """Shape (answers, recordings, states): how likely each makes the answer; 1 past the end."""
    first: FloatArray
    """Shape (recordings, states): chances of whatever is begun."""
    stays: FloatArray
    """Shape (answers - 1, recordings, 2): what is done goes on; so does that nothing is."""
    names: IndexArray
    """Shape (answers, recordings); -1 for nothing, -2 past the end."""

    @classmethod
    def of(cls, many: Sequence[KnownActivities], faults: Faults, active: FloatArray) -> _Chains:
        count, longest = len(many), max(map(len, many))
        names = np.full((longest, count), -2, dtype=np.intp)
        stays = np.ones((longest - 1, count, 2))
        for column, one in enumerate(many):
            leaves = active[column] / (one.length * (1 - active[column]))
            names[: len(one), column] = one.names
            stays[: len(one) - 1, column, 0] = one.goes_on
            stays[: len(one) - 1, column, 1] = np.exp(-leaves * np.diff(one.places))
        known = names.max(axis=0, initial=-1) + 1
        states = int(known.max()) + 2
        words = np.maximum(VOCABULARY, known + 1)
        is_own = np.arange(states - 1) < known[:, None]
        first = np.zeros((count, states))
        first[:, :-1] = np.where(is_own, (active / words)[:, None], 0.0)
        first[:, -2] = active * (1 - known / words)
        first[:, -1] = 1 - active
        told = 1 - faults.missed
        likely = np.ones((longest, count, states))
        likely[names == -1] = [*[faults.missed] * (states - 1), 1 - faults.invented]
        likely[names >= 0] = [*[told * faults.renamed] * (states - 1), faults.invented]
        at = np.nonzero(names >= 0)
        likely[*at, names[at]] += words[at[1]] * told * (1 - faults.renamed)
        return cls(likely, first, stays, names)

    def smooth(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Chances of kinds (answers - 1, recordings, kinds), faults, active shares, evidence."""
        before, scale = self._forward()
        longest, count, states = before.shape
        kinds = np.empty((longest - 1, count, len(KINDS)))
        after = np.ones((count, states))
        chances = before.copy()
        for place in range(longest - 2, -1, -1):
            coming = self.likely[place + 1] * after / scale[place + 1][:, None]
            begun = self.first * coming
            works, rests = begun[:, :-1].sum(axis=1), begun[:, -1]
            goes_on, idles = self.stays[place].T
            here = before[place]
            done, nothing = here[:, :-1].sum(axis=1), here[:, -1]
            ends = done * (1 - goes_on)
            again = (1 - goes_on) * (here[:, :-2] * begun[:, :-2]).sum(axis=1)
            kinds[place, :, 0] = goes_on * (here[:, :-1] * coming[:, :-1]).sum(axis=1) + again
            kinds[place, :, 1] = ends * works - again
            kinds[place, :, 2] = ends * rests + nothing * (1 - idles) * works
            kinds[place, :, 3] = nothing * (idles * coming[:, -1] + (1 - idles) * rests)
            moved = (works + rests)[:, None]
            after = np.concatenate(
                [
                    goes_on[:, None] * coming[:, :-1] + (1 - goes_on)[:, None] * moved,
                    (idles * coming[:, -1])[:, None] + (1 - idles)[:, None] * moved,
                ],
                axis=1,
            )
            chances[place] *= after
        apart = (self.likely * self.first).sum(axis=2)
        evidence = float(np.log(scale).sum() - np.log(apart).sum())
        return kinds / kinds.sum(axis=2, keepdims=True), *self._count(chances), evidence

    def _forward(self) -> tuple[FloatArray, FloatArray]:
        """The chances of the states by the answers so far, and how likely each answer was."""
        before = np.empty(self.likely.shape)
        scale = np.empty(self.likely.shape[:2])
        now = self.first
        for place, likely in enumerate(self.likely):
            if place:
                goes_on, idles = self.stays[place - 1].T
                done, nothing = now[:, :-1].sum(axis=1), now[:, -1]
                moved = done * (1 - goes_on) + nothing * (1 - idles)
                stayed = np.append(now[:, :-1] * goes_on[:, None], (nothing * idles)[:, None], 1)
                now = self.first * moved[:, None] + stayed
            now = now * likely
            scale[place] = now.sum(axis=1)
            now = now / scale[place][:, None]
            before[place] = now
        return before, scale

    def _count(self, chances: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Expected (faults, chances to err) of each kind, and the active share of each."""
        chances = chances / chances.sum(axis=2, keepdims=True)
        is_told, is_empty = self.names >= 0, self.names == -1
        rests = chances[:, :, -1]
        works = 1 - rests
        own = np.take_along_axis(chances, np.maximum(self.names, 0)[:, :, None], axis=2)[:, :, 0]
        named = np.where(is_told, own, 0.0)
        counts = [
            (works[is_empty].sum(), works[is_empty | is_told].sum()),
            ((works - named)[is_told].sum(), works[is_told].sum()),
            (rests[is_told].sum(), rests[is_empty | is_told].sum()),
        ]
        answers = (is_told | is_empty).sum(axis=0)
        busy = np.where(is_told | is_empty, works, 0.0).sum(axis=0)
        return np.array(counts), np.clip((busy + 2) / (answers + 4), 0.02, 0.98)
