from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from earmark.features.encoder import SAMPLE_RATE
from earmark.gate.frontline import energy_frontline
from earmark.gate.gate import default_frontline
from earmark.gate.survival import Survival
from earmark.grid import Grid
from earmark.media import Sound
from earmark.selection.call_rate import HOUR, CallRate, SpentCall
from earmark.selection.demand import Demand, price_of
from earmark.selection.live_coverage import LiveCoverage
from earmark.selection.live_windows import LiveListener, LiveWindows
from earmark.timeline import Track

LENGTHS = Survival.lognormal(median=2.0, sigma=1.0)


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    """Quiet noise with knocks, more of them later."""
    rng = np.random.default_rng(seed)
    samples = rng.normal(0, 0.003, round(seconds * SAMPLE_RATE)).astype(np.float32)
    for time in np.sort(rng.uniform(0, 1, round(seconds / 6))) ** 0.5 * (seconds - 1):
        first = round(time * SAMPLE_RATE)
        samples[first : first + 3000] += rng.normal(0, 0.2, 3000).astype(np.float32)
    return samples


def pieces(samples: np.ndarray, seconds: float = 1.0) -> Iterator[Sound]:
    step = round(seconds * SAMPLE_RATE)
    for first in range(0, len(samples), step):
        yield Sound(samples[first : first + step], first / SAMPLE_RATE, SAMPLE_RATE)


def due(windows: list[LiveWindows], name: str) -> np.ndarray:
    return np.concatenate([getattr(each, name)[: each.due] for each in windows])


def whole_scores(samples: np.ndarray) -> np.ndarray:
    line = default_frontline()
    tracks = line.scorer(line.encoder.encode(pieces(samples, 10.0)))  # type: ignore[attr-defined]
    scores = np.concatenate([track.values for track in tracks])
    return Grid().pool(Track(scores), len(samples) / SAMPLE_RATE)[0].peak


def test_with_the_context_as_latency_scores_are_those_of_the_whole_recording() -> None:
    samples = noise(200.0)
    listener = LiveListener(default_frontline(), latency=60.0)
    assert listener.context <= 60.0
    live = list(listener.listen(pieces(samples), start=0.0))
    assert len(live) > 30  # not all at the end
    np.testing.assert_allclose(due(live, "scores"), whole_scores(samples), atol=2e-5)


def test_with_less_latency_scores_differ_and_every_window_is_due_once() -> None:
    samples = noise(200.0)
    live = list(LiveListener(default_frontline(), latency=4.0).listen(pieces(samples), start=0.0))
    assert np.abs(due(live, "scores") - whole_scores(samples)).max() > 1e-3
    assert len(due(live, "rates")) == 50
    firsts = [each.first for each in live]
    assert firsts == list(np.cumsum([0, *(each.due for each in live[:-1])]))
    assert max(len(each) - each.due for each in live[:-1]) <= 1


@pytest.mark.parametrize("seconds", [0.25, 3.7])
def test_rates_do_not_depend_on_how_sound_arrives(seconds: float) -> None:
    samples = noise(90.0)
    for line in (default_frontline(), energy_frontline()):
        expected = list(LiveListener(line, latency=20.0).listen(pieces(samples), start=0.0))
        arrived = LiveListener(line, latency=20.0).listen(pieces(samples, seconds), start=0.0)
        scores = due(list(arrived), "scores")
        assert len(scores) == len(due(expected, "scores"))
        assert np.corrcoef(scores, due(expected, "scores"))[0, 1] > 0.9


def test_windows_lie_on_the_wall_clock_and_the_past_survives_a_gap() -> None:
    listener = LiveListener(energy_frontline(), latency=8.0)
    start = 1_700_000_001.0
    before = list(listener.listen(pieces(noise(60.0)), start=start))
    after = list(listener.listen(pieces(noise(30.0, seed=1)), start=start + 300.0))
    assert before[0].first == 425_000_000
    assert after[0].first == (start + 300.0) // 4
    for each in (*before, *after):
        starts = (each.first + np.arange(len(each))) * 4.0
        assert ((each.instants >= starts - 1e-6) & (each.instants <= starts + 4.0 + 1e-6)).all()
    assert len(listener._past) == len(due(before, "rates")) + len(due(after, "rates"))


