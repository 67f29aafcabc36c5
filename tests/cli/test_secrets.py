"""Secrets planted wherever one can be given; every file and stream is searched for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

from acceptance.command_line import earmark as command
from acceptance.run_rows import rows
from earmark.report.export_formats import EXPORTERS
from fault_server import completion, fault_server
from making import make_video
from servers import range_server

SECRETS = (
    "userpass1",
    "amzsign2",
    "tokenval3",
    "vlmpass4",
    "vlmkey5",
    "sk-openai6",
    "oddvalue7",
    "gonepass8",
    "ftppass9",
    "bWU6dmxtcGFzczQ=",  # as it is sent
)
FORMATS = [name for name in EXPORTERS if name != "batch"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two recordings, and a list that names one with a secret."""
    folder = tmp_path_factory.mktemp("served")
    make_video(folder / "a.mp4", duration=16.0, clicks=(1.0, 9.0), fps=5)
    shutil.copy(folder / "a.mp4", folder / "b.mp4")
    os.utime(folder / "b.mp4", (1, 1))  # another recording by its entity tag
    return folder


IN_TURN = """
import json, sys
from earmark.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["earmark", *words]
    try:
        main()
    except SystemExit:
        pass
"""


def earmark(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """The command, as a user runs it in `folder`."""
    return python(folder, "-m", "earmark", *words)


def earmark_in_turn(folder: Path, *commands: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    """Many commands in `folder`, one after the other in one process: each would be a start."""
    return python(folder, "-c", IN_TURN, json.dumps(commands))


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "OPENAI_API_KEY": "sk-openai6", "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)


def with_user(url: str, user: str) -> str:
    return url.replace("//", f"//{user}@")


def leaks(folder: Path, *streams: bytes) -> list[str]:
    """Where a secret stands: files beneath `folder`, by content and by name, and streams."""
    texts = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in folder.rglob("*.zip"):
        with ZipFile(path) as held:
            texts |= {f"{path}: {name}": held.read(name) for name in held.namelist()}
    texts |= {f"stream {place}": text for place, text in enumerate(streams)}
    texts["names"] = "\n".join(map(str, folder.rglob("*"))).encode("utf-8", "replace")
    return [
        f"{word} in {name}" for word in SECRETS for name, t in texts.items() if word.encode() in t
    ]


def test_no_secret_is_kept_printed_or_logged(served, tmp_path):
    echo = json.dumps(completion("Bearer $KEY on /v1?api-key=vlmkey5"))
    refusal = json.dumps({"error": {"message": "Authorization: Bearer $KEY is wrong"}})
    with (
        range_server(served) as media,
        fault_server(f"json:{refusal}", "html", then=f"json:{echo}") as model,
    ):
        paths = [
            with_user(media.url("a.mp4?X-Amz-Signature=amzsign2&id=1"), "me:userpass1"),
            media.url("b.mp4?token=tokenval3&q=oddvalue7"),
            with_user(media.url("gone.mp4?sig=tokenval3"), "me:gonepass8"),
            "ftp://me:ftppass9@127.0.0.1:1/c.mp4",
        ]
        vlm = with_user(f"{model.url}?api-key=vlmkey5", "me:vlmpass4")
        ask = [
            "--budget",
            "2",
            "--workers",
            "1",
            "--log",
            "json",
            "--no-sounds",
            "--no-pictures",
            "--concurrency",
            "1",
        ]
        here = ["--workers", "1"]
        main = ["--verbose", "caption", *paths, *ask, "--frontline", "energy", "--run", "run"]
        main += ["--model", f"{model.url}?api-key=vlmkey5#scripted"]
        said = [
            earmark(tmp_path, *main),
            earmark_in_turn(
                tmp_path,
                [*main, "--dry-run"],
                ["caption", paths[0], *ask, "--model", f"{vlm}#scripted"],  # the run has no name
                ["caption", paths[0], "--model", vlm.replace("http", "htp")],
                *(["select", *paths, *here, "--format", f] for f in ("table", "json", "edl")),
                ["doctor", *paths],
                ["doctor", *paths, "--format", "json"],
                ["plan", *paths, *here],
                ["doctor", "--model", vlm],
                ["doctor", "--model", vlm, "--format", "json"],
                *(["export", "run", "--to", f, "--out", f"x.{f}"] for f in FORMATS),
                ["export", "run", "--to", "csv"],
                ["show", "run", "--page"],
                ["show", "run"],
                ["export", "run", "--to", "bundle", "--out", "share.zip"],
                ["select", "--episodes", *paths, *here],
                ["find", f"what is in {paths[0]}?", paths[1], "--model", f"{vlm}#scripted"],
            ),
            earmark(tmp_path, "search", "run", "Bearer"),
        ]
        picks = rows(tmp_path / "run")
        batch = earmark(
            tmp_path, "export", "run", "--to", "batch", "--model", "m", "--out", "b.jsonl"
        )
    streams = [stream for done in (*said, batch) for stream in (done.stdout, done.stderr)]
    assert leaks(tmp_path, *streams) == []
    assert [pick["status"] for pick in picks].count("answered") == 2, said[0].stderr
    assert b"Bearer *** on" in said[-1].stdout
    assert picks[0]["path"] == media.url("a.mp4?id=1&***")
    assert (tmp_path / "x.csv").read_text().count("?") >= len(picks)
    assert batch.returncode == 1
    assert b"cannot be reopened: the secret part of its address was not stored" in batch.stderr


def test_a_run_is_resumed_with_an_address_signed_anew(served, tmp_path):
    with range_server(served) as media, fault_server() as model:
        words = ["--run", "run", "--budget", "2", "--frontline", "energy", "--model", model.url]
        words += ["--log", "json", "--no-sounds", "--no-pictures"]
        for signature in ("amzsign2", "tokenval3"):
            url = media.url(f"a.mp4?X-Amz-Signature={signature}")
            done = command("caption", url, *words, cwd=tmp_path, env={"EARMARK_CACHE": "cache"})
            assert done.code == 0, done.err
        assert model.count() == 2, "nothing is asked again"
    last = json.loads(done.err.splitlines()[-1])
    assert last["unchanged"] == 1, "nor listened to again"
    assert len({row["path"] for row in rows(tmp_path / "run")}) == 1
