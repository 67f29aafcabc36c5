"""What is likely behind answers that may err, against every course that things can take."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest

from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection import hidden_activity
from earmark.selection.hidden_activity import (
    KINDS,
    MIN_VOCABULARY,
    PRIOR_ERRORS,
    ActivitySequence,
    infer_kinds,
    label_activities,
)


def equal(first: str, last: str) -> bool:
    return first == last


def known(drawing: str, *, median: float = 20.0) -> ActivitySequence:
    """A letter is an activity, `-` nothing, `.` not asked; windows of 4 s."""
    survival = Survival.lognormal(median=median, sigma=0.5)
    count = len(drawing)
    rates, middles = np.full(count, 0.1), np.arange(count) * 4.0 + 2
    windows = Windows(4.0, count * 4.0, rates, middles, rates, survival)
    places = [place for place, sign in enumerate(drawing) if sign != "."]
    said = [drawing[place].strip("-") for place in places]
    return ActivitySequence.build(windows, places, said, equal)


def kinds(drawing: str, **choices: float) -> list[str]:
    """The likeliest of each stretch."""
    (found,), *_ = infer_kinds([known(drawing, **choices)])
    return [KINDS[place] for place in found.argmax(axis=1)]


def every_course(one: ActivitySequence) -> np.ndarray:
    """The chances of kinds by adding up all courses that things can take: the slow way."""
    told = int(one.labels.max()) + 1
    words = max(MIN_VOCABULARY, told + 1)
    first = [0.5 / words] * told + [0.5 * (1 - told / words), 0.5]
    idle, leaves = told + 1, 0.5 / (one.mean_steps * 0.5)
    total = np.zeros((len(one) - 1, len(KINDS)))
    # A course says of each answer what is done, and between answers whether that goes on.
    for states in product(range(told + 2), repeat=len(one)):
        chance = first[states[0]]
        for state, name in zip(states, one.labels.tolist(), strict=True):
            chance *= emission(state, name, idle, words)
        for goes_on in product((True, False), repeat=len(one) - 1):
            own, steps = chance, []
            for place, stays in enumerate(goes_on):
                here, there = states[place : place + 2]
                apart = one.positions[place + 1] - one.positions[place]
                stay = np.exp(-leaves * apart) if here == idle else one.continues[place]
                own *= (stay * (here == there)) if stays else (1 - stay) * first[there]
                active = (here != idle) + (there != idle)
                is_same = here == there and active and (stays or here < told)
                steps.append(0 if is_same else (3, 2, 1)[active])
            for place, kind in enumerate(steps):
                total[place, kind] += own
    return total / total.sum(axis=1, keepdims=True)


def emission(state: int, name: int, idle: int, words: int) -> float:
    if name < 0:
        return 1 - PRIOR_ERRORS.invented if state == idle else PRIOR_ERRORS.missed
    if state == idle:
        return PRIOR_ERRORS.invented
    own = words * (1 - PRIOR_ERRORS.renamed) if state == name else 0.0
    return (1 - PRIOR_ERRORS.missed) * (own + PRIOR_ERRORS.renamed)


@pytest.mark.parametrize("drawing", ["a..a.b", "a.-.a", "a..b..-.b", "-.-..a", "a....b"])
def test_chances_are_those_of_all_courses_added_up(drawing, monkeypatch):
    monkeypatch.setattr(hidden_activity, "EM_ITERATIONS", 1)
    (found,), *_ = infer_kinds([known(drawing)])
    assert found == pytest.approx(every_course(known(drawing)))


@pytest.mark.parametrize(
    ("drawing", "expected"),
    [
        ("a.a", ["same"]),
        ("a.........b", ["differ"]),
        ("-.-.-.-", ["idle"] * 3),
        ("-.-........a.a", ["idle", "one_empty", "same"]),
        ("a.a.-.a.a", ["same"] * 4),  # nothing amid what goes on is a miss
        ("a.a.b.a.a", ["same"] * 4),  # another word amid it is another word for it
        ("-.-.-.a.-.-.-", ["idle"] * 6),  # something amid nothing is invented
    ],
)
def test_an_answer_that_does_not_fit_its_neighbours_is_doubted(drawing, expected):
    assert kinds(drawing) == expected


def test_what_is_short_may_have_ended_between_two_answers():
    """Nothing between two that agree is a miss where actions are long, and nothing where not."""
    assert kinds("a...-...a", median=200.0) == ["same", "same"]
    assert kinds("a...-...a", median=2.0) == ["one_empty", "one_empty"]


def test_faults_are_learnt_from_the_answers_of_all_recordings():
    """Beside many answers that never agree where they should, one more that does not says less."""
    (alone,), *_ = infer_kinds([known("a.b")])
    noisy = known("c.d.c.e.c.f.c.g.c.h.c.i.c.j.c.k.c.l.c.m.c.n.c.o.c.p.c")
    (among, *_), *_ = infer_kinds([known("a.b"), *[noisy] * 5])
    assert among[0, 0] > alone[0, 0] + 0.1


def test_recordings_side_by_side_are_as_each_by_itself(monkeypatch):
    monkeypatch.setattr(hidden_activity, "EM_ITERATIONS", 1)
    drawings = ["a..a.b", "", "-", "a.-.a.b.b.c", "-.-"]
    many = [known(drawing) for drawing in drawings]
    together, evidence, _ = infer_kinds(many)
    alone = [infer_kinds([one]) for one in many]
    for one, found, (own, *_) in zip(many, together, alone, strict=True):
        assert found == pytest.approx(own[0])
        assert len(found) == max(0, len(one) - 1)
    assert evidence == pytest.approx(sum(each for _, each, _ in alone))
    monkeypatch.setattr(hidden_activity, "BATCH_CELLS", 1)
    again, same, _ = infer_kinds(many)
    assert all(map(np.allclose, again, together))
    assert same == pytest.approx(evidence)


@pytest.mark.parametrize(
    ("drawing", "is_more"),
    [("a.a.a.b.b.-.-.-", True), ("a.b.c.d.e.f.g.h", False), ("a.-.b.-.-.c.d.-", False)],
)
def test_answers_that_go_on_from_one_to_the_next_are_evidence(drawing, is_more):
    assert (infer_kinds([known(drawing)])[1] > 1) is is_more


def test_an_activity_long_before_is_another():
    said = ["stir soup", "", "stirring the soup", *"abcdefgh", "stir soup"]
    alike = {"stir soup", "stirring the soup"}
    numbers = label_activities(said, lambda one, other: {one, other} <= alike).tolist()
    assert numbers[:3] == [0, -1, 0]
    assert numbers[3:] == list(range(1, 10))


def test_many_different_activities_take_time_in_proportion():
    """Ten hours of answers, no two alike: only the last few are compared with the next."""

    class Words(str):
        hashed = 0

        def __hash__(self):
            Words.hashed += 1
            return super().__hash__()

    said = [Words(f"activity {number}") for number in range(2000)]
    assert label_activities(said, lambda *_: False).tolist() == list(range(2000))
    assert Words.hashed < 40 * len(said)


@pytest.mark.parametrize("held", [1, 100, 400])
def test_a_recording_taken_in_blocks_is_as_in_one(held, monkeypatch):
    rng = np.random.default_rng(0)
    places = np.cumsum(rng.integers(1, 4, size=90))
    one = ActivitySequence(places, rng.integers(-1, 9, size=90), np.array([4.0, 2.0, 1.0]))
    whole = infer_kinds([one])
    monkeypatch.setattr(hidden_activity, "BATCH_CELLS", held)
    blocks = infer_kinds([one])
    assert np.array_equal(whole[0][0], blocks[0][0])
    assert (whole[1], whole[2].errors) == (blocks[1], blocks[2].errors)
    assert np.array_equal(whole[2].active, blocks[2].active)


def test_many_different_answers_do_not_fill_the_memory():
    each = np.arange(2000)  # answers times activities are 32 MB, several times over
    one = ActivitySequence(each, each, np.array([5.0, 3.0, 1.0]))
    usual = hidden_activity.AnswerStatistics(PRIOR_ERRORS, np.array([0.5]))
    tracemalloc.start()
    try:
        infer_kinds([one], usual)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 50e6
