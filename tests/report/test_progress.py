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


def test_counts_and_stages():
    progress = Progress(recordings=3)
    assert (progress.stage, progress.seconds_left) == ("hearing", None)
    progress = counted()
    told = progress.to_json()
    assert (told["stage"], told["missed"], told["calls"], told["done"]) == ("asking", 1, 10, 4)
    assert (told["failed"], told["tokens"], told["spend"]) == (1, 120, 0.5)
    assert told["trouble"] == "no"
    progress.asked = progress.began - 2.0
    assert progress.rate == pytest.approx(2.0, rel=0.2)
    assert progress.seconds_left == pytest.approx(3.0, rel=0.2)


@pytest.mark.parametrize(
    ("has_model", "stage", "said"),
    [(True, "asking", "4 of 10 calls"), (False, "looking", "4 of 10 windows")],
)
def test_where_no_model_is_asked_nothing_is_said_to_be(has_model, stage, said):
    progress, screen = counted(), io.StringIO()
    progress.has_model = has_model
    with bars(Console(file=screen, force_terminal=True, width=100)) as show:
        show(progress)
    assert (progress.stage, progress.to_json()["stage"]) == (stage, stage)
    drawn = screen.getvalue()
    assert stage in drawn and said in drawn
    assert ("asking" in drawn, "calls" in drawn) == (has_model, has_model)
