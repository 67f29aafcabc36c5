"""A real Ray cluster of several nodes on this machine, workers and a node killed in the middle."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import Progress, caption
from earmark.captioning.captioner import TagsCaptioner
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.errors import BackendError, InternalError, MissingExtra, UnreadableFile
from earmark.pipeline.backend import InProcessBackend
from earmark.run.run import Run
from earmark.settings import Workers
from earmark.workers import ray_backend
from earmark.workers.ray_backend import RayBackend, RayCaptioner
from fault_server import fault_server
from killing import kill_and_resume, kill_when_asked
from making import make_video
from scale_work import Dies, LosesFirstCall, Notes, heavy, square
from servers import free_port, s3_bucket
from small_runs import chosen_part
from vlm_server import vlm_server

ray = pytest.importorskip("ray")
TESTS = str(Path(__file__).parents[1])


def connect(cluster: Any, *paths: str) -> None:
    """Join the cluster; its workers import from `paths` first, then the work of these tests."""
    found = os.pathsep.join([*paths, TESTS, *sys.path])
    keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    ray.init(
        address=cluster.address,
        runtime_env={"env_vars": {"PYTHONPATH": found, **keys}},
        log_to_driver=False,
        logging_level="ERROR",
    )


def test_a_cluster_that_is_not_there_is_one_line_at_once():
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(BackendError, match=rf"no Ray cluster at {address} .*ray start --head"):
        RayBackend(Workers(engine="ray", address=address))


def test_a_cluster_that_was_killed_is_one_line_at_once(ray_folder, monkeypatch):
    with pytest.raises(BackendError, match=r"no Ray cluster at 127.0.0.1:9 \(Connection refused"):
        RayBackend(Workers(engine="ray", address="auto"))
    monkeypatch.setenv("RAY_TMPDIR", str(ray_folder / "none"))
    with pytest.raises(BackendError, match="no Ray cluster at auto"):
        RayBackend(Workers(engine="ray", address="auto"))


OWN_CLUSTER = """
from contextlib import closing
from earmark.settings import Workers
from earmark.workers.ray_backend import RayBackend
with closing(RayBackend(Workers(engine="ray", workers=1))) as backend:
    from ray._common.usage.usage_lib import usage_stats_enabled
    print(usage_stats_enabled(), sorted(backend.map(len, ["abc", ""])))
"""


@pytest.mark.slow
def test_a_cluster_of_our_own_prints_nothing_and_reports_its_use_to_nobody():
    """It starts whatever an earlier cluster has left behind."""
    words = [sys.executable, "-c", OWN_CLUSTER]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.stdout == "False [('', 0), ('abc', 3)]\n", ran.stderr


def test_without_the_extra_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'earmark\[ray\]'"):
        RayBackend()


def test_a_captioner_that_answers_at_once_is_limited_by_the_limits_where_workers_are_asked():
    class ThreeCores:
        def capacity(self) -> int:
            return 3

    there = RayCaptioner(ThreeCores(), TagsCaptioner(), None)  # type: ignore[arg-type]
    assert there.at_once is None


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """An empty bucket of moto's S3 server, reached by this process and those it starts."""
    with s3_bucket("cams") as client:
        yield client


@pytest.fixture(scope="module")
def cluster(bucket) -> Iterator[Any]:
    """Two nodes of one core each; this process is connected to the first."""
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    options["_system_config"] = {
        "health_check_timeout_ms": 120_000
    }  # a node that is slow is not dead
    made = Cluster(initialize_head=True, head_node_args=options)
    try:
        made.add_node(num_cpus=1, object_store_memory=80_000_000)
        connect(made)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.mark.slow
def test_it_keeps_the_contract_of_a_backend(cluster, tmp_path):
    backend = RayBackend()
    items = [3, -1, 8, 21, -5, 34]
    outcomes = dict(backend.map(square, items))
    here = dict(InProcessBackend().map(square, items))
    assert {item: outcomes[item] for item in items if item > 0} == {
        item: here[item] for item in items if item > 0
    }
    assert isinstance(outcomes[-5], UnreadableFile)
    assert str(outcomes[-5]) == str(here[-5])
    bug = dict(backend.map(square, [1, 13, 2]))[13]
    assert isinstance(bug, InternalError)
    assert "13: a bug in earmark (KeyError: 'thirteen')" in str(bug)


