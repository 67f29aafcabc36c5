"""The REST interface of a real server: what it gives, and to whom it gives nothing."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import av
import httpx
import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")

from starlette.types import ASGIApp

from archive_runs import tell_archive
from drawing import windows
from earmark.pipeline.session import open_session
from earmark.run.run import Run
from earmark.server import web_server
from earmark.server.access_control import TokenBucket
from earmark.server.application import make_app
from earmark.server.run_library import RunLibrary, ServedRun, Service
from earmark.server.run_views import describe, read_rows
from earmark_lab.annotations.readers import read_annotations
from report_runs import HOSTILE
from served import SECRET, TOKEN, run_named, serving
from small_runs import open_run, row


@pytest.fixture(scope="module")
def served(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The runs, and a link to one that lies outside."""
    outside = tmp_path_factory.mktemp("outside")
    tell_archive(outside / "other", recordings=1)
    (runs / "link").symlink_to(outside / "other")
    with serving(runs) as client:
        yield SimpleNamespace(
            client=client,
            folder=runs,
            scene=f"/api/runs/{run_named(client, 'bench/run')}",
            archive=f"/api/runs/{run_named(client, 'archive')}",
            hostile=run_named(client, "hostile"),
        )


def test_every_run_below_the_folder_is_listed_and_no_link_leads_out(served: SimpleNamespace):
    found = served.client.get("/api/runs").json()
    assert [run["name"] for run in found] == ["archive", "bench/run", "hostile", "real"]
    assert found[0]["totals"]["recordings"] == 119
    assert not found[0]["is_at_work"]
    assert found[0]["told"].startswith("Heard Hammer; Water tap · Seen first, at 0:04: ")


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


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({"sound": "hammer"}, ["shift-0003.mp4", "shift-0004.mp4"]),
        ({"sound": "hammer", "words": "0004"}, ["shift-0004.mp4"]),
        ({"sound": "works"}, []),
        ({"since": "2026-05-28"}, ["shift-0027.mp4", "shift-0055.mp4", "shift-0083.mp4",
                                   "shift-0111.mp4"]),
        ({"since": "2026-05-03", "until": "2026-05-04", "words": "cam-02"}, ["shift-0002.mp4"]),
        ({"only": "speech"}, []),
        ({"sort": "sounds", "falls": True, "limit": 2}, ["shift-0003.mp4", "shift-0004.mp4"]),
    ],
    ids=str,
)  # fmt: skip
def test_an_archive_is_filtered_by_sound_date_and_words(
    served: SimpleNamespace, query: dict, names: list[str]
):
    page = served.client.get(f"{served.archive}/recordings", params=query).json()
    assert [one["row"]["name"] for one in page["rows"]] == names


def test_of_a_recording_that_nothing_was_heard_of_no_actions_are_told(tmp_path: Path):
    with open_run(tmp_path) as ledger, Run(tmp_path) as run:
        (heard,) = read_rows(run)
        ledger.choose("a", run.picks("a"), rule="strata")
        (unheard,) = read_rows(run)
    assert heard["activity"] and heard["doubt"] is not None
    assert (unheard["activity"], unheard["doubt"], unheard["picks"]) == (None, None, 2)


