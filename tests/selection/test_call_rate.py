from __future__ import annotations

import random

import pytest

from earmark.selection.call_rate import DAY, HOUR, CallLog, CallRate, SpentCall


def spend(log: CallLog, moments: list[float]) -> list[float]:
    """The moments at which a call was allowed, each of them used."""
    made = []
    for now in moments:
        if log.wait(now) == 0:
            log.add(SpentCall(now))
            made.append(now)
    return made


def most_within(times: list[float], period: float) -> int:
    return max(sum(start <= time < start + period for time in times) for start in times)


@pytest.mark.parametrize("seed", range(5))
def test_no_hour_day_or_burst_exceeds_the_rate(seed: int) -> None:
    rng = random.Random(seed)
    rate = CallRate(per_hour=20, burst=6, per_day=150)
    moments = sorted(rng.uniform(0, 2 * DAY) for _ in range(4000))
    made = spend(CallLog(rate), moments)
    assert most_within(made, HOUR) <= 20
    assert most_within(made, DAY) <= 150
    assert most_within(made, 60.0) <= 6 + 1
    assert len(made) > 250  # two days of 150, but for what chance left out


def test_a_full_bucket_does_not_add_to_the_hour() -> None:
    log = CallLog(CallRate(per_hour=10))
    made = spend(log, [float(second) for second in range(0, 7200, 5)])
    assert most_within(made, HOUR) == 10


def test_calls_read_back_from_a_run_leave_the_same_tokens() -> None:
    rate = CallRate(per_hour=30, burst=10, per_day=200)
    log = CallLog(rate)
    made = spend(log, [index * 37.0 for index in range(300)])
    again = CallLog(rate, [SpentCall(time) for time in made])
    for now in (11_100.0, 12_000.0, 20_000.0):
        assert again.wait(now) == log.wait(now)
        assert again.tokens(now) == pytest.approx(log.tokens(now))


def test_waiting_as_long_as_said_is_enough_and_not_too_long() -> None:
    log = CallLog(CallRate(per_hour=4, burst=2))
    spend(log, [0.0, 1.0, 2.0])
    wait = log.wait(2.0)
    assert wait == pytest.approx(900 - 2)
    assert log.wait(2.0 + wait) == 0
    assert log.wait(2.0 + wait - 0.1) > 0


def test_money_and_tokens_of_a_day_are_caps() -> None:
    log = CallLog(CallRate(per_hour=100, cost_per_day=1.0, tokens_per_day=10_000))
    for index in range(3):
        log.add(SpentCall(float(index), cost=0.3, tokens=1000))
    assert log.wait(10.0) == pytest.approx(DAY - 10.0)  # a fourth of 0.3 would make 1.2
    assert log.wait(DAY) == 0
    assert log.tokens(10.0) == 0


@pytest.mark.parametrize("bad", [{"per_hour": 0}, {"per_hour": 5, "burst": 0}])
def test_a_rate_of_nothing_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="not 0"):
        CallRate(**bad)