@pytest.mark.slow
def test_a_full_object_store_is_no_loss(cluster):
    """The store of a node has room for six results; something else fills it, and twenty come."""
    filling = [ray.put(bytes(12_000_000)) for _ in range(6)]
    outcomes = list(RayBackend().map(heavy, range(20)))
    got = {item: (len(value), value[0]) for item, value in outcomes}
    assert got == {number: (12_000_000, number) for number in range(20)}
    del filling


@pytest.mark.slow
def test_a_killed_worker_is_no_loss_and_a_deadly_item_a_row(cluster, tmp_path):
    backend = RayBackend()
    once, always = tmp_path / "once", tmp_path / "always"
    once.mkdir()
    always.mkdir()
    outcomes = list(backend.map(Dies(str(once), times=1), list(range(9))))
    assert sorted(value for _, value in outcomes) == list(range(9))
    deadly = dict(backend.map(Dies(str(always), times=99), list(range(6, 9))))
    assert [item for item, one in deadly.items() if isinstance(one, Exception)] == [7]
    assert isinstance(deadly[7], BackendError)
    assert len(list(always.iterdir())) == 3


@pytest.mark.slow
def test_a_slow_reader_holds_the_rest_back(cluster, tmp_path):
    outcomes = RayBackend(Workers(engine="ray", workers=2)).map(
        Notes(str(tmp_path), seconds=0.0), list(range(40))
    )
    next(outcomes)
    assert len(list(tmp_path.iterdir())) <= 3
    outcomes.close()


@pytest.fixture(scope="module")
def archive(tmp_path_factory, bucket) -> str:
    """Four recordings and one that is none, in the bucket."""
    folder = tmp_path_factory.mktemp("archive")
    for number in range(4):
        clicks = [4.0 * place + number for place in range(2, 9, 1 + number)]
        make_video(folder / f"{number}.mp4", duration=48.0, clicks=clicks, fps=5, group=10)
    (folder / "broken.mp4").write_bytes(b"not a movie")
    for path in folder.iterdir():
        bucket.upload_file(str(path), "cams", f"shift/{path.name}")
    return "s3://cams/shift/"


def choices(url: str) -> dict[str, Any]:
    return {
        "budget": "25%",
        "across": True,
        "frontline": "flux",
        "captioner": OpenAICaptioner(url, "tiny"),
        "tokens": 64,
        "answer_tokens": 8,
        "concurrency": 1,
        "pictures": False,
    }


def contents(folder: Path) -> list[Any]:
    """All of a run that does not name a moment."""
    rows: list[Any] = []
    with Run(folder) as run:
        rows.extend(replace(missed, path="") for missed in run.failed_recordings())
        for recording in run.recordings():
            heard = run.heard(recording.id)
            assert heard is not None
            assert heard.level is not None
            blobs = (heard.scores, heard.rates, heard.level.values)
            rows.append((recording, run.choice(recording.id), [blob.tobytes() for blob in blobs]))
            for pick in run.picks(recording.id):
                picture = run.thumbnail(recording.id, pick.span)
                words = pick.answer.text if pick.answer else pick.failure
                rows.append((chosen_part(pick), pick.tags, pick.status, words, picture))
    return rows


@pytest.mark.slow
def test_a_node_lost_in_the_middle_changes_nothing_in_the_ledger(cluster, archive, tmp_path):
    """The same run here, on the cluster, and on a cluster that loses a node while it asks."""
    with vlm_server(tmp_path) as url:
        here = caption([archive], run=tmp_path / "here", **choices(url))
        assert (here.totals.answered, here.missed) == (12, 1)
        there = choices(url) | {"engine": "ray"}
        # The store of the driver's node is full of something else.
        filling = [ray.put(bytes(12_000_000)) for _ in range(6)]
        caption([archive], run=tmp_path / "there", **there)
        del filling
        doomed = [cluster.add_node(num_cpus=1, object_store_memory=80_000_000)]

        def step(progress) -> None:
            if progress.answered >= 4 and doomed:
                cluster.remove_node(doomed.pop(), allow_graceful=False)

        lossy = caption([archive], run=tmp_path / "lossy", progress=Progress(step), **there)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert not doomed
    assert lossy.totals.answered == 12
    assert contents(tmp_path / "lossy") == contents(tmp_path / "here")
    assert 12 <= lossy.totals.asked <= 12 + 4, "what the lost node was asked counts too"


