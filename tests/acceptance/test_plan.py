"""`earmark plan`: what budgets are expected to reach and to cost."""

from __future__ import annotations

import pytest

from acceptance.command_line import earmark


def forecast(*words: object) -> dict:
    outcome = earmark("plan", *words, "--format", "json")
    assert outcome.code == 0, outcome.err
    return outcome.json


def test_more_calls_reach_more_and_all_calls_reach_everything(clip):
    rungs = forecast(clip)["rungs"]
    calls, coverage = ([rung[name] for rung in rungs] for name in ("calls", "coverage"))
    assert calls == sorted(set(calls))
    assert coverage == sorted(coverage)
    assert (calls[-1], coverage[-1]) == (10, 1.0)
    assert all(rung["range"]["low"] <= rung["coverage"] <= rung["range"]["high"] for rung in rungs)


def test_cost_is_the_price_of_a_call_times_the_calls(clip):
    prices = ("--input-price", "500", "--output-price", "100", "--currency", "EUR")
    result = forecast(clip, "--gpu-seconds", "36", *prices)
    rungs, one = result["rungs"], result["cost"]["money"]
    assert [rung["money"] for rung in rungs] == pytest.approx([r["calls"] * one for r in rungs])
    preview = earmark("caption", clip, "-b", "100%", "--dry-run", *prices, "--format", "json").json
    assert rungs[-1]["money"] == pytest.approx(preview["money"]), "as much as caption says"
    table = earmark("plan", clip, *prices).out
    assert "in EUR" in table and "currency of your prices" not in table
    assert [rung["gpu_hours"] for rung in rungs] == pytest.approx([r["calls"] / 100 for r in rungs])


def test_the_fewest_calls_for_a_coverage(clip):
    result = forecast(clip, "--coverage", "80%")
    goal = result["goal"]
    assert goal["coverage"] >= 0.8
    fewer = [rung["coverage"] for rung in result["rungs"] if rung["calls"] < goal["calls"]]
    assert fewer
    assert all(coverage < 0.8 for coverage in fewer)


def test_the_forecast_of_a_budget_is_that_of_its_selection(clip):
    (rung,) = (rung for rung in forecast(clip)["rungs"] if rung["calls"] == 2)
    (recording,) = earmark("select", clip, "--budget", "2", "--format", "json").json["recordings"]
    assert recording["forecast"] == pytest.approx(rung["coverage"])


def test_an_archive_is_planned_as_a_whole_and_bad_files_are_listed(archive, tmp_path):
    (tmp_path / "empty.mp4").write_bytes(b"")
    outcome = earmark("plan", archive, tmp_path / "empty.mp4", "--workers", "1", "--format", "json")
    assert outcome.code == 1
    result = outcome.json
    assert (result["recordings"], result["windows"], result["duration"]) == (3, 18, 72.0)
    assert [failure["path"] for failure in result["failures"]] == [str(tmp_path / "empty.mp4")]


@pytest.mark.parametrize("across", [(), ("--across",)])
def test_a_plan_is_what_caption_does(archive, across):
    """The same calls, and the same expected coverage, for each budget of the table."""
    for rung in forecast(archive, *across)["rungs"]:
        budget = f"{100 * rung['share']:.6f}%"
        chosen = earmark("select", archive, *across, "-b", budget, "--format", "json").json
        calls = [len(one["picks"]) for one in chosen["recordings"]]
        assert sum(calls) == pytest.approx(rung["calls"], abs=0 if across else len(calls))


def test_a_plan_says_what_the_model_will_see(clip):
    result = forecast(clip, "-b", "40%")
    outlook = result["outlook"]
    (rung,) = (rung for rung in forecast(clip, "-b", "40%")["rungs"] if rung["calls"] == 5)
    assert (outlook["budget"], outlook["calls"]) == ("40%", 4)
    assert 0 < outlook["framed"]["1"] < outlook["framed"]["2"] < outlook["framed"]["3"]
    assert outlook["framed"]["3"] < outlook["touched"] <= rung["coverage"] + 0.2
    assert "a picture is taken during" in earmark("plan", clip, "-b", "40%").out


def test_the_table_has_a_row_per_budget(clip):
    outcome = earmark("plan", clip)
    assert outcome.code == 0
    for rung in forecast(clip)["rungs"]:
        assert f"{rung['coverage'] * 100:.1f}" in outcome.out