def stream(rates: np.ndarray, ahead: int = 7, first: int = 0) -> Iterator[LiveWindows]:
    """One window due at a time, `ahead` further ones known."""
    for place in range(len(rates)):
        seen = rates[place : place + 1 + ahead]
        instants = (first + place + np.arange(len(seen)) + 0.5) * 4.0
        yield LiveWindows(first + place, 4.0, seen, instants, seen, 1, LENGTHS)


def watch(coverage: LiveCoverage, rates: np.ndarray, first: int = 0) -> list[float]:
    """Times of the picks."""
    starts = []
    for windows in stream(rates, first=first):
        now = windows.first * 4.0 + 34.0
        starts += [pick.start for pick in coverage.hear("camera", windows, now=now)]
    return starts


def test_even_rates_are_spread_over_the_hours() -> None:
    picks = watch(LiveCoverage(CallRate(per_hour=60)), np.full(3600, 0.3))
    counts = np.histogram(picks, bins=8, range=(0, 4 * HOUR))[0]
    assert counts.sum() >= 0.9 * 240
    assert counts[1:].min() >= 20


def test_calls_go_to_the_bouts_and_the_rate_holds() -> None:
    rng = np.random.default_rng(3)
    rates = rng.gamma(0.3, 0.02, 7200)
    bouts = np.zeros(7200, bool)
    for first in range(200, 7200, 600):
        bouts[first : first + 60] = True
    rates[bouts] = rng.gamma(2.0, 0.5, int(bouts.sum()))
    picks = np.array(watch(LiveCoverage(CallRate(per_hour=40)), rates))
    assert bouts[(picks[len(picks) // 4 :] / 4).astype(int)].mean() > 0.8
    assert max(np.sum((picks >= start) & (picks < start + HOUR)) for start in picks) <= 40


def test_after_a_restart_the_rate_is_still_held() -> None:
    rate, rates = CallRate(per_hour=30), np.random.default_rng(4).gamma(1.0, 0.3, 1800)
    coverage = LiveCoverage(rate)
    before = watch(coverage, rates[:800])
    kept = json.loads(json.dumps(coverage.to_json()))
    again = LiveCoverage(rate, [SpentCall(start + 34.0) for start in before])
    again.restore(kept)
    after = watch(again, rates[800:], first=800)
    picks = np.array(before + after)
    assert max(np.sum((picks >= start) & (picks < start + HOUR)) for start in picks) <= 30
    whole = watch(LiveCoverage(rate), rates)
    assert abs(len(picks) - len(whole)) <= 3


def test_the_price_follows_the_time_of_day_once_days_are_known() -> None:
    """Busy from 8 to 9 every day: before that hour calls are dearer than before a quiet one."""
    demand, reach = Demand(16.0), LENGTHS.reach(16.0)
    rng = np.random.default_rng(6)
    prices = []
    for window in range(3 * 5400):
        time = window * 16.0
        is_busy = 8 <= time % 86_400 / HOUR < 9
        if time % 86_400 in (7.8 * HOUR, 3.8 * HOUR):
            prices.append(price_of(demand.calls(time), 30 / HOUR))
        demand.add(time, float(rng.gamma(2.0, 0.4) if is_busy else rng.gamma(0.5, 0.02)), reach)
    quiet, busy = prices[0::2], prices[1::2]
    assert busy[0] == pytest.approx(quiet[0], rel=0.5)  # the first day is like any hour
    assert min(busy[1:]) > 2 * max(quiet[1:])
    again = Demand(16.0)
    again.restore(json.loads(json.dumps(demand.to_json())))
    assert again.calls(7.8 * HOUR) == pytest.approx(demand.calls(7.8 * HOUR))


def test_two_sources_share_one_rate() -> None:
    coverage = LiveCoverage(CallRate(per_hour=40))
    rng = np.random.default_rng(5)
    busy, quiet = rng.gamma(2.0, 0.4, 2700), rng.gamma(0.5, 0.05, 2700)
    picks: dict[str, list[float]] = {"busy": [], "quiet": []}
    for both in zip(stream(busy), stream(quiet), strict=True):
        for name, windows in zip(picks, both, strict=True):
            now = windows.first * 4.0 + 34.0
            picks[name] += [pick.start for pick in coverage.hear(name, windows, now=now)]
    assert len(picks["busy"]) > 5 * len(picks["quiet"])
    times = np.sort(picks["busy"] + picks["quiet"])
    assert len(times) > 90
    assert max(np.sum((times >= start) & (times < start + HOUR)) for start in times) <= 40
