"""The ceiling against greedy set cover written out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drawing import picked, windows
from earmark import Span
from earmark_lab.experiments.benchmark import Oracle


def slow_cover(actions: list[Span], count: int, calls: int) -> list[int]:
    """Greedy set cover with every count worked out anew, ties to the earlier window."""
    cells = [Span(4.0 * place, 4.0 * place + 4.0) for place in range(count)]
    left, chosen = list(actions), []
    for _ in range(calls):
        fresh = [sum(cell.overlaps(action) for action in left) for cell in cells]
        if not fresh or max(fresh) == 0:
            break
        best = fresh.index(max(fresh))
        chosen.append(best)
        left = [action for action in left if not cells[best].overlaps(action)]
    return sorted(chosen)


def spans() -> st.SearchStrategy[list[Span]]:
    starts, lengths = st.integers(0, 60), st.sampled_from([0, 1, 3, 5, 17])
    return st.lists(st.builds(lambda s, d: Span(float(s), float(s + d)), starts, lengths))


@given(spans(), st.integers(0, 8))
def test_it_is_greedy_set_cover(actions: list[Span], calls: int) -> None:
    found = Oracle(tuple(actions))(windows("." * 15), budget=calls)
    assert [pick.window for pick in found] == slow_cover(actions, 15, calls)


def test_it_stops_once_every_action_is_touched() -> None:
    #         |-----------|   |-|
    actions = (Span(1.0, 13.0), Span(17.0, 19.0))
    assert picked(Oracle(actions), "......", budget=6) == "^...^."


def test_touching_ends_do_not_count() -> None:
    assert picked(Oracle((Span(4.0, 8.0),)), "....", budget=3) == ".^.."


def test_the_reason_counts_the_actions() -> None:
    (pick,) = Oracle((Span(1.0, 2.0), Span(2.0, 3.0)))(windows("..."), budget=2)
    assert pick.reason == "2 new actions"
