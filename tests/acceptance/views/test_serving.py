"""`earmark serve` as a process on 127.0.0.1, asked over HTTP."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import httpx
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="earmark[server] is not installed")

from acceptance.command_line import earmark, fresh_command
from acceptance.views.conftest import Place
from acceptance.views.processes import TOKEN, serving, wait_for
from acceptance.views.scene import CAPTIONS, ColourModel, colour_model


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """A pick or a row of an archive without the level of nesting that it has today."""
    return {**record.get("pick", {}), **record.get("row", {}), **record}


@dataclass(frozen=True)
class Served:
    """A running server of copies of the runs."""

    client: httpx.Client
    runs: Path

    @property
    def run(self) -> str:
        """The address of the run `site`."""
        listing = self.client.get("/api/runs").json()
        (key,) = (run["id"] for run in listing if run["name"].endswith("site"))
        return f"/api/runs/{key}"

    @property
    def bench(self) -> str:
        """The address of its recording `bench.mp4`."""
        rows = self.client.get(f"{self.run}/recordings").json()["rows"]
        (key,) = (flat(row)["id"] for row in rows if flat(row)["name"] == "bench.mp4")
        return f"{self.run}/recordings/{key}"

    def get(self, address: str, **query: object) -> Any:
        answer = self.client.get(address, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def served(
    place: Place, surroundings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    runs = tmp_path_factory.mktemp("served") / "runs"
    shutil.copytree(place.runs, runs)
    with serving(runs, place.site, env=surroundings) as client:
        yield Served(client, runs)


def test_nothing_is_given_without_the_token(served: Served):
    base = served.client.base_url
    for address in ("/", "/api/runs", "/api/openapi.json", f"{served.bench}/picks"):
        assert httpx.get(base.join(address)).status_code == 401
        wrong = {"Authorization": "Bearer another"}
        assert httpx.get(base.join(address), headers=wrong).status_code == 401


def test_the_address_with_the_token_opens_the_page(served: Served):
    with httpx.Client(base_url=served.client.base_url, follow_redirects=True) as browser:
        page = browser.get("/", params={"token": TOKEN})
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert TOKEN not in str(page.url)
        assert browser.get("/api/runs").status_code == 200, "a cookie carries it from now on"


def test_a_request_for_another_host_is_refused(served: Served):
    for host in ("evil.example", "evil.example:80"):
        assert served.client.get("/api/runs", headers={"Host": host}).status_code in (400, 421)
    assert served.client.get("/api/runs").status_code == 200


def test_a_request_from_another_site_changes_nothing(served: Served):
    body = {"start": 4.0, "end": 8.0, "verdict": "wrong", "author": "Eve"}
    before = served.get(f"{served.bench}/corrections")
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = served.client.post(f"{served.bench}/corrections", json=body, headers=headers)
        assert answer.status_code == 403
    assert served.get(f"{served.bench}/corrections") == before


def test_every_run_is_listed_with_its_totals(served: Served):
    runs = {Path(run["name"]).name: run for run in served.get("/api/runs")}
    assert set(runs) == {"site", "yard"}
    totals = runs["site"]["totals"]
    assert (totals["recordings"], totals["picks"], totals["answered"]) == (2, 6, 6)
    assert totals["duration"] == pytest.approx(64, abs=0.2)
    assert not runs["site"]["is_at_work"]


def test_a_run_tells_its_recordings_and_settings(served: Served):
    detail = served.get(served.run)
    assert detail["totals"]["picks"] == 6
    assert detail["plan"]["budget"] == "40%"
    assert detail["plan"]["window"] == 4.0
    rows = [flat(row) for row in served.get(f"{served.run}/recordings")["rows"]]
    assert [(row["name"], row["windows"], row["picks"]) for row in rows] == [
        ("bench.mp4", 10, 4),
        ("sink.mp4", 6, 2),
    ]
    (row,) = served.get(f"{served.run}/recordings", words="sink")["rows"]
    assert flat(row)["name"] == "sink.mp4"


def test_a_recording_has_a_timeline(served: Served):
    detail = served.get(served.bench)
    assert detail["name"] == "bench.mp4"
    assert (detail["window"], detail["windows"]) == (4.0, 10)
    timeline = served.get(f"{served.bench}/timeline", cells=10)
    assert (timeline["start"], round(timeline["end"])) == (0, 40)
    assert len(timeline["level"]) == len(timeline["score"]) == 10
    assert max(range(10), key=timeline["level"].__getitem__) in (1, 5), "where it drills"
    part = served.get(f"{served.bench}/timeline", start=0, end=8)
    assert 0 < len(part["picks"]) < len(timeline["picks"])


def test_the_picks_are_those_of_the_run(served: Served, place: Place):
    page = served.get(f"{served.bench}/picks")
    assert page["total"] == 4
    rows = earmark("export", place.run, "--to", "jsonl").lines
    rows = [row for row in rows if row["path"].endswith("bench.mp4")]
    for shown, row in zip(page["picks"], rows, strict=True):
        for name in ("window", "start", "end", "instant", "reason"):
            assert flat(shown)[name] == row[name]
        assert (shown["caption"], shown["status"]) == (row["caption"], "answered")
    assert served.get(f"{served.bench}/picks", words="drilling")["total"] == sum(
        row["caption"] == CAPTIONS["drill"] for row in rows
    )
    assert served.get(f"{served.bench}/picks", limit=1, offset=1)["picks"] == page["picks"][1:2]


def test_a_correction_is_seen_again_counted_and_withdrawn(served: Served):
    address = f"{served.bench}/corrections"
    body = {"start": 4.0, "end": 8.0, "verdict": "wrong", "author": "Ada", "text": "a saw"}
    posted = served.client.post(address, json=body)
    assert posted.status_code == 201
    (kept,) = served.get(address)
    assert kept == posted.json()
    assert (kept["verdict"], kept["author"], kept["text"]) == ("wrong", "Ada", "a saw")
    assert kept["span"] == {"start": 4.0, "end": 8.0}
    pick = served.get(f"{served.bench}/picks")["picks"][0]
    assert len(pick["verdicts"]) == 1
    assert served.get(served.run)["agreement"]["judged"] == 1
    exported = earmark("export", served.runs / "site", "--to", "corrections").lines
    assert [line["label"] for line in exported] == ["a saw"]
    withdrawn = served.client.delete(f"{served.run}/corrections/{kept['id']}")
    assert withdrawn.status_code == 204
    assert served.get(served.run)["agreement"]["judged"] == 0


def test_a_correction_that_makes_no_sense_is_refused(served: Served):
    before = served.get(f"{served.bench}/corrections")
    good = {"start": 4.0, "end": 8.0, "verdict": "right", "author": "Ada"}
    for change in ({"end": 1.0}, {"verdict": "perhaps"}, {"start": "early"}):
        answer = served.client.post(f"{served.bench}/corrections", json=good | change)
        assert answer.status_code == 422
    assert served.get(f"{served.bench}/corrections") == before


def test_a_recording_is_played_by_byte_ranges(served: Served, place: Place):
    _, _, _, run, _, recording = served.bench.split("/")
    address, content = f"/media/{run}/{recording}/0", place.bench.read_bytes()
    whole = served.client.get(address)
    assert (whole.status_code, whole.content == content) == (200, True)
    part = served.client.get(address, headers={"Range": "bytes=100-299"})
    assert (part.status_code, part.content) == (206, content[100:300])
    assert part.headers["content-range"] == f"bytes 100-299/{len(content)}"
    tail = served.client.get(address, headers={"Range": "bytes=-50"})
    assert (tail.status_code, tail.content) == (206, content[-50:])
    beyond = served.client.get(address, headers={"Range": f"bytes={len(content)}-"})
    assert beyond.status_code == 416
    head = served.client.head(address)
    assert (head.status_code, head.headers["content-length"]) == (200, str(len(content)))
    assert served.client.get(f"/media/{run}/{recording}/1").status_code == 404


def test_pictures_and_clips_of_a_pick_are_sent(served: Served):
    span = {"start": 4.0, "end": 8.0}
    picture = served.client.get(f"{served.bench}/picture", params=span)
    with Image.open(io.BytesIO(picture.content)) as image:
        assert image.format == "JPEG"
    clip = served.client.get(f"{served.bench}/clip", params=span)
    assert clip.headers["content-type"] == "video/mp4"
    with av.open(io.BytesIO(clip.content)) as container:
        assert 3.5 <= container.duration / 1e6 <= 6.0


def test_a_run_is_searched(served: Served):
    hits = served.get(f"{served.run}/search", words="drilling")
    assert {hit["name"] for hit in hits} == {"bench.mp4"}
    reasons = [reason for hit in hits for reason in hit["reasons"] if reason["kind"] == "caption"]
    assert {reason["text"] for reason in reasons} == {CAPTIONS["drill"]}
    assert served.get(f"{served.run}/search", words="zebra") == []


def test_a_run_is_exported(served: Served):
    answer = served.client.get(f"{served.run}/export", params={"format": "csv"})
    assert "attachment" in answer.headers["content-disposition"]
    assert len(list(csv.DictReader(io.StringIO(answer.text)))) == 6
    refused = served.client.get(f"{served.run}/export", params={"format": "wordperfect"})
    assert refused.status_code == 422


def test_the_interface_describes_itself(served: Served):
    document = served.get("/api/openapi.json")
    assert document["openapi"].startswith("3.")
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(document)
    for path in (
        "/api/runs",
        "/api/runs/{run}",
        "/api/runs/{run}/recordings/{recording}/picks",
        "/api/runs/{run}/recordings/{recording}/corrections",
        "/api/runs/{run}/search",
        "/api/jobs/{job}",
    ):
        assert path in document["paths"]


def test_what_is_not_there_is_not_found(served: Served):
    for address in (
        "/api/runs/nothing",
        "/api/runs/nothing/questions?question=what",
        f"{served.run}/recordings/nothing",
        "/api/jobs/nothing",
        "/static/..%2F..%2Fetc%2Fpasswd",
        "/media/../../etc/passwd",
    ):
        assert served.client.get(address).status_code == 404


def test_without_a_model_no_call_can_be_made(served: Served):
    session = served.get("/api/session")
    assert not session["model"]
    answer = served.client.post(f"{served.bench}/ask", json={"time": 1.0})
    assert answer.status_code in (409, 422, 502)
    assert answer.json()["detail"]


@dataclass(frozen=True)
class Working:
    """A server that may call a model, and that model."""

    client: httpx.Client
    model: ColourModel
    folder: Path

    @property
    def wish(self) -> dict[str, Any]:
        (source,) = self.client.get("/api/sources").json()
        return {"sources": [source["id"]], "budget": "40%"}

    def ended(self, job: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            state = self.client.get(f"/api/jobs/{job}").json()
            return state if state["state"] != "at work" else None

        return dict(wait_for(look))


@pytest.fixture(scope="module")
def working(
    place: Place, surroundings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Working]:
    folder = tmp_path_factory.mktemp("working")
    shutil.copy(place.bench, folder / "bench.mp4")
    with (
        colour_model() as model,
        serving(folder, "--model", model.address, "--concurrency", "2", env=surroundings) as client,
    ):
        yield Working(client, model, folder)


def test_a_run_is_forecast_and_started(working: Working):
    forecast = working.client.post("/api/forecasts", json=working.wish)
    assert forecast.status_code == 202
    planned = working.ended(forecast.json()["id"])
    assert (planned["state"], planned["result"]["windows"]) == ("done", 10)
    started = working.client.post("/api/runs", json=working.wish | {"name": "started"})
    assert started.status_code in (201, 202)
    done = working.ended(started.json()["id"])
    assert (done["state"], done["failure"]) == ("done", "")
    totals = working.client.get(f"/api/runs/{done['run']}").json()["totals"]
    assert (totals["picks"], totals["answered"]) == (4, 4)
    rows = earmark("export", working.folder / "runs" / "started", "--to", "jsonl").lines
    assert CAPTIONS["drill"] in {row["caption"] for row in rows}


def test_a_job_is_stopped_and_continued(working: Working):
    working.model.gate.clear()
    before = len(working.model.requests)
    wish = working.wish | {"name": "stopped", "budget": "100%"}
    started = working.client.post("/api/runs", json=wish).json()
    wait_for(lambda: len(working.model.requests) > before)
    run = wait_for(lambda: working.client.get(f"/api/jobs/{started['id']}").json()["run"])
    assert working.client.get(f"/api/runs/{run}").json()["is_at_work"]
    assert working.client.post(f"/api/runs/{run}/stop").status_code in (200, 202, 204)
    time.sleep(0.5)  # the interrupt arrives while two answers are awaited
    working.model.gate.set()
    assert working.ended(started["id"])["state"] == "stopped"
    totals = working.client.get(f"/api/runs/{run}").json()["totals"]
    assert totals["answered"] < 10
    continued = working.client.post(f"/api/runs/{run}/continue", json={"budget": "100%"}).json()
    assert working.ended(continued["id"])["state"] == "done"
    totals = working.client.get(f"/api/runs/{run}").json()["totals"]
    assert totals["answered"] == 10
    assert len(working.model.requests) - before == 10, "no window was asked twice"


def test_the_progress_of_a_run_is_streamed(working: Working):
    started = working.client.post("/api/runs", json=working.wish | {"name": "followed"}).json()
    run = working.ended(started["id"])["run"]
    with working.client.stream("GET", f"/api/runs/{run}/events") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        line = next(line for line in events.iter_lines() if line.startswith("data:"))
    assert json.loads(line.removeprefix("data:"))["totals"]["answered"] == 4


def test_a_window_is_asked_by_hand(working: Working):
    started = working.client.post("/api/runs", json=working.wish | {"name": "by-hand"}).json()
    run = working.ended(started["id"])["run"]
    (row,) = working.client.get(f"/api/runs/{run}/recordings").json()["rows"]
    recording = f"/api/runs/{run}/recordings/{flat(row)['id']}"
    picks = working.client.get(f"{recording}/picks").json()["picks"]
    free = min(set(range(10)) - {flat(pick)["window"] for pick in picks})
    before = len(working.model.requests)
    for _ in range(2):
        answer = working.client.post(f"{recording}/ask", json={"time": 4.0 * free + 1})
        assert answer.status_code == 200, answer.text
    (new,) = (pick for pick in answer.json()["picks"] if flat(pick)["window"] == free)
    assert new["status"] == "answered"
    assert len(working.model.requests) - before == 1, "a stored answer is not asked for again"


def test_a_port_that_is_taken_is_an_error_of_one_line(served: Served, tmp_path: Path):
    port = served.client.base_url.port
    command = fresh_command("serve", tmp_path, "--port", port)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert str(port) in done.stderr
    assert "Traceback" not in done.stderr
