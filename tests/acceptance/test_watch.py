"""`earmark watch` as a command of its own, on real sources; killed, unplugged, folders."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from acceptance.model_server import model_server
from earmark.evidence.picture_evidence import installed_models
from earmark.models import ModelStore
from live_servers import ffmpeg, free_port, rtsp_camera
from webhook_receiver import receiver

PATIENCE = 300.0
"""Seconds within which anything happens, however busy the machine is."""


class Command:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self.log = process, log

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        lines = self.log.read_text(encoding="utf-8").splitlines(keepends=True)
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
        return [row for row in rows if kind in ("", row["event"])]

    def wait_for(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, self.events()
            time.sleep(0.1)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def watching(log: Path, *words: str) -> Iterator[Command]:
    command = [sys.executable, "-m", "earmark", "watch", *words]
    environment = os.environ | {"XDG_CONFIG_HOME": str(log.parent)}
    with (
        log.open("w", encoding="utf-8") as output,
        subprocess.Popen(
            command, stdout=output, stderr=subprocess.PIPE, text=True, env=environment
        ) as process,
    ):
        try:
            yield Command(process, log)
        finally:
            process.kill()


def answers_in(run: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{run / 'run.db'}?mode=ro", uri=True)) as database:
        return [text for (text,) in database.execute("SELECT text FROM answers ORDER BY call")]


def test_a_camera_is_watched_unplugged_and_plugged_in_again(tmp_path: Path):
    port, run = free_port(), tmp_path / "run"
    address = f"rtsp://me:hunter2@127.0.0.1:{port}/camera"
    rate = ("--calls-per-hour", "900", "--latency", "4s", "--frontline", "energy", "--keep-clips")
    with (
        model_server() as server,
        watching(tmp_path / "log", address, "--run", str(run), "--model", server.model, *rate) as w,
    ):
        with rtsp_camera(port):
            w.wait_for(lambda: len(w.events("answer")) >= 2)
        w.wait_for(lambda: any(event["state"] == "lost" for event in w.events("source")))
        before = len(w.events("answer"))
        with rtsp_camera(port, size="640x480", rate=48_000):
            w.wait_for(lambda: len(w.events("answer")) >= before + 2)
            assert w.stop() == 0
        assert len(w.events("gap")) == 1
        assert len(answers_in(run)) == len(w.events("answer")) == len(server.requests)
        assert "hunter2" not in w.log.read_text() + (w.process.stderr or sys.stdin).read()
    for path in run.rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes()
    assert len(list(run.glob("clips/*/*.mp4"))) >= 4
    export = ["export", str(run), "--to", "csv", "--out", str(tmp_path / "captions.csv")]
    subprocess.run([sys.executable, "-m", "earmark", *export], check=True, capture_output=True)
    assert (tmp_path / "captions.csv").read_text().count("\n") >= 4


DETECTOR = (
    "lavfi:testsrc2=size=320x240:rate=5,realtime[out0];"
    "aevalsrc=0.001*random(0)+0.5*sin(2*PI*3100*t)*lt(mod(t\\,1)\\,0.5)"
    "*between(mod(t\\,200)\\,8\\,20):s=16000,arealtime[out1]"
)
"""A device with a camera and a microphone; a smoke detector beeps from the eighth second on."""


def test_a_sound_alerts_without_a_call_and_the_webhook_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = ModelStore()
    if not installed_models("heard", store):
        pytest.skip("needs a model that names sounds")
    monkeypatch.setenv("EARMARK_MODELS", str(store.folder))
    with receiver() as hook:
        monkeypatch.setenv("EARMARK_WEBHOOK", hook.address)
        monkeypatch.setenv("EARMARK_WEBHOOK_SECRET", "topsecret")
        words = (DETECTOR, "--run", str(tmp_path / "run"), "--alert", "smoke detector, scream")
        with watching(tmp_path / "log", *words) as w:
            w.wait_for(lambda: any(event["event"] == "alert" for event in hook.events()))
            assert w.stop() == 0
    (named,) = w.events("alerts")
    assert named["terms"]["scream"] == ["Screaming"]
    alert = w.events("alert")[0]
    assert alert["sound"] == "Smoke detector, smoke alarm" and alert["source"] == "lavfi"
    assert alert in hook.events() and "webhook-signature" in hook.received[0][0]
    for path in (tmp_path / "run").rglob("*"):
        stored = b"" if path.is_dir() else path.read_bytes()
        assert b"hunter2" not in stored and b"topsecret" not in stored


def test_a_kill_at_any_moment_loses_no_answer(tmp_path: Path):
    run, film = tmp_path / "run", tmp_path / "film.mkv"
    rate = ("--calls-per-hour", "3600", "--latency", "0s", "--frontline", "energy")
    kept: list[str] = []
    with model_server() as server, ffmpeg("-flush_packets", "1", str(film)):
        words = (str(film), "--run", str(run), "--model", server.model, *rate)
        while not film.exists() or film.stat().st_size < 50_000:
            time.sleep(0.1)
        for number in range(4):
            with watching(tmp_path / f"log{number}", *words) as w:
                w.wait_for(lambda w=w: w.events("answer"))
                time.sleep(0.07 * number)
                w.process.kill()
                w.process.wait(PATIENCE)
                said = [event["caption"] for event in w.events("answer")]
            now = answers_in(run)
            assert now[: len(kept)] == kept  # none is lost or asked again
            assert set(said) <= set(now)  # one that was announced is stored
            kept = now
    asked = [json.dumps(request.body, sort_keys=True) for request in server.requests]
    assert len(asked) - len(set(asked)) <= 4  # at most the call in flight when it was killed


def test_a_file_that_is_complete_ends_the_watch(tmp_path: Path):
    film, run = tmp_path / "film.ts", tmp_path / "run"
    with ffmpeg("-f", "mpegts", str(film), seconds=12.0), model_server() as server:
        while not film.exists() or film.stat().st_size < 50_000:
            time.sleep(0.1)
        words = (str(film), "--run", str(run), "--model", server.model, "--latency", "4s")
        with watching(tmp_path / "log", *words, "--calls-per-hour", "900") as w:
            assert w.process.wait(PATIENCE) == 0
    assert w.events("source")[-1]["state"] == "ended"
    assert len(w.events("answer")) == len(w.events("pick")) >= 2


def test_recordings_that_land_in_a_folder(tmp_path: Path, clip: Path):
    dock, run = tmp_path / "dock", tmp_path / "run"
    dock.mkdir()
    with (
        model_server() as server,
        watching(
            tmp_path / "log", str(dock), "--run", str(run), "--budget", "2", "--model", server.model
        ) as w,
    ):
        w.wait_for(lambda: w.events("source"))
        shutil.copy(clip, dock / "upload.mp4.part")
        time.sleep(3.0)
        assert not w.events("landed")
        (dock / "upload.mp4.part").rename(dock / "upload.mp4")
        w.wait_for(lambda: len(w.events("answer")) == 2)
        (dock / "broken.mp4").write_bytes(b"no video")
        w.wait_for(lambda: w.events("failed"))
        assert w.stop() == 0
    assert [Path(event["source"]).name for event in w.events("landed")] == [
        "upload.mp4",
        "broken.mp4",
    ]
    assert len(answers_in(run)) == 2


@pytest.mark.parametrize(
    "words, message",
    [
        (["ftp://host/a"], "cannot be watched"),
        (["nothing.mkv"], "there is no file nothing.mkv"),
        ([".", "rtsp://host/a"], "is a folder: watch it with a command of its own"),
        (["rtsp://host/a", "--latency", "soon"], "--latency"),
        (["rtsp://host/a", "--keep-clips", "--blur", "faces"], "faces stay visible"),
    ],
)
def test_what_cannot_be_watched_is_one_line(tmp_path: Path, words: list[str], message: str):
    with watching(tmp_path / "log", *words, "--run", str(tmp_path / "run")) as w:
        assert w.process.wait(PATIENCE) == 1
        assert w.process.stderr
        lines = w.process.stderr.read().strip().splitlines()
    assert len(lines) == 1 and message in lines[0]
