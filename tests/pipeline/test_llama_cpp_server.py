"""`find`, `ask` and rounds asked of llama.cpp itself: its protocol and grammars, random weights.

One model says "zebra" wherever a schema has a string, and so keeps to it; the other writes at
random, and is cut off in the middle of a string.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from earmark.cli.app import app
from earmark.errors import UnreadableAnswer
from earmark.run.run import Run
from quiet_shift import film_shift
from tiny_vlm import write_gguf
from vlm_server import MODEL, Exchange, relay, vlm_server

pytestmark = pytest.mark.slow
QUESTION = "someone uses a drill"

Asked = tuple[str, list[Exchange]]


@pytest.fixture(scope="module")
def video(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("video") / "shift.mp4"
    film_shift(path, minutes=1.0, drillings=1)
    return path


def serve(folder: Path, says: str) -> Iterator[Asked]:
    for library in ("xllamacpp", "gguf"):
        pytest.importorskip(library)
    with vlm_server(folder, says=says) as url, relay(url) as passed:
        yield passed


@pytest.fixture
def zebra(tmp_path) -> Iterator[Asked]:
    (tmp_path / "zebra").mkdir()
    yield from serve(tmp_path / "zebra", "zebra")


@pytest.fixture
def rambling(tmp_path) -> Iterator[Asked]:
    (tmp_path / "rambling").mkdir()
    yield from serve(tmp_path / "rambling", "")


def earmark(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def about_windows(chats: list[Exchange]) -> list[Exchange]:
    """Those that show a window; all of them, and what is asked in words, were accepted."""
    assert {chat.status for chat in chats} <= {200}
    return asked_once(chats)


def asked_once(chats: list[Exchange]) -> list[Exchange]:
    windows = [chat for chat in chats if chat.shows_pictures]
    assert set(Counter(chat.identity for chat in windows).values()) <= {1}, "nothing is asked twice"
    return windows


def test_what_is_found_is_asked_once_and_held_to_the_schema(zebra, video, tmp_path):
    url, chats = zebra
    command = ["find", QUESTION, video, "--calls", 4, "--model", f"{url}#{MODEL}"]
    command += ["--run", tmp_path / "run", "--clips", tmp_path / "clips", "--format", "json"]
    said = earmark(*command)
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert (found["calls"], found["failed"], found["failures"]) == (4, 0, [])
    windows = about_windows(chats)
    assert len(windows) == 4
    for chat in windows:
        answer = json.loads(chat.reply["choices"][0]["message"]["content"])
        assert answer == {"seen": True} | dict.fromkeys(set(answer) - {"seen"}, "zebra")
    (one,) = found["recordings"]
    assert len(one["clips"]) == len(one["spans"]) == len(one["what"]) > 0
    again = json.loads(earmark(*command).stdout)
    assert again["recordings"][0]["spans"] == one["spans"]
    assert again["missed"] == found["missed"], "the same answers say the same"
    assert len(about_windows(chats)) == 4
    command[command.index(4)] = 6
    assert json.loads(earmark(*command).stdout)["calls"] == 6
    assert len(about_windows(chats)) == 6, "more calls add to those that were made"


def test_an_answer_that_cannot_be_read_is_a_row_and_not_asked_again(rambling, video, tmp_path):
    url, chats = rambling
    (tmp_path / "schema.json").write_text(
        json.dumps({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    )
    command = ["caption", video, "--budget", 3, "--model", f"{url}#{MODEL}"]
    command += ["--answer-tokens", 24, "--schema", tmp_path / "schema.json"]
    said = earmark(*command, "--run", tmp_path / "run", "--format", "json")
    assert said.exit_code == 1
    assert len(asked_once(chats)) == 3
    with Run(tmp_path / "run") as run:
        rows = list(run.picks(run.recordings()[0].id))
    assert [row.status for row in rows] == ["failed"] * 3
    assert all("cut off" in (row.failure or "") for row in rows)


@pytest.mark.parametrize("calls", [0, 2])
def test_a_sentence_that_quotes_what_is_not_there_is_left_out(zebra, video, tmp_path, calls):
    url, chats = zebra
    caption = ["caption", video, "--budget", 2, "--model", f"{url}#{MODEL}"]
    assert earmark(*caption, "--run", tmp_path / "run").exit_code == 0
    assert len(about_windows(chats)) == 2
    said = earmark("ask", tmp_path / "run", "Who drilled?", "--model", url, "--calls", calls)
    assert said.exit_code == 0, said.output
    assert len(about_windows(chats)) == 2 + calls
    *_, last = chats
    assert "image_url" not in json.dumps(last.asked)
    answer = json.loads(last.reply["choices"][0]["message"]["content"])
    assert [sentence["text"] for sentence in answer["sentences"]] == ["zebra"]
    lines = said.stdout.splitlines()
    assert lines[0] == "No sentence of the answer quotes the run; these entries match best:"
    assert "Not known: zebra" in lines
    assert any(line.startswith("1 sentence left out") for line in lines)
    assert any("No model has looked at" in line for line in lines)


def test_an_answer_that_was_cut_off_is_said_to_be(rambling, video, tmp_path):
    url, _ = rambling
    earmark("caption", video, "--budget", 2, "--run", tmp_path / "run")
    said = earmark("ask", tmp_path / "run", "Who drilled?", "--model", f"{url}#{MODEL}")
    assert isinstance(said.exception, UnreadableAnswer)
    assert "cut off" in str(said.exception)


def test_rounds_are_asked_by_the_schema_and_resumed_for_nothing(zebra, video, tmp_path):
    url, chats = zebra
    command = ["caption", video, "--budget", 4, "--rounds", 2, "--model", f"{url}#{MODEL}"]
    command += ["--run", tmp_path / "run", "--format", "json"]
    assert earmark(*command).exit_code == 0
    windows = about_windows(chats)
    assert len(windows) == 4
    with Run(tmp_path / "run") as run:
        rows = list(run.picks(run.recordings()[0].id))
    assert [row.caption for row in rows] == ["zebra"] * 4
    assert {row.round for row in rows} == {1, 2}
    assert earmark(*command).exit_code == 0
    assert len(about_windows(chats)) == 4


def test_a_file_run_in_place_is_asked_the_same(video, tmp_path):
    pytest.importorskip("xllamacpp")
    model, encoder = write_gguf(tmp_path, says="zebra")
    command = ["find", QUESTION, video, "--calls", 2, "--model", f"gguf:{model}#{encoder}"]
    said = earmark(*command, "--run", tmp_path / "run", "--format", "json")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert (found["calls"], found["failures"]) == (2, [])
    with Run(tmp_path / "run") as run:
        answers = [row.answer for row in run.picks(run.recordings()[0].id)]
    assert all(kept is not None and kept.data["seen"] for kept in answers)
