"""A run from somebody else is data: no command, route or tool obeys it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")

from annotation_server import MODEL, annotation_server
from earmark import Span
from earmark.errors import RunError
from earmark.report.export_formats import EXPORTERS
from earmark.run.run import Run
from earmark.server.run_jobs import key_of
from foreign_runs import make_foreign_run, stranger, touched, witness
from making import make_video
from served import TOKEN, run_named
from server_process import server_process

PRIVATE = b"a private text that nobody may read"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A served folder with a recording and a foreign run; files outside; two servers."""
    served, outside = tmp_path / "served", tmp_path / "outside"
    served.mkdir()
    outside.mkdir()
    make_video(served / "bench.mp4", duration=20.0)
    make_video(outside / "private.mp4", duration=20.0)
    for name in ("secret.txt", "precious.mp4", "private-2.mp4", "theirs.gate"):
        (outside / name).write_bytes(PRIVATE)
    with stranger() as them, annotation_server([Span(0, 40)]) as model:
        recordings = make_foreign_run(served / "run", outside, them.port)
        yield SimpleNamespace(
            served=served,
            outside=outside,
            them=them,
            model=model,
            recordings=recordings,
            log=tmp_path / "witness",
            env=witness(tmp_path / "witness"),
        )


def check_nothing_left(place: SimpleNamespace, *, is_opened: bool = False) -> None:
    """With `is_opened`, files outside may have been opened, by the user who named the run."""
    files, ports = touched(place.log)
    assert place.them.connections == []
    assert place.them.port not in ports
    kept = {path.name: path.read_bytes() for path in place.outside.iterdir() if path.is_file()}
    video = kept.pop("private.mp4")
    assert video, "it is still there"
    assert set(kept.values()) == {PRIVATE} and len(kept) == 4
    assert [path for path in place.outside.iterdir() if path.is_dir()] == []
    if not is_opened:
        assert [path for path in files if path.is_relative_to(place.outside)] == []
    assert (place.served / "bench.mp4") in files or not is_opened


@pytest.fixture
def client(place: SimpleNamespace) -> Iterator[httpx.Client]:
    words = ["serve", str(place.served), "--port", "0", "--token", TOKEN, "--no-cache"]
    words += ["--model", f"{place.model.url}#{MODEL}", "--frontline", "energy", "--no-sounds"]
    command = ["env", f"PYTHONPATH={place.env['PYTHONPATH']}", "OPENAI_API_KEY=sk-own-key-12345"]
    with server_process([*command, sys.executable, "-m", "earmark", *words]) as address:
        base, headers = f"http://{urlsplit(address).netloc}", {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=base, headers=headers, timeout=600) as client:
            yield client


def test_no_route_obeys_a_foreign_run(place: SimpleNamespace, client: httpx.Client):
    run = run_named(client, "run")
    top, span = f"/api/runs/{run}", {"start": 0, "end": 4}
    for page in ("", "/recordings", "/sounds"):
        assert client.get(f"{top}{page}").status_code == 200, page
    assert client.get(f"{top}/search", params={"words": "evil"}).status_code == 200
    for name, exporter in EXPORTERS.items():
        answer = client.get(f"{top}/export", params={"format": name})
        assert (answer.status_code == 200) != exporter.is_per_recording, name
    for key in place.recordings:
        where = f"{top}/recordings/{key}"
        assert client.get(where).status_code == 200
        assert all(part["why_not"] for part in client.get(where).json()["parts"][-1:])
        for page in ("timeline", "picks", "corrections"):
            assert client.get(f"{where}/{page}").status_code == 200
        assert client.get(f"{where}/picture", params=span).status_code == 200
        assert client.get(f"{where}/clip", params=span).status_code == 404
        last = len(client.get(where).json()["parts"]) - 1
        assert client.get(f"/media/{run}/{key}/{last}").status_code == 404
        assert client.get(f"{where}/quote", params={"time": 1.0}).status_code == 409
        assert client.post(f"{where}/ask", json={"time": 1.0}).status_code == 409
        correction = {"start": 0, "end": 4, "verdict": "missed", "author": "a", "text": "b"}
        assert client.post(f"{where}/corrections", json=correction).status_code == 201
    assert client.post(f"{top}/continue").status_code == 422, "the budget is the client's"
    answer = client.post(f"{top}/continue", json={"budget": "100%"})
    assert (answer.status_code, "not in the served folders" in answer.text) == (409, True)
    hostile = [{"uris": [str(place.outside / "private.mp4")]}]
    (place.served / "run" / "sources.json").write_text(json.dumps(hostile))
    answer = client.post(f"{top}/continue", json={"budget": "100%"})
    assert (answer.status_code, "not in the served folders" in answer.text) == (409, True)
    bench = [{"uris": [str(place.served / "bench.mp4")]}]
    (place.served / "run" / "sources.json").write_text(json.dumps(bench))
    answer = client.post(f"{top}/continue", json={"budget": "100%"})
    assert (answer.status_code, "frontline is" in answer.text) == (409, True)
    assert place.model.asked() == []
    check_nothing_left(place)


