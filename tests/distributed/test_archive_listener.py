"""An archive heard by many is heard as by one."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from earmark.captioning import TagsCaptioner
from earmark.distributed.archive_listener import Listen, ManyEars, Shard, WorkItem
from earmark.distributed.worker_pool import WorkerPool
from earmark.errors import UnreadableFile
from earmark.gate.score_cache import ScoreCache
from earmark.media import Recording, Source, find
from earmark.pipeline.caption import caption
from earmark.pipeline.job import Job
from earmark.pipeline.triage import OwnEars, Scored, hear, make_plan, select, spend
from making import make_video


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    for number in range(3):
        clicks = [4.0 * place + number for place in range(1, 9, 1 + number)]
        make_video(folder / f"{number}.mp4", duration=40.0, clicks=clicks, fps=5, group=10)
    (folder / "broken.mp4").write_bytes(b"not a movie")
    return folder


def test_many_ears_hear_what_one_hears(archive):
    plan, sources = make_plan(frontline="flux"), find([archive])
    here = dict(OwnEars()(sources, plan, known={}, cache=None))
    there = dict(ManyEars(WorkerPool(2))(sources, plan, known={}, cache=None))
    assert set(here) == set(there) == set(sources)
    for source in sources:
        one, other = here[source], there[source]
        assert type(one) is type(other)
        if isinstance(one, Scored) and isinstance(other, Scored):
            assert one.heard.recording == other.heard.recording
            for name in ("scores", "instants", "rates"):
                ours, theirs = getattr(one.windows, name), getattr(other.windows, name)
                assert ours.tobytes() == theirs.tobytes()
        else:
            assert str(one) == str(other)
    assert isinstance(there[sources[-1]], UnreadableFile)


@pytest.mark.slow
def test_the_choice_does_not_depend_on_who_listens(archive):
    choices = {"budget": "6", "across": True, "frontline": "flux"}
    here = select([archive], **choices)
    there = select([archive], ears=ManyEars(WorkerPool(2)), **choices)
    assert here == there
    assert here.calls == 6


def test_what_comes_back_is_small(archive):
    source = find([archive])[0]
    hour = 3600 / 40
    sent = pickle.dumps(Listen(make_plan(frontline="flux"), None)(WorkItem(source, None)))
    assert len(sent) < 20_000, "for 40 s, most of it not by the length"
    whole = pickle.dumps(hear(source, make_plan(frontline="flux")))
    assert len(whole) > len(sent)
    assert hour * 10 * 24 + 3600 * 4 < 50_000  # windows and level of an hour


def test_a_recording_that_has_not_changed_is_only_described(archive, tmp_path):
    plan, source = make_plan(frontline="flux"), find([archive])[0]
    listen = Listen(plan, None)
    heard = listen(WorkItem(source, None))
    assert isinstance(heard, Scored)
    assert isinstance(listen(WorkItem(source, heard.heard.recording.key)), Recording)
    assert isinstance(listen(WorkItem(source, "another key")), Scored)


def test_new_recordings_are_picked_up_and_old_ones_not_heard_again(archive, tmp_path):
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "0.mp4").write_bytes((archive / "0.mp4").read_bytes())
    told: list[Counter[str]] = []

    def ears(sources, plan, *, known, cache):
        told.append(Counter())
        for source, one in OwnEars()(sources, plan, known=known, cache=cache):
            told[-1][type(one).__name__] += 1
            yield source, one

    made = Job(make_plan(budget="2", frontline="flux"), TagsCaptioner())
    made = replace(made, cache=ScoreCache(tmp_path / "cache"))
    caption([folder], made, folder=tmp_path / "run", ears=ears)
    (folder / "1.mp4").write_bytes((archive / "1.mp4").read_bytes())
    done = caption([folder], made, folder=tmp_path / "run", ears=ears)
    assert told == [Counter(Scored=1), Counter(Recording=1, Scored=1)]
    assert done.totals.recordings == 2


def test_shards_are_disjoint_and_whole():
    sources = [Source((f"s3://bucket/{number}.mp4",)) for number in range(200)]
    parts = [[s for s in sources if Shard(number, 5).holds(s)] for number in range(1, 6)]
    assert sorted(s.uris for part in parts for s in part) == sorted(s.uris for s in sources)
    assert min(map(len, parts)) > 20
    assert Shard(3, 5).holds(Source(("s3://bucket/0.mp4",))) == (sources[0] in parts[2])


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "-1/4", "1/0"])
def test_a_bad_shard_is_refused(text):
    with pytest.raises(ValueError, match="shard"):
        Shard.parse(text)


def test_weights_move_calls_and_leave_expectations(archive):
    plan = make_plan(budget="6", across=True, frontline="flux")
    heard = [hear(source, plan).windows for source in find([archive])[:3]]
    plain, heavy = list(spend(plan, heard)), list(spend(plan, heard, weights=[1.0, 1.0, 50.0]))
    assert [len(choice.picks) for choice in heavy] != [len(choice.picks) for choice in plain]
    assert len(heavy[2].picks) > len(plain[2].picks)
    assert sum(len(choice.picks) for choice in heavy) == 6
    for windows, choice in zip(heard, heavy, strict=True):
        for pick in choice.picks:
            assert pick.rate == windows.rates[pick.window]
    assert np.isclose(
        sum(pick.expected for pick in next(spend(plan, heard, weights=[7.0] * 3)).picks),
        sum(pick.expected for pick in plain[0].picks),
    )
