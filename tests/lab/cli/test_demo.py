"""`earmark lab demo`: the first command that anybody runs."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from typer.testing import CliRunner, Result

from annotation_server import MODEL, annotation_server
from earmark import Span
from earmark.cli.app import app
from quiet_shift import require_yamnet


def test_the_command_that_adds_captions_is_one_that_takes_a_model(tmp_path, monkeypatch):
    monkeypatch.setenv("EARMARK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "a demo"
    words = ["lab", "demo", "--minutes", "0.5", "--budget", "1", "--folder", str(folder)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (told,) = re.findall(r"for captions, run `earmark (.*)` with --model gguf:", done.stdout)
    again = CliRunner().invoke(app, [*shlex.split(told), "--dry-run"])
    assert (again.exit_code, "1 call to make" in again.stdout) == (0, True), again.output


@pytest.mark.slow
@pytest.mark.usefixtures("named_by_yamnet")
def test_the_hammering_is_found_by_name_wherever_one_asks(tmp_path):
    require_yamnet()
    said = run("lab", "demo", "--folder", tmp_path).stdout
    (told,) = re.findall(r"hammering named at (.*); audible in the scene at (.*)", said)
    found, made = ([as_seconds(each) for each in times.split(", ")] for times in told)
    assert found == pytest.approx(made, abs=2.0) and found
    video, folder = tmp_path / "scene-0-3min.mp4", tmp_path / "scene-0-3min"
    moments = json.loads(run("search", folder, "hammering", "--format", "json").stdout)
    spans = [span for each in moments for span in each["spans"] or [(each["start"], each["end"])]]
    assert sorted(start for start, _ in spans) == pytest.approx(found, abs=0.1)
    (listed,) = json.loads(
        run("search", "--sounds", video, "hammering", "--format", "json").stdout
    )["recordings"]
    assert [each["start"] for each in listed["sounds"]] == pytest.approx(found, abs=0.1)
    assert f"Hammer {len(found)}×, " in run("show", folder).stdout
    assert '"name":"Hammer"' in (folder / "report.html").read_text(encoding="utf-8")
    with annotation_server([Span(start, start + 3) for start in made]) as server:
        asking = ["--model", f"{server.url}#{MODEL}", "--run", tmp_path / "found"]
        said = run("find", "someone hammers", video, "--calls", 6, *asking, "--format", "json")
    (one,) = json.loads(said.stdout)["recordings"]
    assert len(one["spans"]) == len(found)


def run(*words: object) -> Result:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done


def as_seconds(clock: str) -> float:
    minutes, seconds = clock.split(":")
    return 60 * int(minutes) + float(seconds)
