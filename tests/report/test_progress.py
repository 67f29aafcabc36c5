"""Progress as people, log files and Prometheus are told it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from earmark import Progress
from earmark.captioning.dispatch import Tally
from earmark.report.progress import bars


def counted() -> Progress:
    progress = Progress(recordings=3)
    progress.update(missed=1, trouble="no")
    progress.count_calls(
        Tally(calls=4, failed=1, prompt_tokens=100, completion_tokens=20, spend=0.5), 10
    )
    return progress


def test_counts_and_phases():
    progress = Progress(recordings=3)
    assert (progress.phase, progress.seconds_left) == ("listening", None)
    progress = counted()
    told = progress.to_json()
    assert (told["phase"], told["missed"], told["calls"], told["done"]) == ("asking", 1, 10, 4)
    assert (told["failed"], told["tokens"], told["spend"]) == (1, 120, 0.5)
    assert told["trouble"] == "no"
    progress.began -= 2.0
    assert progress.rate == pytest.approx(2.0, rel=0.2)
    assert progress.seconds_left == pytest.approx(3.0, rel=0.2)


def test_listening_is_counted_in_seconds_of_recordings():
    progress = Progress(recordings=4)
    progress.enter("listening")
    progress.at("a.mp4", 30.0, 100.0)
    progress.at("b.mp4", 10.0, 200.0)
    assert progress.amount == (40.0, 600.0), "two more of the mean length wait"
    progress.heard += 1
    progress.advance(100.0, "a.mp4")
    assert progress.amount == (110.0, 600.0)
    told = progress.to_json()
    assert (told["seconds_done"], told["seconds_total"]) == (110.0, 600.0)
    progress.enter("naming sounds", 300.0)
    progress.advance(300.0)
    assert progress.amount == (300.0, 300.0)
    assert progress.seconds_left is None, "what is done is not said to take 0:00:00"


def draw(progress: Progress) -> str:
    screen = io.StringIO()
    with bars(Console(file=screen, force_terminal=True, width=120)) as show:
        show(progress)
    return screen.getvalue()


@pytest.mark.parametrize(
    ("has_model", "phase", "said"),
    [(True, "asking", "4 of 10 calls"), (False, "looking", "4 of 10 windows")],
)
def test_where_no_model_is_asked_nothing_is_said_to_be(has_model, phase, said):
    progress = Progress(recordings=3, has_model=has_model)
    tally = Tally(calls=4, failed=1, prompt_tokens=100, completion_tokens=20, spend=0.5)
    progress.count_calls(tally, 10)
    assert (progress.phase, progress.to_json()["phase"]) == (phase, phase)
    drawn = draw(progress)
    assert phase in drawn and said in drawn
    assert ("asking" in drawn, "calls" in drawn) == (has_model, has_model)


def test_a_bar_names_the_phase_and_how_much_of_it_is_done():
    progress = Progress(recordings=2, heard=1)
    progress.enter("listening")
    progress.advance(3600.0)
    progress.at("b.mp4", 1800.0, 3600.0)
    progress.began -= 60.0
    drawn = draw(progress)
    assert "listening" in drawn and "1 h 30 min of 2 h, 1 of 2 recordings" in drawn
    assert "20 s left" in drawn or "19 s left" in drawn or "21 s left" in drawn
    progress.enter("blurring faces", 40.0)
    progress.advance(10.0)
    assert "10 s of 40 s" in draw(progress) and "blurring faces" in draw(progress)
