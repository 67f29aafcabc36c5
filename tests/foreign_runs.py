"""A run from somebody else, hostile in every field, and a witness of what a process touches.

with stranger() as server:                          # counts whoever connects to it
    make_foreign_run(folder, outside, server.port)
    env = witness(folder)                           # environment of the process to watch
    touched(folder)                                 # files it opened, ports it connected to
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from drawing import windows
from earmark import Span
from earmark.captioning.request import Question
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.pipeline.session import open_session
from earmark.run.erasure import note_written
from earmark.run.records import PickFrames, RecordingRow
from earmark.run.run import Run

HOSTILE_TEXT = "<script>fetch('/')</script> =HYPERLINK(\"http://x\") ../../evil \x1b[2J \u202e"

WITNESS = """
import os, sys
_log = os.open({log!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def _watch(event, values):
    if event in ("open", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "shutil.rmtree"):
        if isinstance(values[0], (str, bytes, os.PathLike)):
            line = f"open {{os.path.realpath(os.fsdecode(values[0]))}}\\n"
            os.write(_log, line.encode("utf-8", "replace"))
    elif event == "socket.connect" and isinstance(values[1], tuple):
        os.write(_log, f"connect {{values[1][1]}}\\n".encode())
sys.addaudithook(_watch)
"""


@dataclass
class Stranger:
    port: int
    connections: list[bytes] = field(default_factory=list)
    """The first bytes of each."""


@contextmanager
def stranger() -> Iterator[Stranger]:
    """A server on this machine that nobody has been told to ask."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Stranger(listening.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                client.settimeout(1.0)
                try:
                    server.connections.append(client.recv(4096))
                except OSError:
                    server.connections.append(b"")
                client.close()

        threading.Thread(target=accept, daemon=True).start()
        yield server


def make_foreign_run(folder: Path, outside: Path, port: int) -> dict[str, str]:
    """A run in `folder` whose every field leads elsewhere; its recordings by what they name."""
    served = folder.parent
    (served / "link.mp4").symlink_to(outside / "private.mp4")
    address = f"http://127.0.0.1:{port}"
    paths = {
        "elsewhere": str(outside / "private.mp4"),
        "link": str(served / "link.mp4"),
        "upwards": str(served / ".." / outside.name / "private.mp4"),
        "address": f"{address}/a.mp4",
        "file address": f"file://{outside / 'private.mp4'}",
        "local address": f"local://{outside / 'private.mp4'}",
        "passwd": "/etc/passwd",
        "device": "/dev/zero.mp4",
        "zero byte": "a\0.mp4",
    }
    session = open_session(frontline="energy", sounds=False, pictures=False)
    plan = session.run_json("m") | {
        "budget": "100%",
        "frontline": str(outside / "theirs.gate"),
        "transcriber": f"{address}/v1",
        "engine": "ray",
        "address": f"127.0.0.1:{port}",
        "model": f"{address}/v1#m",
        "ask": Question(f"{HOSTILE_TEXT.replace('$', '')} @{outside / 'secret.txt'}").to_json(),
    }
    with Run(folder, plan) as run:
        for key, path in paths.items():
            run.add(RecordingRow(key, path, 20.0, 100, name=HOSTILE_TEXT if key == "link" else ""))
        chapters = ((str(served / "bench.mp4"), 0.0), (paths["elsewhere"], 20.0))
        run.add(RecordingRow("chapters", chapters[0][0], 40.0, 100, chapters=chapters))
        for key in (*paths, "chapters"):
            run.hear(key, windows("9.8.7"), key="k")
            run.choose(key, [], tags={}, rule="rate", notes=[HOSTILE_TEXT])
            run.keep_frames(key, PickFrames(Span(0, 4), HOSTILE_TEXT.encode(), 1, 1, 1, 0))
            said = EvidenceEntry(Span(0, 1), "said", HOSTILE_TEXT, 0.9, "whisper")
            run.keep_evidence(key, [said], kinds=["said"])
        run.fail_recording("lost", str(outside / "private-2.mp4"), HOSTILE_TEXT)
    note_written(folder, [outside / "precious.mp4"])
    settings = {
        "model": plan["model"],
        "speech": True,
        "question": {"prompt": f"@{outside / 'secret.txt'}"},
        "transcription": {"transcriber": f"{address}/v1"},
        "backend": {"engine": "ray", "address": f"127.0.0.1:{port}"},
        "folders": {"cache": str(outside / "cache"), "models": str(outside / "models")},
        "display": {"metrics_port": port, "metrics_host": "0.0.0.0"},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "plan.json").write_text(json.dumps({"paths": list(paths.values()), **settings}))
    (folder / "earmark.toml").write_text(f'model = "{address}/v1"\n')
    (folder / "report.html").write_text(HOSTILE_TEXT)
    return paths | {"chapters": chapters[0][0]}


def witness(folder: Path) -> dict[str, str]:
    """The environment of a Python process whose files and connections are written to a log."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(WITNESS.format(log=str(folder / "log")))
    search = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": search, "OPENAI_API_KEY": "sk-the-owner-s-own-key-1"}


def touched(folder: Path) -> tuple[set[Path], set[int]]:
    """Files that the watched processes opened, made or removed; ports they connected to."""
    lines = (folder / "log").read_text("utf-8", "replace").splitlines()
    files = {Path(line.removeprefix("open ")) for line in lines if line.startswith("open ")}
    ports = {int(line.removeprefix("connect ")) for line in lines if line.startswith("connect ")}
    return files, ports
