"""An archive heard by many is heard as by one."""

from __future__ import annotations

import pickle
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from earmark import Progress, Recording, caption, select
from earmark.errors import UnreadableFile
from earmark.grid import ScoredRecording
from earmark.media import find
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.listen import listen, listen_all, listen_unless_known
from earmark.pipeline.session import open_session
from earmark.run.run import Run
from earmark.selection import allocate
from earmark.settings import Workers
from earmark.workers.worker_pool import WorkerPool
from making import make_video


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    for number in range(3):
        clicks = [4.0 * place + number for place in range(1, 9, 1 + number)]
        make_video(folder / f"{number}.mp4", duration=40.0, clicks=clicks, fps=5, group=10)
    (folder / "broken.mp4").write_bytes(b"not a movie")
    return folder


def work(source, plan, known=None):
    return listen_unless_known(source, plan=plan, known=known or {})


def test_many_hear_what_one_hears(archive):
    plan, sources = open_session(frontline="flux").listening, find([archive])
    here = dict(listen_all(sources, plan, InProcessBackend()))
    there = dict(listen_all(sources, plan, WorkerPool(Workers(workers=2))))
    assert set(here) == set(there) == set(sources)
    for source in sources:
        one, other = here[source], there[source]
        assert type(one) is type(other)
        if isinstance(one, ScoredRecording) and isinstance(other, ScoredRecording):
            assert one.heard.recording == other.heard.recording
            for name in ("scores", "instants", "rates"):
                ours, theirs = getattr(one, name), getattr(other, name)
                assert ours.tobytes() == theirs.tobytes()
        else:
            assert str(one) == str(other)
    assert isinstance(there[sources[-1]], UnreadableFile)


@pytest.mark.slow
def test_the_choice_does_not_depend_on_who_listens(archive):
    choices = {"budget": "6", "across": True, "frontline": "flux"}
    here = select([archive], workers=1, **choices)
    there = select([archive], workers=2, **choices)
    assert here == there
    assert here.calls == 6


def test_what_comes_back_is_small(archive):
    source, plan = find([archive])[0], open_session(frontline="flux").listening
    hour = 3600 / 40
    sent = pickle.dumps(work(source, plan))
    assert len(sent) < 20_000, "for 40 s, most of it not by the length"
    whole = pickle.dumps(listen(source, plan))
    assert len(whole) > len(sent)
    assert hour * 10 * 24 + 3600 * 4 < 50_000  # windows and level of an hour


def test_a_recording_that_has_not_changed_is_only_described(archive):
    plan, source = open_session(frontline="flux").listening, find([archive])[0]
    heard = work(source, plan)
    assert isinstance(heard, ScoredRecording)
    key = heard.heard.recording.key
    assert isinstance(work(source, plan, {source: (key, 0)}), Recording)
    assert isinstance(work(source, plan, {source: ("another key", 0)}), ScoredRecording)


def test_new_recordings_are_picked_up_and_old_ones_not_heard_again(archive, tmp_path):
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "0.mp4").write_bytes((archive / "0.mp4").read_bytes())
    choices = {"budget": "2", "frontline": "flux", "cache": tmp_path / "cache"}
    counts = []
    for number in range(2):
        progress = Progress()
        done = caption([folder], run=tmp_path / "run", progress=progress, **choices)
        counts.append(Counter(unchanged=progress.unchanged, heard=progress.heard))
        (folder / f"{number + 1}.mp4").write_bytes((archive / "1.mp4").read_bytes())
    assert counts == [Counter(heard=1, unchanged=0), Counter(heard=2, unchanged=1)]
    assert done.totals.recordings == 2


def test_any_fault_in_one_recording_is_a_row_and_the_others_are_done(archive, monkeypatch):
    """A bug of ours too: it says that it is one."""
    from earmark.gate import listener as module

    opened = module.open_recording

    def stumble(source, **options):
        if source.uris[0].endswith("1.mp4"):
            raise RecursionError("maximum depth")
        return opened(source, **options)

    monkeypatch.setattr(module, "open_recording", stumble)
    selection = select([archive], frontline="flux", workers=1)
    assert [Path(one.path).name for one in selection.recordings] == ["0.mp4", "2.mp4"]
    bug, broken = selection.failures
    assert "1.mp4: a bug in earmark (RecursionError: maximum depth)" in bug.error
    assert "broken.mp4" in broken.error


def test_weights_move_calls_and_leave_expectations(archive):
    plan = open_session(budget="6", across=True, frontline="flux")
    heard = [listen(source, plan.listening) for source in find([archive])[:3]]

    def spend(weights=None):
        return list(allocate(plan.rule, heard, plan.budget, across=True, weights=weights))

    plain, heavy = spend(), spend([1.0, 1.0, 50.0])
    assert [len(choice.picks) for choice in heavy] != [len(choice.picks) for choice in plain]
    assert len(heavy[2].picks) > len(plain[2].picks)
    assert sum(len(choice.picks) for choice in heavy) == 6
    for windows, choice in zip(heard, heavy, strict=True):
        for pick in choice.picks:
            assert pick.rate == windows.rates[pick.window]
    assert np.isclose(
        sum(pick.expected for pick in spend([7.0] * 3)[0].picks),
        sum(pick.expected for pick in plain[0].picks),
    )


def test_a_copy_is_a_row_and_another_file_of_its_size_and_time_a_recording(tmp_path):
    film = make_video(tmp_path / "a.mp4", duration=16.0, clicks=[5.0], fps=5)
    copy = Path(shutil.copy2(film, tmp_path / "b.mp4"))
    data = bytearray(film.read_bytes())
    middle = slice(len(data) // 2, len(data) // 2 + len(data) // 20)
    data[middle] = data[middle][::-1]
    other = tmp_path / "c.mp4"
    other.write_bytes(data)
    shutil.copystat(film, other)
    choices = {"run": tmp_path / "run", "frontline": "flux", "budget": "1", "sounds": False}
    for _ in range(2):
        done = caption([film, copy, other], **choices)
        assert (done.missed, done.totals.recordings) == (0, 2)
        with Run(tmp_path / "run") as run:
            assert [row.path for row in run.recordings()] == [str(film), str(other)]
            (row,) = run.failed_recordings()
        assert (row.path, row.reason) == (
            str(copy),
            f"a copy of {film}, under which the run lists it",
        )
