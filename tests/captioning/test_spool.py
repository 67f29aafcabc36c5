"""Requests that wait for a server, on the disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from earmark.captioning.request import Question, Request
from earmark.captioning.spool import Spool
from earmark.media import Frame
from earmark.timeline import Span


def request(start: float) -> Request:
    question = Question(frames=2)
    times = (start + 1.0, start + 3.0)
    made = Request("rec", Span(start, start + 4.0), times, "What?", "tiny", question, ("knock",))
    return made.showing([Frame(time, np.full((64, 64, 3), 90, np.uint8)) for time in times])


def test_another_process_finds_what_waits_as_it_was(tmp_path: Path):
    asked = request(8.0)
    Spool(tmp_path).add(asked, worth=0.5, picked=100.0)
    (entry,) = Spool(tmp_path).take(10)
    again = entry.read(asked.question)
    assert again == asked and again.identity == asked.identity
    assert again.pictures == asked.pictures and len(again.frames) == 2
    assert (entry.worth, entry.picked) == (0.5, 100.0)


def test_those_worth_most_are_asked_first_and_stay_until_they_are_done(tmp_path: Path):
    spool = Spool(tmp_path)
    for number, worth in enumerate((0.2, 0.9, 0.5)):
        spool.add(request(4.0 * number), worth=worth, picked=0.0)
    first = spool.take(2)
    assert [entry.worth for entry in first] == [0.9, 0.5]
    assert [entry.worth for entry in spool.take(2)] == [0.2]
    assert len(Spool(tmp_path)) == 3  # a killed process loses none
    spool.done(first[0].identity)
    spool.put_back(first[1].identity)
    assert [entry.worth for entry in spool.take(9)] == [0.5]
    assert len(Spool(tmp_path)) == 2


@pytest.mark.parametrize("bound", [{"most_requests": 3}, {"most_bytes": 4000}])
def test_a_full_spool_drops_what_is_worth_least(tmp_path: Path, bound: dict[str, int]):
    spool = Spool(tmp_path, **bound)
    dropped = [
        entry.worth
        for number, worth in enumerate((0.5, 0.1, 0.9, 0.7, 0.3))
        for entry in spool.add(request(4.0 * number), worth=worth, picked=0.0)
    ]
    kept = [entry.worth for entry in spool.take(9)]
    assert kept and dropped and sorted([*dropped, *kept]) == [0.1, 0.3, 0.5, 0.7, 0.9]
    assert max(dropped) < min(kept)
    assert len(list(tmp_path.glob("*.json"))) == len(kept)