@pytest.mark.parametrize("name", ["activity", "doubt", "score"])
def test_an_archive_is_filtered_by_how_much_there_is(served: SimpleNamespace, name: str):
    def values(**query: object) -> list[float]:
        page = served.client.get(f"{served.archive}/recordings", params={"limit": 500, **query})
        return [one["row"][name] or 0.0 for one in page.json()["rows"]]

    every = sorted(values())
    middle = every[len(every) // 2]
    assert sorted(values(**{name: middle})) == [each for each in every if each >= middle]
    assert served.client.get(
        f"{served.archive}/recordings", params={"since": "May"}
    ).status_code == 422  # fmt: skip


def test_the_page_begins_with_recordings_that_have_something(served: SimpleNamespace):
    query = {"sort": "found", "limit": 500}
    page = served.client.get(f"{served.archive}/recordings", params=query).json()
    found = [one["row"]["answered"] > 0 for one in page["rows"]]
    assert found == sorted(found, reverse=True)
    assert {True, False} == set(found), "there are some of both"


def test_sounds_to_choose_from_are_named_with_their_recordings(served: SimpleNamespace):
    sounds = served.client.get(f"{served.archive}/sounds").json()
    assert sounds == [{"name": "Hammer", "recordings": 2}, {"name": "Water tap", "recordings": 1}]


def test_strips_of_a_page_are_those_of_each_recording(served: SimpleNamespace):
    """Drawn together; against a loop over the picks of each, by the letter."""
    page = served.client.get(f"{served.archive}/recordings", params={"limit": 30}).json()
    letters = {"answered": "a", "failed": "f"}
    for strip in page["rows"]:
        row, marks = strip["row"], ["."] * 120
        picks = served.client.get(f"{served.archive}/recordings/{row['id']}/picks").json()
        for pick in picks["picks"]:
            for cell in range(120):
                begin, end = (row["duration"] * edge / 120 for edge in (cell, cell + 1))
                if pick["start"] < end - 1e-6 and begin + 1e-6 < pick["end"]:
                    marks[cell] = max(
                        marks[cell], letters.get(pick["status"], "p"), key=".paf".index
                    )
        assert strip["marks"] == "".join(marks), row["name"]


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
    assert any("said “pass me the <b>hammer</b>”" in pick["evidence"] for pick in picks["picks"])
    found = served.client.get(f"{place}/picks", params={"words": "water"}).json()
    assert 0 < found["total"] < picks["total"]
    for words in ("hammers", "passing hammer"):  # said, and stemmed as search does
        found = served.client.get(f"{place}/picks", params={"words": words}).json()
        assert 0 < found["total"] < picks["total"]
    pick = picks["picks"][0]
    span = {"start": pick["start"], "end": pick["end"]}
    assert served.client.get(f"{place}/picture", params=span).content[:2] == b"\xff\xd8"
    hits = served.client.get(f"{served.scene}/search", params={"words": "water"}).json()
    assert {hit["recording"] for hit in hits} == {"one"}
    day = served.client.get(f"{served.scene}/day").json()
    assert day["recordings"][0]["speech"] == [
        [near["speech"][0]["start"], near["speech"][0]["end"]]
    ]
    assert str(served.client.get("/api/search", params={"words": "water"}).json()).count("one")


@pytest.mark.parametrize(
    ("name", "file"), [("csv", "run.csv"), ("labelstudio", "run.json"), ("edl", "run.edl")]
)
def test_a_file_to_keep_ends_as_its_format_does(served, name, file):
    exported = served.client.get(f"{served.scene}/export", params={"format": name})
    assert exported.headers["content-disposition"] == f'attachment; filename="{file}"'


def test_what_people_say_is_kept_counted_exported_and_taken_back(
    served: SimpleNamespace, tmp_path: Path
):
    place, send = f"{served.scene}/recordings/one/corrections", served.client.post
    picks = served.client.get(f"{served.scene}/recordings/one/picks").json()["picks"]
    answered = [pick for pick in picks if pick["caption"] is not None]
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


def test_what_is_odd_about_a_recording_is_said_once(tmp_path: Path):
    served = ServedRun("key", tmp_path, "run", RunLibrary([tmp_path]))
    with open_run(tmp_path) as ledger:
        ledger.add(row("b"))
        ledger.hear("b", windows("1.1."), key="k", warnings=("cut off",))
        with Run(ledger.folder) as run:
            before = describe(run, "b", served)
        ledger.choose("b", [], notes=("no call is made", "cut off"))
        with Run(ledger.folder) as run:
            after = describe(run, "b", served)
    assert (before["warnings"], before["choice"]["notes"]) == (["cut off"], ())
    assert (after["warnings"], after["choice"]["notes"]) == ([], ("no call is made", "cut off"))


def test_a_clip_is_cut_from_the_original_file(served: SimpleNamespace, tmp_path: Path):
    real = f"/api/runs/{run_named(served.client, 'real')}/recordings"
    (strip,) = served.client.get(real).json()["rows"]
    place = f"{real}/{strip['row']['id']}/clip"
    clip = served.client.get(place, params={"start": 20.5, "end": 26.0})
    assert clip.headers["content-type"] == "video/mp4"
    assert clip.headers["content-disposition"] == 'attachment; filename="bench-cam-1-20s.mp4"'
    (tmp_path / "clip.mp4").write_bytes(clip.content)
    with av.open(str(tmp_path / "clip.mp4")) as video:
        assert {stream.type for stream in video.streams} == {"video", "audio"}
        assert 5.5 <= video.duration / 1e6 <= 8.0, "from the key frame before"
    for span in ({"start": 50, "end": 40}, {"start": 59, "end": 600}, {"start": 90, "end": 91}):
        assert served.client.get(place, params=span).status_code in (404, 422)
    changed = served.client.get(f"{served.scene}/recordings/one/clip?start=1&end=2")
    assert (changed.status_code, "has changed since" in changed.text) == (502, True)
    hostile = f"/api/runs/{served.hostile}/recordings/b/clip"
    assert served.client.get(hostile, params={"start": 0, "end": 5}).status_code == 404


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


def test_the_token_in_the_address_becomes_a_cookie(served: SimpleNamespace):
    """Before the wrong tokens below: after them an address is let in once in three seconds."""
    with httpx.Client(base_url=served.client.base_url, timeout=60) as browser:
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


def paths_of(schema: dict) -> Iterator[tuple[str, str]]:
    for path, methods in schema["paths"].items():
        for method in methods:
            yield method.upper(), path.format(run="x", recording="y", correction=1, job="z")


def test_no_request_without_the_token_reaches_data(served: SimpleNamespace):
    base = str(served.client.base_url)
    schema = served.client.get("/api/openapi.json").json()
    asked = [*paths_of(schema), ("GET", "/"), ("GET", "/static/app.js"), ("GET", "/media/x/y/0")]
    assert len(asked) > 20
    with httpx.Client(base_url=base, timeout=60) as stranger:
        for method, path in [*asked, ("GET", "/api/openapi.json"), ("GET", "/api/nothing")]:
            for headers in ({}, {"Authorization": "Bearer wrong"}):
                answer = stranger.request(method, path, headers=headers)
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
        {"Host": "localhost:80/x", "Sec-Fetch-Site": "cross-site", "Accept": "text/html"},
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


def asked(app: ASGIApp, *requests: tuple[str, str], token: str = TOKEN, **more: Any) -> list[Any]:
    """What `app` answers to requests of one client, one after the other."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def ask() -> list[Any]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers
        ) as client:
            return [await client.request(*one, **more) for one in requests]

    return asyncio.run(ask())


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    library = RunLibrary([tmp_path])
    yield Service(library, open_session([tmp_path], rule="uniform"))


def test_the_document_names_the_fields_of_every_answer(service: Service):
    (answer,) = asked(make_app(service, token=TOKEN), ("GET", "/api/openapi.json"))
    for path, operations in answer.json()["paths"].items():
        for operation in operations.values():
            for status, told in operation["responses"].items():
                schema = told.get("content", {}).get("application/json", {}).get("schema", {})
                item = schema.get("items", schema)
                assert not item or "$ref" in item, (path, status, item)


def test_a_run_that_cannot_be_read_is_listed_like_the_others(service: Service, tmp_path: Path):
    open_run(tmp_path / "good").close()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.db").write_bytes(b"no database" * 99)
    (answer,) = asked(make_app(service, token=TOKEN), ("GET", "/api/runs"))
    bad, good = answer.json()
    assert bad["failure"] and not good["failure"]
    assert bad.keys() == good.keys() and bad["totals"].keys() == good["totals"].keys()


def test_who_asks_too_much_waits(service: Service):
    answers = asked(make_app(service, token=TOKEN, rate=5), *[("GET", "/api/session")] * 200)
    codes = [answer.status_code for answer in answers]
    assert codes[0] == 200
    assert 429 in codes


def test_wrong_tokens_do_not_lock_out_the_right_one(service: Service):
    app = make_app(service, token=TOKEN)
    codes = [one.status_code for one in asked(app, *[("GET", "/?token=wrong")] * 30, token="")]
    assert (codes[0], codes[-1]) == (401, 429)
    (answer,) = asked(app, ("GET", f"/?token={TOKEN}"), token="")
    assert answer.status_code == 303


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:18902, evil.com", 421),
        ("localhost:18902@evil.com", 421),
        ("evil.com", 421),
        ("localhost:x", 421),
        ("localhost:18902", 200),
        ("[::1]:18902", 200),
        ("127.0.0.1", 200),
    ],
)
def test_a_host_is_a_name_and_a_port(service: Service, host: str, code: int):
    headers = {"Host": host, "Authorization": f"Bearer {TOKEN}"}
    app = make_app(service, token=TOKEN)
    (answer,) = asked(app, ("GET", "/api/session"), token="", headers=headers)
    assert answer.status_code == code


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_large_body_is_refused(service: Service, is_chunked: bool):
    async def chunks():
        for _ in range(50):
            yield b" " * 1_000_000

    content = chunks() if is_chunked else b" " * 50_000_000
    app = make_app(service, token=TOKEN)
    (answer,) = asked(app, ("POST", "/api/runs"), content=content)
    assert (answer.status_code, "more than 4 MB" in answer.text) == (413, True)


def test_wrong_tokens_of_many_addresses_fill_no_memory(service: Service):
    control = make_app(service, token=TOKEN)
    control.guesses |= {
        f"10.0.{number // 250}.{number % 250}": TokenBucket(1) for number in range(10_001)
    }
    assert asked(control, ("GET", "/api/session"), token="wrong")[0].status_code == 401
    assert len(control.guesses) < 10_000


@pytest.mark.parametrize("token", ["a+b", "a&b=c#d", "50%", "with; semicolon", "grüße"])
def test_any_token_opens_the_page_from_the_printed_address(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
):
    app, printed = make_app(service, token=token), []
    monkeypatch.setattr(web_server, "serve_app", lambda _app, listening: listening.close())
    options = web_server.ServeOptions(port=0, token=token)
    web_server.serve_folders([tmp_path], service.plan, options, on_start=printed.append)
    path = f"/?{urlsplit(printed[0]).query}"
    first, page = asked(app, ("GET", path), ("GET", "/"), token="")
    assert (first.status_code, page.status_code) == (303, 200)


def test_a_folder_that_cannot_be_written_is_the_reason(service: Service, tmp_path: Path):
    (tmp_path / "runs").write_text("no folder")
    (tmp_path / "a.wav").write_bytes(b"")
    (source,) = service.sources
    (answer,) = asked(
        make_app(service, token=TOKEN), ("POST", "/api/runs"), json={"sources": [source]}
    )
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "cannot continue: Not a directory",
    )


def test_a_recording_that_came_since_can_be_chosen(service: Service, tmp_path: Path):
    app = make_app(service, token=TOKEN)
    for name in ("a.wav", "b.wav"):
        (tmp_path / name).write_bytes(b"")
        (answer,) = asked(app, ("GET", "/api/sources"))
    assert {Path(one["name"]).name for one in answer.json()} == {"a.wav", "b.wav"}
    assert {one["id"] for one in answer.json()} == service.sources.keys()


def test_a_connection_that_never_asks_is_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(web_server, "REQUEST_SECONDS", 0.2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"

    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=web_server.serve_app, args=(app, listening), daemon=True).start()
    with socket.create_connection(listening.getsockname()) as half:
        half.sendall(b"GET / HTTP/1.1\r\nHost:")
        half.settimeout(300)
        assert half.recv(10) == b""
