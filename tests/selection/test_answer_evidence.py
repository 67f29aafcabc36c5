"""What answers tell about the stretches between them."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Budget
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection import Coverage, allocate, answer_evidence
from earmark.selection.answer_evidence import (
    NO_ACTIVITY,
    Gaps,
    ObservedActivity,
    RevisedWindows,
    factors_by_kind,
    fit_factors,
    hold_out,
)
from earmark.selection.hidden_activity import KINDS, ActivitySequence, infer_kinds
from earmark.selection.pick import gains
from earmark.selection.rounds import Turn, count_new_activities, revise_by_answers
from earmark.timeline import FloatArray

FITTED = {name: getattr(answer_evidence, name) for name in ("DISTANCES", "FACTORS")}


@pytest.fixture
def fitted_factors(monkeypatch):
    for name, value in FITTED.items():
        monkeypatch.setattr(answer_evidence, name, value)


@pytest.fixture(autouse=True)
def simple_factors(monkeypatch):
    """Factors that are the same at every distance."""
    factors = {"same": 0.1, "differ": 1.0, "one_empty": 0.5, "idle": 0.02}
    monkeypatch.setattr(answer_evidence, "DISTANCES", (1.0, 10.0))
    rows = {kind: (factor, factor) for kind, factor in factors.items()}
    monkeypatch.setattr(answer_evidence, "FACTORS", rows)


def windows(
    count: int, *, owned: tuple[int, ...] = (), rate: float = 0.5, heard: bool = False
) -> Windows:
    """Windows of one rate: of almost one where something is `heard`."""
    survival = Survival.lognormal(median=4.0, sigma=0.5)
    middles = np.arange(count) * 4.0 + 2
    scores, rates = np.zeros(count), np.full(count, rate)
    rates[:1] += 1e-9 * rate * heard
    return Windows(4.0, count * 4.0, scores, middles, rates, survival, owned)


def equal(first: str, last: str) -> bool:
    return first == last


def seen(drawing: str) -> list[ObservedActivity]:
    """A letter is an activity, `-` nothing, `?` an answer that does not say, `.` not asked."""
    said = {"-": NO_ACTIVITY, "?": None}
    return [
        ObservedActivity(place, said.get(sign, sign))
        for place, sign in enumerate(drawing)
        if sign != "."
    ]


def revised(*drawings: str) -> RevisedWindows:
    answers = [seen(drawing) for drawing in drawings]
    many = [
        windows(len(drawing), owned=tuple(one.window for one in some))
        for drawing, some in zip(drawings, answers, strict=True)
    ]
    return RevisedWindows(many, answers, agree=equal)


def test_a_stretch_between_answers_that_differ_expects_most():
    (found,) = revised("a....a....b....-....-")
    same, differ, half, empty = (found.rates[place] for place in (2, 7, 12, 17))
    assert differ > half > same > empty
    assert found.rates[[0, 5, 10]] == pytest.approx(0.5)


def test_as_much_is_expected_between_answers_as_before():
    """Of what neither end touches: g weighs what starts just before an answer."""
    many = revised("a....a....b....-....-", "a.........a")
    before = sum(gaps.expected.sum() for gaps in many.gaps)
    after = sum((gaps.expected * gaps.factor).sum() for gaps in many.gaps)
    assert after * many.normaliser == pytest.approx(before)


@pytest.mark.parametrize("drawing", ["a....b....c", "-....-....-", "?....?....?", "a", ".....", ""])
def test_answers_that_are_all_alike_change_next_to_nothing(drawing):
    many = revised(drawing)
    (found,) = many
    assert not many.is_informative
    assert found.rates == pytest.approx(np.full(len(drawing), 0.5), rel=0.1)


def test_beside_an_answer_that_does_not_say_nothing_is_known():
    (found,) = revised("a....?....b....b")
    assert found.rates[[2, 7]] == pytest.approx(0.5)
    assert [KINDS[kind] for kind in revised("a....?....b....b").gaps[0].kind] == ["same"]


@pytest.mark.parametrize(
    ("drawing", "is_informative"),
    [
        ("a....b....c....d....e....e....f....g....h....i....j....k", False),
        ("....".join("aaaab------ccccdeeeef------gggghiiiij------kkkkl"), True),
        ("a....a....b", False),
    ],
)
def test_auto_goes_by_the_sound_where_answers_tell_little(drawing, is_informative):
    many = revised(drawing)
    assert many.is_informative is is_informative
    plain, turn = list(many.many), Turn(2, 0.75, is_auto=True)
    (rated,), left = revise_by_answers(plain, [seen(drawing)], turn, agree=equal)
    assert (np.ptp(rated.rates) > 0, left) == (
        is_informative,
        turn if is_informative else Turn(2, 1.0, is_auto=True),
    )
    turn = Turn(2, 0.75)
    (rated,), left = revise_by_answers(plain, [seen(drawing)], turn, agree=equal)
    assert np.ptp(rated.rates) > 0
    assert left == turn


def test_the_rest_of_the_calls_goes_where_answers_differ():
    many = revised("a........a........a........b")
    (choice,) = allocate(Coverage(), many, Budget(count=6))
    new = [pick.window for pick in choice.picks if pick.window not in (0, 9, 18, 27)]
    assert all(18 < window < 27 for window in new)
    assert many.gap_reason(0, new[0]) == "between answers that differ"
    assert many.gap_reason(0, 4) == "between answers that agree"
    assert many.gap_reason(0, 9) == ""


def test_a_recording_of_nothing_loses_calls_to_one_where_answers_differ():
    many = revised("-....-....-....-", "a....b....c....d")
    first, second = allocate(Coverage(), many, Budget(count=12), across=True)
    assert (len(first.picks), len(second.picks)) == (4, 8)


def test_a_factor_lies_between_those_of_the_lengths_around_it(monkeypatch):
    monkeypatch.setattr(answer_evidence, "DISTANCES", (0.5, 2.0))
    monkeypatch.setitem(answer_evidence.FACTORS, "same", (0.1, 0.3))
    factors = factors_by_kind(np.array([0.25, 0.5, 1.0, 2.0, 9.0]))
    assert factors[:, 0] == pytest.approx([0.1, 0.1, 0.2, 0.3, 0.3])
    assert factors[:, 1] == pytest.approx(1.0)


def gaps_of(many: Windows, answers: list[ObservedActivity]) -> Gaps:
    (found,) = RevisedWindows([many], [answers], agree=equal).gaps
    return found


def test_a_gap_is_what_lies_between_two_answers():
    """Windows 3 to 5 of 4 s, between answers in 2 and 6; 6 touches some of what starts in them."""
    many = windows(9)
    gaps = gaps_of(many, seen("..a...a.."))
    assert (gaps.first.tolist(), gaps.stop.tolist(), gaps.kind.tolist()) == ([3], [6], [0])
    assert gaps.expected == pytest.approx(0.5 * sum(1 - many.reach[[1, 2, 3]]))
    assert 0.1 < gaps.factor < 0.4
    assert [len(gaps_of(many, seen(one)).first) for one in ("aa", "a.a", "a")] == [0, 1, 0]


def test_ends_that_touch_all_there_is_leave_nothing_to_expect():
    """Three steps of which the end touches two and a half that started before: not less than 0."""
    lasting = Survival.lognormal(median=4000.0, sigma=0.1)
    still = Windows(4.0, 12.0, np.zeros(3), np.zeros(3), np.array([9.0, 0.1, 0.1]), lasting)
    gaps = gaps_of(still, seen("a.b"))
    assert gaps.expected == pytest.approx([0.0])
    assert gaps.expected >= 0


def test_rates_far_below_one_are_told_apart_too():
    drawing = "a....a....a....b....-....-....-....-....c....c....c....d....e....e"
    faint = windows(len(drawing), rate=0.001, heard=True)
    many = RevisedWindows([faint], [seen(drawing)], agree=equal)
    assert many.is_informative
    assert faint not in many, "those it has are made anew"
    assert revised("a").normaliser == 1


def test_where_nothing_is_heard_answers_must_tell_more():
    drawing = "a....a....a....b....-....-....-....-....c....c....c....d....e....e"

    def is_informative(drawing: str, *, heard: bool) -> bool:
        many = [windows(len(drawing), heard=heard)]
        return RevisedWindows(many, [seen(drawing)], agree=equal).is_informative

    assert is_informative(drawing, heard=True)
    assert not is_informative(drawing, heard=False)
    assert is_informative("....".join([drawing] * 3), heard=False), (
        "of many answers little is chance"
    )


def test_of_few_answers_where_nothing_is_heard_the_factors_must_spread_by_more():
    drawing = "a....a....a....b....-....-....-....-....c....c....c....d....e....e"
    many = RevisedWindows([windows(len(drawing))], [seen(drawing)], agree=equal)
    many.evidence = 100.0  # that things go on from one answer to the next is beyond doubt
    assert not many.is_informative
    many.has_sound_evidence = True
    assert many.is_informative


def scales(*drawings: str) -> dict[str, float]:
    """What the factors of each kind are multiplied by in a run of these recordings."""
    return dict(zip(KINDS, fitted(*drawings)[0], strict=True))


def fitted(*drawings: str) -> tuple[FloatArray, FloatArray]:
    """The scales of the factors in a run of these recordings, and how far they hold in each."""
    said = [known(drawing) for drawing in drawings]
    statistics = infer_kinds(said)[2]
    held_out = [
        half
        for number, (drawing, one) in enumerate(zip(drawings, said, strict=True))
        for half in hold_out(number, windows(len(drawing)), one)
    ]
    return fit_factors(held_out, statistics)


def known(drawing: str) -> ActivitySequence:
    told = [(one.window, one.activity or "") for one in seen(drawing)]
    return ActivitySequence.build(windows(len(drawing)), *zip(*told, strict=True), equal)


def test_what_ends_tell_is_learnt_from_the_answers_between_them():
    """Work between short pauses: with the answer between two pauses left out, something is new."""
    pauses = "-....a....-....b....-....c....-....d....-....e....-....f....-....g....-"
    stays = "-....-....-....-....-....a....b....c....d....e....f....g....h....i....j"
    assert scales(*[pauses] * 8)["idle"] > 2
    assert scales(*[pauses] * 8)["idle"] > scales(pauses)["idle"] > 1, "the more, the surer"
    assert scales(*[stays] * 8)["idle"] < 1 < scales(*[stays] * 8)["differ"]


def test_few_answers_leave_the_factors_as_they_were_fitted():
    assert fit_factors([], infer_kinds([])[2])[0].tolist() == [1.0] * 4
    assert fitted("a....b")[0].tolist() == [1.0] * 4
    assert all(0.8 < scale < 1.25 for scale in scales("a....b....-").values())


GOES_ON = "....".join("aaaaaaaaabcdefffffffffghijkkkkkkkklmnopppppppp")
TAKES_TURNS = "....".join("abbabaabbabaababbabaabbaabbabaabb")
"""A letter every fifth window: work that goes on, and two kinds of it that take turns."""


def test_where_two_kinds_of_work_take_turns_ends_that_agree_tell_nothing():
    """Left-out answers are as often new between two of a kind as between others."""
    _, weights = fitted(*[GOES_ON, TAKES_TURNS] * 8)
    assert (weights[::2] > 0.8).all()
    assert (weights[1::2] < 0.2).all()
    many = revised(*[GOES_ON, TAKES_TURNS] * 8)
    steady, alternating = (gaps.factor for gaps in many.gaps[:2])
    assert steady.max() > 1.5 * steady.min()
    assert alternating.max() < 1.1 * alternating.min()
    assert fitted(TAKES_TURNS)[1] < 0.5 < fitted(GOES_ON)[1], "alone too"


def erring(drawing: str, seed: int) -> str:
    """The drawing by a model that misses a fifth, and calls three of ten what no other is."""
    chance = np.random.default_rng(seed).random((len(drawing), 2)).tolist()
    said = (
        "-" if missed < 0.2 else chr(0x4E00 + place) if named < 0.3 else letter
        for place, (letter, (missed, named)) in enumerate(zip(drawing, chance, strict=True))
    )
    return "".join(
        letter if letter in "-." else told for letter, told in zip(drawing, said, strict=True)
    )


def test_what_is_new_by_mistake_makes_no_kind_of_ends_like_the_others():
    """Much seems new between ends that agree: but then they did not, or it is called otherwise."""
    found = scales(*[erring(GOES_ON, seed) for seed in range(8)])
    assert scales(*[GOES_ON] * 8)["same"] < found["same"] < 1
    assert found["idle"] < 1.5


def test_what_holds_less_keeps_its_mean():
    many = revised(*[GOES_ON, TAKES_TURNS] * 8)
    after = sum((gaps.expected * gaps.factor).sum() for gaps in many.gaps) * many.normaliser
    assert after == pytest.approx(sum(gaps.expected.sum() for gaps in many.gaps))
    assert many.gaps[1].factor.mean() < 1, "as if the factors held, though they are all alike"


def test_something_new_may_bear_the_name_of_an_end():
    """Of seven answers four say a: between two of them three of seven new ones are told apart."""
    one, other = hold_out(0, windows(36), known("a....b....a....c....a....b....a....-"))
    assert one.distinct_name == pytest.approx([3 / 7, 3 / 7, 3 / 7])
    assert other.distinct_name == pytest.approx([4 / 7, 4 / 7, 5 / 7])
    only, _ = hold_out(0, windows(11), known("a....a....a"))
    assert only.distinct_name == pytest.approx([0.02])


def test_nothing_tells_one_end_of_a_silent_recording_from_the_other():
    """Beyond the outermost answers as much is expected at either end, wherever these lie."""
    drawing = f".....{GOES_ON}....."
    answers, plain = seen(drawing), windows(len(drawing))
    (found,) = RevisedWindows([plain], [answers], agree=equal)
    reach = plain.reach[1:6]
    lost = np.append(reach, np.zeros(5 - len(reach)))
    assert found.rates[-5:] == pytest.approx(found.rates[:5] * (1 - lost[::-1]))
    heard = windows(len(drawing), heard=True)
    (found,) = RevisedWindows([heard], [answers], agree=equal)
    assert found.rates[-5:] == pytest.approx(found.rates[:5])


def test_an_answer_is_tried_against_those_on_either_side_of_it():
    """Of five answers the second and fourth lie between the others; the fourth alone is new."""
    drawing = "a....a....a....b....c"
    one, other = hold_out(0, windows(len(drawing)), known(drawing))
    assert one.neighbours.positions.tolist() == [0, 10, 20]
    assert one.is_new.tolist() == [0.0, 1.0]
    assert one.distance == pytest.approx([10 / known(drawing).mean_steps] * 2)
    alone, among = (windows(21, owned=owned) for owned in ((0, 10), (0, 5, 10)))
    more = gains(among, np.array([0, 5, 10])).sum() - gains(alone, np.array([0, 10])).sum()
    assert one.expected[0] == pytest.approx(1 - np.exp(-more))
    assert other.is_new.tolist() == [0.0]


@pytest.mark.usefixtures("fitted_factors")
def test_factors_that_hardly_differ_are_not_planned_by():
    """However sure they are: calls that lie unevenly lose more than that can gain."""
    pauses = "....".join(["-....a....-....b....-....c....-....d....-....e....-....f"] * 9)
    assert not RevisedWindows([windows(len(pauses))], [seen(pauses)], agree=equal).is_informative


@pytest.mark.usefixtures("fitted_factors")
@pytest.mark.parametrize("is_auto", [False, True])
def test_where_a_call_has_a_price_it_counts_how_busy_a_recording_is(is_auto):
    drawing = "-....-....-....-"
    plain = windows(len(drawing))
    rated = {}
    for is_priced in (True, False):
        first = Turn(1, 0.5, is_auto)
        many, turn = revise_by_answers(
            [plain], [seen(drawing)], first, agree=equal, is_priced=is_priced
        )
        (rated[is_priced],) = many
        assert turn == first, "after the first round there is more to tell"
    assert rated[False].rates == pytest.approx(plain.rates, rel=0.05)
    busy = count_new_activities(plain, seen(drawing), equal).busyness
    assert busy < 0.8
    assert rated[True].rates == pytest.approx(busy * rated[False].rates)


@pytest.mark.usefixtures("fitted_factors")
def test_where_a_call_has_a_price_no_round_is_left_out():
    """Though the answers tell nothing of where things lie, each round tells how busy it is."""
    plain = windows(16)
    for is_priced, share in ((True, 0.75), (False, 1.0)):
        second, answers = Turn(2, 0.75, is_auto=True), seen("-....-....-....-")
        _, turn = revise_by_answers([plain], [answers], second, agree=equal, is_priced=is_priced)
        assert turn.share == share
