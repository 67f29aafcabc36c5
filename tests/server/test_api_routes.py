"""The REST interface of a real server: what it gives, and to whom it gives nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")

from archive_runs import tell_archive
from earmark.evaluation.annotations.readers import read_annotations
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import RecordingRow
from earmark.timeline import Span
from report_runs import HOSTILE, tell_scene
from served import TOKEN, run_named, serving

SECRET = "a secret outside the folders"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A scene with a video, an archive without, and a run that names files it should not."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "bench").mkdir()
    tell_scene(folder / "bench", duration=60.0, share=0.6)
    with Ledger.open(folder / "bench" / "run", {"model": "tiny-vl", "budget": "35%"}) as ledger:
        said = EvidenceEntry(Span(3.0, 5.5), "said", "pass me the <b>hammer</b>", 0.8, "whisper")
        ledger.keep_evidence("one", [said], kinds=["said"])
    tell_archive(folder / "archive", recordings=120)
    outside = tmp_path_factory.mktemp("outside")
    (outside / "notes.txt").write_text(SECRET)
    tell_archive(outside / "other", recordings=1)
    (folder / "link").symlink_to(outside / "other")
    with Ledger.open(folder / "hostile", {"model": "m"}) as ledger:
        for name, path in (("a", outside / "notes.txt"), ("b", "/etc/passwd")):
            ledger.add(RecordingRow(name, str(path), 10.0, 100))
    with serving(folder) as client:
        yield SimpleNamespace(
            client=client,
            folder=folder,
            outside=outside,
            scene=f"/api/runs/{run_named(client, 'bench/run')}",
            archive=f"/api/runs/{run_named(client, 'archive')}",
            hostile=run_named(client, "hostile"),
        )


def test_every_run_below_the_folder_is_listed_and_no_link_leads_out(served: SimpleNamespace):
    found = served.client.get("/api/runs").json()
    assert [run["name"] for run in found] == ["archive", "bench/run", "hostile"]
    assert found[0]["totals"]["recordings"] == 119
    assert not found[0]["is_at_work"]


def test_an_archive_comes_in_windows_of_rows_sorted_and_filtered(served: SimpleNamespace):
    def rows(**query: object) -> list[dict]:
        page = served.client.get(f"{served.archive}/recordings", params=query).json()
        assert page["total"] == 119
        return [one["row"] for one in page["rows"]]

    names = [row["name"] for row in rows(limit=5, offset=10)]
    assert names == [f"shift-{number:04d}.mp4" for number in range(10, 15)]
    busiest = [row["activity"] for row in rows(limit=500, sort="activity", falls=True)]
    assert busiest == sorted(busiest, reverse=True)
    assert all(row["failed"] for row in rows(only="failed"))
    assert [row["name"] for row in rows(words="shift-0042")] == ["shift-0042.mp4"]
    said = served.client.get(f"{served.archive}/recordings", params={"words": "works at 7"}).json()
    assert 0 < said["found"] < 119
    strip = said["rows"][0]
    assert len(strip["marks"]) == 120
    assert "a" in strip["marks"]
    refused = served.client.get(f"{served.archive}/recordings", params={"sort": "secret"})
    assert (refused.status_code, "sort by one of" in refused.json()["detail"]) == (422, True)


def test_a_stretch_of_a_recording_has_its_lanes(served: SimpleNamespace):
    place = f"{served.scene}/recordings/one"
    whole = served.client.get(f"{place}/timeline", params={"cells": 200}).json()
    assert (whole["start"], whole["end"]) == (0, 60)
    assert (len(whole["level"]), len(whole["score"])) == (200, 200)
    near = served.client.get(f"{place}/timeline", params={"start": 2, "end": 6}).json()
    assert [entry["text"] for entry in near["speech"]] == ["pass me the <b>hammer</b>"]
    assert len(near["picks"]) < len(whole["picks"])
    picks = served.client.get(f"{place}/picks").json()
    assert picks["total"] == len(whole["picks"])
    assert HOSTILE in [pick["caption"] for pick in picks["picks"]]
    found = served.client.get(f"{place}/picks", params={"words": "water"}).json()
    assert 0 < found["total"] < picks["total"]
    pick = picks["picks"][0]["pick"]
    span = {"start": pick["start"], "end": pick["end"]}
    assert served.client.get(f"{place}/picture", params=span).content[:2] == b"\xff\xd8"
    hits = served.client.get(f"{served.scene}/search", params={"words": "water"}).json()
    assert {hit["recording"] for hit in hits} == {"one"}


def test_what_people_say_is_kept_counted_exported_and_taken_back(
    served: SimpleNamespace, tmp_path: Path
):
    place, send = f"{served.scene}/recordings/one/corrections", served.client.post
    picks = served.client.get(f"{served.scene}/recordings/one/picks").json()["picks"]
    answered = [pick["pick"] for pick in picks if pick["caption"] is not None]
    for author, pick, verdict in (("Ada", 0, "right"), ("Bo", 1, "wrong")):
        span = {name: answered[pick][name] for name in ("start", "end")}
        kept = send(place, json={**span, "verdict": verdict, "author": author})
        assert (kept.status_code, kept.json()["author"]) == (201, author)
    missed = {"start": 50.0, "end": 52.0, "verdict": "missed", "author": "Ada", "text": "a door"}
    last = send(place, json=missed).json()
    agreement = served.client.get(served.scene).json()["agreement"]
    assert (agreement["right"], agreement["judged"], agreement["missed"]) == (1, 2, 1)
    assert 0 < agreement["low"] < 0.5 < agreement["high"] < 1
    exported = served.client.get(f"{served.scene}/export", params={"format": "corrections"})
    (tmp_path / "said.jsonl").write_bytes(exported.content)
    (actions,) = read_annotations(tmp_path / "said.jsonl").recordings.values()
    assert "a door" in [action.label for action in actions]
    gone = served.client.delete(f"{served.scene}/corrections/{last['id']}")
    assert gone.status_code == 204
    assert served.client.get(served.scene).json()["agreement"]["missed"] == 0
    refused = send(place, json={**missed, "verdict": "right"})
    assert (refused.status_code, "no answer" in refused.json()["detail"]) == (422, True)


def test_the_video_comes_by_ranges_from_the_original_file(served: SimpleNamespace):
    original = (served.folder / "bench" / "bench cam #1.mp4").read_bytes()
    place = f"{served.scene.replace('/api/runs', '/media')}/one/0"

    def part(wanted: str) -> httpx.Response:
        return served.client.get(place, headers={"Range": wanted})

    assert served.client.get(place).content == original
    some = part("bytes=100-299")
    assert (some.status_code, some.content) == (206, original[100:300])
    assert some.headers["content-range"] == f"bytes 100-299/{len(original)}"
    assert part("bytes=-50").content == original[-50:]
    assert part(f"bytes={len(original)}-").status_code == 416
    head = served.client.head(place)
    assert (head.headers["content-length"], head.content) == (str(len(original)), b"")
    assert head.headers["content-type"] == "video/mp4"


@pytest.mark.parametrize(
    "path",
    [
        "/media/{hostile}/a/0",
        "/media/{hostile}/b/0",
        "/media/{hostile}/%2e%2e%2f%2e%2e%2fetc%2fpasswd/0",
        "/media/{hostile}/../../../../etc/passwd",
        "/static/..%2f..%2fpyproject.toml",
        "/static/service.py",
        "/run/../../../../etc/passwd",
        "/api/runs/..%2f..%2fother",
        "/api/runs/{hostile}/recordings/..%2f..%2fetc%2fpasswd",
        "/media/{hostile}/a/-1",
        "/media/{hostile}/a/99",
    ],
)
def test_no_path_escapes(served: SimpleNamespace, path: str):
    found = served.client.get(path.format(hostile=served.hostile))
    assert "root:" not in found.text
    assert SECRET not in found.text
    assert found.status_code in (404, 422) or found.text.startswith("<!doctype html>")


def paths_of(schema: dict) -> Iterator[tuple[str, str]]:
    for path, methods in schema["paths"].items():
        for method in methods:
            yield method.upper(), path.format(run="x", recording="y", correction=1, job="z")


def test_no_request_without_the_token_reaches_data(served: SimpleNamespace):
    base = str(served.client.base_url)
    schema = served.client.get("/api/openapi.json").json()
    asked = [*paths_of(schema), ("GET", "/"), ("GET", "/static/app.js"), ("GET", "/media/x/y/0")]
    assert len(asked) > 20
    for method, path in [*asked, ("GET", "/api/openapi.json"), ("GET", "/api/nothing")]:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            answer = httpx.request(method, f"{base}{path}", headers=headers)
            assert answer.status_code in (401, 429), (method, path)
            assert answer.json().keys() == {"detail"}
    assert served.client.get("/api/runs").status_code == 200, "who has the token is let in"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
    ],
    ids=lambda headers: " ".join(headers.values()),
)
def test_what_another_site_makes_a_browser_send_is_refused(
    served: SimpleNamespace, headers: dict[str, str]
):
    for method in ("GET", "POST"):
        answer = served.client.request(method, "/api/runs", headers=headers)
        assert answer.status_code in (403, 421)


def test_progress_comes_as_events(served: SimpleNamespace):
    with served.client.stream("GET", f"{served.scene}/events") as events:
        lines = events.iter_lines()
        assert next(lines) == "event: progress"
        told = json.loads(next(lines).removeprefix("data: "))
    assert told["totals"]["picks"] == 9
    assert (told["is_at_work"], told["job"]) == (False, None)


def check_cookie(base: str) -> None:
    with httpx.Client(base_url=base) as browser:
        first = browser.get("/", params={"token": TOKEN})
        cookie = first.headers["set-cookie"]
        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        page = browser.get("/")
        assert page.text.startswith("<!doctype html>")
        assert TOKEN not in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_the_token_in_the_address_becomes_a_cookie_and_who_asks_too_much_waits(tmp_path: Path):
    tell_archive(tmp_path / "run", recordings=1)
    with serving(tmp_path, options=("--rate", "5")) as client:
        check_cookie(str(client.base_url))
        codes = [client.get("/api/session").status_code for _ in range(30)]
    assert codes[0] == 200
    assert 429 in codes