def test_no_tool_obeys_a_foreign_run(place: SimpleNamespace):
    pytest.importorskip("mcp", reason="earmark[mcp] is not installed")
    run = key_of(place.served / "run")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_runs", {}),
        ("list_recordings", {}),
        ("list_recordings", {"run": run}),
        ("search", {"words": "evil", "run": run}),
        ("ask", {"run": run, "question": "what was said?", "calls": 2}),
        ("caption", {"recordings": ["link.mp4"]}),
    ]
    for key in place.recordings:
        where = {"run": run, "recording": key}
        calls += [("look", {**where, "time": 1.0}), ("sounds", where), ("transcript", where)]
    script = (
        "import asyncio, json, sys\n"
        "from mcp import Client, StdioServerParameters\n"
        "words, calls, env = json.load(sys.stdin)\n"
        "async def talk():\n"
        "    server = StdioServerParameters(command=sys.executable, args=words, env=env)\n"
        "    async with Client(server) as client:\n"
        "        return [(await client.call_tool(*call)).is_error for call in calls]\n"
        "print(json.dumps(asyncio.run(talk())))\n"
    )
    words = ["-m", "earmark", "mcp", str(place.served), "--allow-calls", "9", "--no-cache"]
    words += ["--model", f"{place.model.url}#{MODEL}"]
    sent = json.dumps([words, calls, place.env])
    done = subprocess.run(
        [sys.executable, "-c", script], input=sent, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    errors = json.loads(done.stdout)
    refused = [call[0] for call, is_error in zip(calls, errors, strict=True) if is_error]
    assert refused == ["ask", "caption"]
    assert place.model.asked() == []
    check_nothing_left(place)


def test_no_command_obeys_a_foreign_run(place: SimpleNamespace, tmp_path: Path):
    run, out, bench = place.served / "run", tmp_path / "out", place.served / "bench.mp4"
    out.mkdir()
    model = ["--model", f"{place.model.url}#{MODEL}"]
    plain = ["--no-cache", "--no-sounds", "--frontline", "energy"]
    (out / "results.jsonl").write_text('{"custom_id": "x"}\n')
    commands = [
        ["show", run],
        ["show", run, "--page", "--out", out / "page.html"],
        ["search", run, "evil", "--thumbnails", out / "pictures"],
        ["ask", run, "what was said?"],
        ["ask", run, "what was said?", "--calls", "2", *model],
        *(["export", run, "--to", name, "--out", out / f"export.{name}"] for name in EXPORTERS),
        ["export", run, "--to", "bundle", "--out", out / "bundle.zip"],
        ["export", run, "--to", "highlights", "--out", out / "highlights.mp4"],
        ["export", run, "--to", "batch", "--out", out / "batch.jsonl", *model],
        ["run", "list", place.served],
        ["run", "merge", run, "--into", out / "merged"],
        ["run", "audit", run, "--calls", "2", *model],
        ["run", "import", run, out / "results.jsonl", *model],
        ["lab", "adapt", run, "--out", out / "site.gate"],
        ["caption", bench, "--run", run, "--budget", "1", *plain, *model],
        ["find", "a hand", bench, "--run", run, "--calls", "1", *plain, *model],
        ["run", "forget", "elsewhere", place.served, "--yes"],
    ]
    script = (
        "import json, sys, traceback\n"
        "from earmark.cli.app import main\n"
        "for words in json.load(sys.stdin):\n"
        "    sys.argv = ['earmark', *words]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit:\n"
        "        pass\n"
        "    except BaseException:\n"
        "        traceback.print_exc()\n"
        "        print('FAULT', words)\n"
    )
    sent = json.dumps([[str(word) for word in words] for words in commands])
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=sent,
        text=True,
        capture_output=True,
        check=False,
        env=place.env,
        cwd=out,
    )
    assert done.returncode == 0, done.stderr
    assert "FAULT" not in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    check_nothing_left(place, is_opened=True)
    assert 1 <= len(place.model.asked()) <= 3, "about the recording that was named, no other"
    with Run(run) as left:
        assert left.recording("elsewhere") is None
    for path in out.rglob("*"):
        assert not path.is_file() or PRIVATE not in path.read_bytes(), path


@pytest.mark.parametrize(
    "name", ["run.reserve", "run.db-wal", "run.lock", "report.html", "recordings", "meaning.npy"]
)
def test_a_run_with_a_link_is_not_written(tmp_path: Path, name: str):
    with Run(tmp_path / "run", {"model": "m"}):
        pass
    (tmp_path / "outside").write_bytes(PRIVATE)
    (tmp_path / "run" / name).unlink(missing_ok=True)
    (tmp_path / "run" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match="is a link, and a run has none"), Run(tmp_path / "run", {}):
        pass
    assert (tmp_path / "outside").read_bytes() == PRIVATE
