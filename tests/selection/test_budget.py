"""Budgets as people write them."""

from __future__ import annotations

import pytest

from earmark import Budget
from earmark.selection.budget import AUTO_PRICE


@pytest.mark.parametrize(
    ("text", "windows", "calls"),
    [("25%", 900, 225), ("33.5%", 100, 34), ("100%", 7, 7), ("120", 900, 120), ("120", 50, 50)],
)
def test_shares_and_numbers(text: str, windows: int, calls: int) -> None:
    assert Budget.parse(text).calls(windows) == calls


def test_a_number_means_what_it_means_when_it_is_written() -> None:
    assert Budget.parse(20) == Budget.parse("20")
    assert Budget.parse(0.25) == Budget.parse("0.25")
    assert Budget.parse(0.00005) == Budget(share=0.00005)
    with pytest.raises(ValueError, match="is not a budget"):
        Budget.parse(1.0)


def test_halves_go_to_the_even_number_as_in_the_paper() -> None:
    assert [Budget.parse("25%").calls(windows) for windows in (2, 6, 10, 14)] == [0, 2, 2, 4]


def test_a_share_is_also_a_number_below_one() -> None:
    assert Budget.parse("0.25") == Budget.parse(".25") == Budget.parse("25%")
    assert Budget.parse("1") == Budget(count=1)


def test_a_small_share_of_a_short_recording_is_no_call() -> None:
    assert Budget.parse("5%").calls(8) == 0


def test_a_price_is_not_a_number_of_calls() -> None:
    budget = Budget.parse("price=0.4")
    assert budget.price == 0.4
    with pytest.raises(ValueError, match="price has no number of calls"):
        budget.calls(900)


@pytest.mark.parametrize(
    "text",
    ["0", "0%", "-3", "-5%", "101%", "nan%", "inf%", "lots", "", "%", "1.0", "1.5",
     "0.0", "-0.5", ".", "price=0", "price=-1", "price=nan", "price=inf", "price="],
)  # fmt: skip
def test_what_is_not_a_budget_says_what_is(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"25% or 0.25 for a share.*120 for calls.*price=0.4"
    ) as caught:
        Budget.parse(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["25%", "12.5%", "120", "price=0.4"])
def test_a_budget_writes_itself(text: str) -> None:
    assert str(Budget.parse(text)) == text
    assert Budget.parse(f" {text} ") == Budget.parse(text)


def test_a_budget_is_one_thing() -> None:
    with pytest.raises(ValueError, match="one of"):
        Budget()
    with pytest.raises(ValueError, match="one of"):
        Budget(share=0.5, count=3)


def test_auto_is_a_stated_price():
    assert Budget.parse("auto") == Budget.parse(" AUTO ") == Budget(price=AUTO_PRICE)