@pytest.mark.slow
def test_a_window_that_cannot_be_decoded_is_no_call_here_or_there(cluster, tmp_path):
    """The file is gone once it was heard; both engines say the same of it."""
    told = []
    with fault_server() as server:
        for engine in ("local", "ray"):
            path = make_video(tmp_path / f"{engine}.mp4", duration=16.0, clicks=[5.0], fps=5)

            def gone(progress, path=path) -> None:
                if progress.calls:
                    path.unlink(missing_ok=True)

            asker = OpenAICaptioner(server.url, "scripted")
            done = caption(
                [path],
                run=tmp_path / engine,
                progress=Progress(gone),
                budget="2",
                frontline="flux",
                captioner=asker,
                engine=engine,
            )
            assert "does not exist" in done.tally.last_reason
            told.append((replace(done.tally, last_reason=""), done.totals))
        assert server.count() == 0
    assert told[0] == told[1]
    assert (told[0][0].failed, told[0][0].attempts, told[0][1].asked) == (2, 0, 0)


@pytest.mark.slow
def test_a_call_that_is_lost_costs_its_worker_and_is_made_again(cluster, tmp_path, monkeypatch):
    """The first call never comes back, as one that Ray has lost; another worker makes it."""
    monkeypatch.setattr(ray_backend, "DECODE_ALLOWANCE", 15.0)
    path = make_video(tmp_path / "lost.mp4", duration=16.0, clicks=[5.0], fps=5)
    done = caption(
        [path],
        run=tmp_path / "run",
        budget="2",
        frontline="flux",
        captioner=LosesFirstCall(str(tmp_path)),
        engine="ray",
        timeout=1.0,
        concurrency=1,
    )
    assert (done.totals.answered, done.totals.asked, done.tally.failed) == (2, 3, 0)
    first, *later = [path.read_text() for path in sorted(tmp_path.glob("call-*"))]
    assert len(later) == 2
    assert first not in later


@pytest.mark.slow
def test_the_driver_killed_at_random_asks_nothing_kept_again(cluster, tmp_path):
    """SIGKILL of the whole command, over and over, on a cluster that outlives it."""
    for number in range(2):
        make_video(tmp_path / f"{number}.mp4", duration=24.0, clicks=[5.0, 13.0], fps=5)
    with fault_server(then="hold") as server:
        words = ["caption", str(tmp_path / "*.mp4"), "--frontline", "flux", "--budget", "3"]
        words += ["--model", f"{server.url}#scripted", "--concurrency", "2"]
        words += ["--no-sounds", "--no-pictures", "--cache", "none"]
        words += ["--engine", "ray", "--address", cluster.address]
        kill_and_resume(words, tmp_path / "run", server, kills=2, windows=6)


def says(activity: str) -> str:
    answer = {"caption": activity, "activity": activity, "active": True}
    return f"ok:{json.dumps(answer)}"


@pytest.mark.slow
def test_rounds_on_a_cluster_survive_the_driver_and_a_larger_budget(cluster, tmp_path):
    """One budget over two recordings, killed in the second round: no answer is asked for again."""
    for number in range(2):
        make_video(tmp_path / f"{number}.mp4", duration=40.0, clicks=[5.0, 13.0], fps=5)
    words = [sys.executable, "-m", "earmark", "caption", str(tmp_path / "*.mp4")]
    words += ["--frontline", "flux", "--window", "2", "--rounds", "2", "--across"]
    words += ["--concurrency", "1", "--no-sounds", "--no-pictures"]
    ray_words = ["--engine", "ray", "--address", cluster.address]
    said = [says("chop onion")] * 5 + [says("wash pan")]
    with fault_server(*said, "hold", then=says("stir soup")) as server:
        words += ["--model", f"{server.url}#scripted"]
        there = [*words, *ray_words, "--run", str(tmp_path / "there"), "--budget"]
        kill_when_asked([*there, "10"], server, 7)
        subprocess.run([*there, "14"], check=True)
        assert server.count() == 14 + 1
    with Run(tmp_path / "there") as run:
        rows = [row for one in run.recordings() for row in run.picks(one.id)]
        assert run.totals().answered == len(rows) == 14
    assert {row.round for row in rows} == {1, 2}


@pytest.mark.slow
def test_a_worker_of_another_version_is_refused(cluster, tmp_path):
    """The workers import a copy of earmark that calls itself 9.9."""
    package = Path(earmark.__file__).parent
    shutil.copytree(package, tmp_path / "earmark", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "earmark" / "version.py").write_text('VERSION = "9.9"\n')
    ray.shutdown()
    connect(cluster, str(tmp_path))
    try:
        with pytest.raises(
            BackendError, match=r"runs earmark 9.9 and this is \d.*install the same"
        ):
            list(RayBackend().map(square, [1]))
    finally:
        ray.shutdown()
        connect(cluster)
