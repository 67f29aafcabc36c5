"""Runs started from the server: planned, begun, followed, stopped, continued; windows asked."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")

from earmark.errors import RunError
from earmark.pipeline.session import Session, open_session
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.server import run_jobs
from earmark.server.run_library import RunLibrary, ServedRun
from earmark.settings import Choosing
from earmark_lab.demo import make_scene
from fault_server import fault_server
from served import serving

PATIENCE = 600.0


def wait_for(look: Callable[[], Any]) -> Any:
    """What `look` gives once it gives something."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come to that")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A folder with one recording, and a model that answers when it is let."""
    folder = tmp_path_factory.mktemp("place")
    make_scene(folder / "bench.mp4", duration=40.0)
    options = ("--frontline", "energy", "--no-sounds", "--input-price", "1", "--output-price", "1")
    with (
        fault_server(then="hold") as model,
        serving(
            folder, options=("--model", f"{model.url}#scripted", *options, "--no-cache")
        ) as client,
    ):
        yield SimpleNamespace(folder=folder, model=model, client=client)


def job_of(client: httpx.Client, key: str) -> dict[str, Any]:
    return client.get(f"/api/jobs/{key}").json()


def wait_for_end(client: httpx.Client, key: str) -> dict[str, Any]:
    return wait_for(lambda: (job := job_of(client, key))["state"] != "at work" and job)


@pytest.fixture(scope="module")
def done(place: SimpleNamespace) -> SimpleNamespace:
    """A run that is over: where it lies, and the addresses of it and of its recording."""
    client = place.client
    (source,) = client.get("/api/sources").json()
    wish = {"sources": [source["id"]], "budget": "20%", "name": "done"}
    started = client.post("/api/runs", json=wish).json()
    place.model.release(2)
    run = f"/api/runs/{wait_for_end(client, started['id'])['run']}"
    (page,) = client.get(f"{run}/recordings").json()["rows"]
    where = f"{run}/recordings/{page['row']['id']}"
    return SimpleNamespace(folder=place.folder / "runs" / "done", run=run, where=where)


def order_of(session: Session) -> dict[str, Any]:
    """A run as the server orders it of its process."""
    paths = [asdict(source) for source in session.sources()]
    settings = session.settings.model_dump(mode="json")
    return {"paths": paths, "settings": settings, "api_key": None}


def test_how_many_calls_there_are_to_make_is_told_at_once(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(run_jobs, "PROGRESS_INTERVAL", 1e9)  # so that no other progress is
    make_scene(tmp_path / "bench.mp4", duration=40.0)
    plan = open_session([tmp_path / "bench.mp4"], budget="40%", frontline="energy", pictures=False)
    order = order_of(plan)
    run_jobs.run_order(order | {"run": str(tmp_path / "run")}, out := io.StringIO())
    *told, result = map(json.loads, out.getvalue().splitlines())
    assert (4, 0) in [(line["progress"]["calls"], line["progress"]["done"]) for line in told]
    assert result["result"]["totals"]["picks"] == 4


def test_a_window_that_was_not_picked_is_asked_and_its_price_known_before(
    place: SimpleNamespace, done: SimpleNamespace
):
    client, where = place.client, done.where
    picks = client.get(f"{where}/picks").json()["picks"]
    taken = {pick["window"] for pick in picks}
    free = min(set(range(10)) - taken)
    quote = client.get(f"{where}/quote", params={"time": free * 4 + 1.5}).json()
    assert quote["span"] == {"start": free * 4, "end": free * 4 + 4}
    assert quote["money"] > 0
    assert not quote["is_answered"]
    place.model.release(1)
    answer = client.post(f"{where}/ask", json={"time": free * 4 + 1.5})
    assert answer.status_code == 200, answer.text
    asked = answer.json()
    (new,) = (pick for pick in asked["picks"] if pick["window"] == free)
    assert (new["status"], new["reason"]) == ("answered", "asked by hand")
    assert new["has_picture"]
    before = place.model.count()
    assert client.post(f"{where}/ask", json={"time": free * 4 + 1.5}).status_code == 200
    assert place.model.count() == before, "what is answered is not asked again"
    assert client.get(f"{where}/quote", params={"time": 400}).status_code == 422


def test_a_run_at_work_elsewhere_is_not_written_over(place: SimpleNamespace, done: SimpleNamespace):
    client = place.client
    with Run(done.folder) as read:
        plan = read.plan()
    with Run(done.folder, plan):
        assert client.get(done.run).json()["is_at_work"]
        refused = client.post(f"{done.where}/ask", json={"time": 1.0})
        assert (refused.status_code, "in use by" in refused.json()["detail"]) == (409, True)
    assert not client.get(done.run).json()["is_at_work"]


@pytest.mark.parametrize("sources", [[], ["/etc"], ["../bench.mp4"], ["http://example.org/a.mp4"]])
def test_only_recordings_below_the_folders_are_worked_on(
    place: SimpleNamespace, sources: list[str]
):
    for path in ("/api/forecasts", "/api/runs"):
        refused = place.client.post(path, json={"sources": sources})
        assert (refused.status_code, "choose recordings" in refused.text) == (422, True)


def ended(script: str) -> run_jobs.Job:
    """A job whose process has run `script` to its end."""
    words = [sys.executable, "-c", script]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    job = run_jobs.Job("1", child, None)
    job.follow()
    return job


def test_a_process_that_dies_has_failed_and_says_so():
    job = ended("import os; os._exit(7)")
    assert job.state == "failed"
    assert "exit code 7" in job.to_json()["failure"]


def test_what_a_library_prints_does_not_end_the_following_of_a_job():
    job = ended("""print('loading ...'); print('{0: 1}'); print('{"result": {"a": 1}}')""")
    assert (job.state, job.to_json()["result"]) == ("done", {"a": 1})


def test_a_process_that_was_stopped_is_stopped():
    assert ended("""print('{"stopped": true}')""").state == "stopped"


def test_a_disk_that_refuses_is_the_reason(tmp_path: Path):
    (tmp_path / "run" / "report.html").mkdir(parents=True)  # so that no report can be written
    order = order_of(open_session([tmp_path], rule="uniform", pictures=False))
    run_jobs.run_order(order | {"run": str(tmp_path / "run")}, out := io.StringIO())
    failure = json.loads(out.getvalue().splitlines()[-1])["failure"]
    assert "cannot continue" in failure
    assert str(tmp_path) not in failure, "clients are not told paths"


def test_two_runs_of_one_name_have_two_folders(tmp_path: Path):
    first, second = (run_jobs.run_folder(tmp_path, "shift", []) for _ in range(2))
    assert (first.name, second.name) == ("shift", "shift-2")


def test_no_name_of_a_run_leads_out_of_the_folder(tmp_path: Path):
    assert run_jobs.run_folder(tmp_path, "../../first try", []) == tmp_path / "runs" / "first_try"


def test_a_folder_of_runs_that_cannot_be_made_is_told(tmp_path: Path):
    (tmp_path / "runs").symlink_to(tmp_path / "away")  # a disk that is not there
    with pytest.raises(FileNotFoundError):
        run_jobs.run_folder(tmp_path, "shift", [])


def test_a_run_is_not_started_twice(tmp_path: Path):
    plan = open_session([tmp_path], rule="uniform", pictures=False)
    jobs = run_jobs.RunJobs()
    try:
        jobs.start(plan, tmp_path / "run")
        with pytest.raises(RunError, match="already running"):
            jobs.start(plan, tmp_path / "run")  # its process has not opened the ledger yet
        for _ in range(run_jobs.MOST_AT_WORK - 1):
            jobs.start(plan)
        with pytest.raises(RunError, match="4 jobs are at work"):
            jobs.start(plan)
    finally:
        jobs.close()


def made_by(folder: Path, **choices: Any) -> ServedRun:
    """A run in `folder` about its recording, as the command line makes it with `choices`."""
    session = open_session(**{"budget": "10%", "frontline": "energy", "pictures": False} | choices)
    video = folder / "bench.mp4"
    with Run(folder / "run", session.with_evidence().run_json("m")) as run:
        run.add(RecordingRow("one", str(video), 40.0, 100))
    return ServedRun("key", folder / "run", "run", RunLibrary([folder]))


@pytest.fixture
def ours() -> Session:
    """The settings of the server."""
    return open_session(frontline="energy", pictures=False, max_calls=7)


def test_a_run_is_continued_with_the_settings_of_the_server(tmp_path: Path, ours: Session):
    plan = run_jobs.continue_session(made_by(tmp_path), ours, Choosing(budget="30%", across=True))
    assert [source.path for source in plan.sources()] == [str(tmp_path / "bench.mp4")]
    assert (str(plan.budget), plan.settings.across) == ("30%", True)
    assert plan.settings.limits.max_calls == 7


@pytest.mark.parametrize(
    "choices",
    [
        {"window": 2.0},
        {"rule": "uniform", "frontline": "auto"},
        {"action_length": 12.5},
        {"rounds": "3"},
        {"voices": False},
        {"speech": True, "language": "en"},
        {"prompt": "Say everything."},
    ],
    ids=str,
)
def test_a_run_made_with_other_settings_is_not_continued_and_says_which(
    tmp_path: Path, ours: Session, choices: dict[str, Any]
):
    name = {"prompt": "ask"}.get(next(iter(choices)), next(iter(choices)))
    with pytest.raises(RunError, match=rf"other settings .*\b{name} is .* there and .* here"):
        run_jobs.continue_session(made_by(tmp_path, **choices), ours, Choosing())


@pytest.mark.parametrize(
    "listed",
    [
        b"{",
        b"null",
        b'[{"uris": []}]',
        b'[{"uris": [7]}]',
        b'[{"uris": ["a"], "x": 1}]',
        b"[" * 9999,
    ],
)
def test_a_list_of_recordings_that_is_none_is_a_clear_error(
    tmp_path: Path, ours: Session, listed: bytes
):
    served = made_by(tmp_path)
    (served.folder / "sources.json").write_bytes(listed)
    with pytest.raises(RunError, match="does not list recordings"):
        run_jobs.continue_session(served, ours, Choosing())
