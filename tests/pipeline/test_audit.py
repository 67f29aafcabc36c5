"""An audit of a run, with a real server in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earmark import Span, caption
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.errors import RunError
from earmark.pipeline.audit import NOTE, AuditDraws, audit, forecast_widths
from earmark.pipeline.session import Session, open_session
from earmark.run.merge import merge
from earmark.run.run import Run
from earmark.settings import Limits
from fault_server import fault_server
from making import make_video


def says(activity: str) -> str:
    answer = {"caption": f"someone: {activity}", "activity": activity, "active": bool(activity)}
    return f"ok:{json.dumps(answer)}"


@pytest.fixture(scope="module")
def video(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("media") / "shift.mp4"
    make_video(path, duration=60.0, clicks=[9.0, 25.0, 41.3], fps=5, group=20)
    return path


def plan(url: str, **choices) -> Session:
    choices |= {"limits": Limits(concurrency=1), "frontline": "flux"}
    choices |= {"sounds": False, "pictures": False}
    return open_session(captioner=OpenAICaptioner(url, "scripted"), window=2.0, **choices)


def test_windows_that_no_pick_touches_are_asked_once(video, tmp_path):
    with fault_server(then=says("chop onion")) as server:
        caption([video], settings=plan(server.url, budget="10"), run=tmp_path)
        script_before = server.count()
        done = audit(tmp_path, calls=8, settings=plan(server.url))
        assert server.count() == script_before + 8
        again = audit(tmp_path, calls=8, settings=plan(server.url))
        assert server.count() == script_before + 8
    assert (done.windows, done.drawn, done.answered, done.active) == (20, 8, 8, 8)
    assert [path.name for path in tmp_path.glob("run.db*")] == ["run.db"], "no journal is left"
    assert (again.share, again.active) == (done.share, 8)
    assert done.share.share == 1.0
    assert 0 < done.activities[0] < done.activities[1] == done.activities[2]
    with Run(tmp_path) as run:
        (recording,) = run.recordings()
        picked = [row.span for row in run.picks(recording.id)]
        assert len(picked) == 10
        asked = [Span(start * 2.0, start * 2.0 + 2) for start in range(30)]
        drawn = [one for one in asked if run.answers(recording.id, one) and one not in picked]
        assert len(drawn) == 8


def test_a_draw_that_failed_is_asked_again_and_the_others_are_not(video, tmp_path):
    with fault_server(*[says("")] * 4, "400", then=says("")) as server:
        caption([video], settings=plan(server.url, budget="4"), run=tmp_path)
        first = audit(tmp_path, calls=6, settings=plan(server.url))
        assert (first.drawn, first.answered) == (6, 5)
        second = audit(tmp_path, calls=6, settings=plan(server.url))
        assert server.count() == 4 + 6 + 1
    assert (second.answered, second.active, second.share.low) == (6, 0, 0.0)


def test_how_wide_it_will_be_is_said_beforehand(video, tmp_path):
    with fault_server() as server:
        caption([video], settings=plan(server.url, budget="4"), run=tmp_path)
        asked = server.count()
        widths = forecast_widths(tmp_path, [5, 10, 20, 40])
        assert server.count() == asked
    *calls, most = widths
    assert calls == [5, 10, 20] and 20 < most < 40  # all windows that nobody looked at
    assert widths[5] > widths[10] > widths[20] > widths[most] == 0


def test_the_draws_of_shards_are_those_of_the_merged_run(video, tmp_path):
    """What each shard's audit asked is not asked again, and together they say it of the whole."""
    longer = tmp_path / "longer.mp4"
    make_video(longer, duration=80.0, clicks=[9.0, 25.0], fps=5, group=20)
    shards = [tmp_path / "1", tmp_path / "2"]
    with fault_server(then=says("chop onion")) as server:
        for path, own in zip(shards, (video, longer), strict=True):
            caption([own], settings=plan(server.url, budget="10"), run=path)
    for path, words in zip(shards, ("sweep", ""), strict=True):
        with fault_server(then=says(words)) as server:
            audit(path, calls=8, settings=plan(server.url))
    merge(shards, tmp_path / "all")
    merge(shards, tmp_path / "all")
    with fault_server(then=says("never asked")) as server:
        whole = audit(tmp_path / "all", calls=16, settings=plan(server.url))
        assert server.count() == 0
    sizes = [audited(path) for path in shards]
    assert (whole.windows, whole.drawn, whole.answered, whole.active) == (sum(sizes), 16, 16, 8)
    assert whole.share.share == pytest.approx(sizes[0] / sum(sizes))
    with fault_server(then=says("")) as server:
        assert audit(tmp_path / "all", calls=4, settings=plan(server.url)).drawn == 4
        assert server.count() <= 4


def audited(folder: Path) -> int:
    """The windows that a run's audit drew from."""
    with Run(folder) as run:
        return sum(part.windows for part in AuditDraws.from_json(run.note(NOTE) or "[]"))


def test_a_shard_without_an_audit_has_all_drawn_anew(video, tmp_path):
    other = tmp_path / "other.mp4"
    make_video(other, duration=40.0, clicks=[9.0], fps=5, group=20)
    with fault_server(then=says("")) as server:
        for name, own in (("1", video), ("2", other)):
            caption([own], settings=plan(server.url, budget="4"), run=tmp_path / name)
        audit(tmp_path / "1", calls=6, settings=plan(server.url))
        merge([tmp_path / "1", tmp_path / "2"], tmp_path / "all")
        done = audit(tmp_path / "all", calls=6, settings=plan(server.url))
    assert (done.windows, done.drawn) == (audited(tmp_path / "all"), 6)
    assert done.windows > audited(tmp_path / "1")


def test_a_run_that_saw_all_has_nothing_to_audit(video, tmp_path):
    with fault_server() as server:
        caption([video], settings=plan(server.url, rule="full"), run=tmp_path)
        with pytest.raises(RunError, match="every window"):
            audit(tmp_path, settings=plan(server.url))
