"""A file that is still being written: `caption` takes what is there, and continues later."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from acceptance.command_line import earmark
from making import AudioPlan, make_video

FORMATS = {"a.mkv": {}, "a.ts": {}, "a.mp4": {"layout": "fragmented"}}


@pytest.fixture(scope="module")
def wholes(tmp_path_factory) -> dict[str, bytes]:
    """Sixty seconds in every container that can be read while it grows."""
    folder = tmp_path_factory.mktemp("wholes")
    sound = AudioPlan([7.0 + 11 * number for number in range(5)], noise=0.01)
    return {
        name: make_video(folder / name, duration=60.0, fps=5, audio=sound, **plan).read_bytes()
        for name, plan in FORMATS.items()
    }


def ask(server, path: Path, run: Path, *words: str):
    return earmark("caption", path, "--run", run, "--model", server.model, "-b", "40%", *words)


def spans(run: Path) -> dict[tuple[float, float], str]:
    rows = earmark("export", run, "--to", "jsonl").lines
    return {(row["start"], row["end"]): row["caption"] for row in rows}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_has_grown_is_extended_and_nothing_is_asked_again(
    wholes, server, tmp_path, name
):
    path, run, data = tmp_path / name, tmp_path / "run", wholes[name]
    asked, before = 0, {}
    for share in (0.4, 0.7, 1.0):
        path.write_bytes(data[: int(len(data) * share)])
        outcome = ask(server, path, run)
        assert outcome.code == 0, outcome.err
        now = spans(run)
        assert before.items() <= now.items(), "the first answers stay"
        assert len(server.requests) == len(now), "every request is shown, and none was made twice"
        assert len(server.requests) > asked
        asked, before = len(server.requests), now
    assert ask(server, path, run).code == 0 and len(server.requests) == asked
    assert len(earmark("show", run, "--format", "json").json["recordings"]) == 1
    clips = tmp_path / "day.mp4"
    assert earmark("export", run, "--to", "highlights", "--out", clips).code == 0


def test_a_chapter_that_comes_later_continues_the_recording(wholes, server, tmp_path):
    run, card = tmp_path / "run", tmp_path / "card"
    card.mkdir()
    (card / "GX010042.MP4").write_bytes(wholes["a.mp4"])
    assert ask(server, card, run).code == 0
    before, asked = spans(run), len(server.requests)
    make_video(tmp_path / "b.mp4", duration=40.0, clicks=[3.0, 20.0], fps=5)
    (tmp_path / "b.mp4").rename(card / "GX020042.MP4")
    assert ask(server, card, run).code == 0
    assert before.items() <= spans(run).items()
    assert len(server.requests) == len(spans(run)) > asked


@contextmanager
def written(path: Path, data: bytes):
    """`data` arrives in `path` byte by byte while the block runs; a third is there at once."""
    stop, first = threading.Event(), len(data) // 3
    path.write_bytes(data[:first])

    def write() -> None:
        with path.open("ab", buffering=0) as file:
            for start in range(first, len(data)):
                if stop.wait(0.005):
                    return
                file.write(data[start : start + 1])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_there_is_taken_while_the_file_is_written(wholes, server, tmp_path, name):
    path, run = tmp_path / name, tmp_path / "run"
    with written(path, wholes[name]):
        outcome = earmark(
            "caption", path, "--run", run, "--model", server.model, "-b", "40%", fresh=True
        )
    assert outcome.code == 0, outcome.err
    (line,) = [line for line in outcome.err.splitlines() if "written" in line]
    assert "it is still being written, so only its first" in line
    assert "run the same command again for the rest" in line
    assert "Traceback" not in outcome.err and "cut off" not in outcome.err
    before, asked = spans(run), len(server.requests)
    path.write_bytes(wholes[name])
    assert ask(server, path, run).code == 0
    assert before.items() <= spans(run).items()
    assert len(server.requests) == len(spans(run)) > asked
