"""The public names of the package, as a program uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import earmark
from acceptance.command_line import earmark as command
from acceptance.model_server import model_server
from acceptance.run_rows import captions


def test_every_public_name_is_there_and_listed():
    assert list(earmark.__all__) == sorted(earmark.__all__)
    assert set(dir(earmark)) >= set(earmark.__all__)
    assert all(getattr(earmark, name) is not None for name in earmark.__all__)
    with pytest.raises(AttributeError):
        earmark.no_such_name  # noqa: B018


def test_importing_the_package_loads_no_heavy_library():
    heavy = {"av", "numpy", "onnxruntime", "typer", "rich", "httpx", "torch", "ray"}
    script = "import earmark, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not heavy & set(done.stdout.split())


def test_select_gives_the_picks_of_the_command(clip):
    selection = earmark.select([clip], budget="30%")
    (recording,) = selection.recordings
    (printed,) = command("select", clip, "--budget", "30%", "--format", "json").json["recordings"]
    assert [(pick.window, pick.start, pick.end, pick.reason) for pick in recording.picks] == [
        (pick["window"], pick["start"], pick["end"], pick["reason"]) for pick in printed["picks"]
    ]
    assert isinstance(recording.picks[0], earmark.Pick)
    assert (selection.calls, selection.windows, len(selection.failures)) == (3, 10, 0)


def test_a_single_path_and_a_budget_as_a_number(clip):
    assert earmark.select(str(clip), budget=4).calls == 4
    assert earmark.select(clip, budget=earmark.Budget(share=0.5)).calls == 5


def test_select_lists_what_failed_and_raises_nothing(clip, tmp_path):
    selection = earmark.select([clip, tmp_path / "gone.mp4"], workers=1)
    assert len(selection.recordings) == 1
    (failure,) = selection.failures
    assert failure.path == str(tmp_path / "gone.mp4")
    assert "gone.mp4" in failure.error


def test_a_wrong_choice_is_a_value_error_that_names_it(clip):
    with pytest.raises(ValueError, match="magic"):
        earmark.select(clip, rule="magic")
    with pytest.raises((ValueError, TypeError), match="bugdet"):
        earmark.select(clip, bugdet="25%")
    with pytest.raises(ValueError, match="lots"):
        earmark.select(clip, budget="lots")
    with pytest.raises(earmark.InvalidSetting, match="max_calls") as caught:
        earmark.Settings.read({"max_calls": "many"})
    assert caught.value.name == "max_calls"


def test_a_plan_is_a_forecast_of_budgets(clip):
    rungs = earmark.plan(clip, budget="20%").rungs
    assert [rung.calls for rung in rungs] == sorted({rung.calls for rung in rungs})
    assert rungs[-1].coverage == pytest.approx(1.0)


def test_a_plan_for_a_coverage_has_a_goal(clip):
    goal = earmark.plan(clip, coverage=0.8).goal
    assert goal.coverage >= 0.8
    assert goal.calls < 10


def test_settings_survive_json(clip):
    values = {"budget": "price=0.5", "rule": "rank", "window": 8.0, "max_calls": 3}
    settings = earmark.Settings.read(values)
    copy = earmark.Settings.model_validate(json.loads(json.dumps(settings.model_dump(mode="json"))))
    assert copy == settings
    windows = [
        [pick.window for pick in earmark.select(clip, settings=each).recordings[0].picks]
        for each in (settings, copy)
    ]
    assert windows[0] == windows[1]


def test_a_choice_wins_over_the_settings(clip):
    settings = earmark.Settings.read({"budget": 2, "rule": "uniform"})
    assert earmark.select(clip, settings=settings).calls == 2
    (recording,) = earmark.select(clip, settings=settings, budget=5).recordings
    assert (len(recording.picks), recording.rule) == (5, "uniform")
    assert settings.budget == "2"


def test_caption_asks_once_and_resumes(clip, tmp_path, server):
    choices = {"run": tmp_path / "run", "budget": 2, "model": server.model}
    result = earmark.caption(clip, **choices)
    assert isinstance(result, earmark.CaptionResult)
    assert (result.totals.picks, result.totals.answered, result.missed) == (2, 2, 0)
    assert result.folder == tmp_path / "run"
    assert Path(result.page).exists()
    assert earmark.caption(clip, **choices).totals.answered == server.count == 2
    assert sorted(captions(tmp_path / "run")) == [2, 7]


def test_caption_takes_a_key(clip, tmp_path):
    with model_server(key="sk-right") as server:
        choices = {"run": tmp_path / "run", "budget": 1, "model": server.model}
        with pytest.raises(earmark.EarmarkError):
            earmark.caption(clip, **choices)
        assert earmark.caption(clip, api_key="sk-right", **choices).totals.answered == 1
    contents = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"sk-right" in content for content in contents)


def test_a_preview_asks_nothing_and_counts_what_is_kept(clip, tmp_path, server):
    choices = {"run": tmp_path / "run", "model": server.model}
    before = earmark.preview(clip, budget=3, **choices)
    assert isinstance(before, earmark.Preview)
    assert (before.calls, before.kept, before.windows) == (3, 0, 10)
    assert before.tokens > 0
    earmark.caption(clip, budget=3, **choices)
    after = earmark.preview(clip, budget=3, **choices)
    assert (after.calls, after.kept) == (0, 3)
    assert server.count == 3


def test_a_recording_is_described_and_read(clip):
    recording = earmark.open_recording(clip)
    assert isinstance(recording, earmark.Recording)
    assert recording.duration == pytest.approx(40.0)
    assert recording.has_audio
    frames = list(recording.frames([1.0, 9.0]))
    assert len(frames) == 2


@pytest.mark.parametrize("content", [None, b"", b"hello"])
def test_a_recording_that_cannot_be_read_raises_an_earmark_error(tmp_path, content):
    path = tmp_path / "bad.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(earmark.EarmarkError, match=r"bad\.mp4"):
        earmark.open_recording(path)


def test_a_server_that_is_down_raises_an_earmark_error(clip, tmp_path):
    with pytest.raises(earmark.EarmarkError, match=r"127\.0\.0\.1:9"):
        earmark.caption(clip, run=tmp_path / "run", model="http://127.0.0.1:9/v1#tiny")


def test_results_print_themselves(clip):
    selection = earmark.select(clip)
    assert "calls=2" in repr(selection)
    assert "<table" in selection._repr_html_()


def test_picks_as_a_data_frame(clip):
    pytest.importorskip("pandas")
    assert list(earmark.select(clip).to_pandas()["window"]) == [2, 7]
