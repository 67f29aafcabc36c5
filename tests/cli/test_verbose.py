"""`--verbose` shows what the library logs; the library itself says nothing anywhere."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

import earmark
from making import make_video

ENCODER = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Faulty:
    def __call__(self, recording, **_):
        return {}["no such key"]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder with an installed package whose encoder has a bug."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "faulty_encoder.py").write_text(ENCODER)
    about = folder / "faulty-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    points = "[earmark.frontlines]\nfaulty = faulty_encoder:Faulty\n"
    (about / "entry_points.txt").write_text(points)
    return folder


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    for number in range(2):
        make_video(folder / f"{number}.mp4", duration=8.0, clicks=[3.0])
    return folder


def run(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-m", "earmark", *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_bug_shows_where_it_is(site, archive, workers):
    words = ["select", str(archive), "-f", "faulty", "--workers", workers, "--format", "json"]
    quiet, verbose = run(site, *words), run(site, "--verbose", *words)
    for done in (quiet, verbose):
        assert done.returncode == 1
        assert len(json.loads(done.stdout)["failures"]) == 2
        assert "a bug in the plug-in faulty (KeyError: 'no such key')" in done.stderr
    assert "Traceback" not in quiet.stderr
    assert verbose.stderr.count('return {}["no such key"]') == 2


def test_what_a_run_does_is_logged(site, archive, tmp_path):
    words = ["caption", str(archive), "-f", "flux", "-b", "1", "--workers", "1"]
    words += ["--no-sounds", "--no-pictures", "--run", str(tmp_path / "run")]
    done = run(site, *words, "--verbose")  # after the command, as people write it
    assert done.returncode == 0
    assert "earmark.pipeline.listen: " in done.stderr
    assert "earmark.pipeline.choose: 2 calls to make to " in done.stderr


def test_the_library_configures_no_logging(archive, capfd):
    before = list(logging.getLogger().handlers)
    earmark.select([archive], frontline="flux", budget="1")
    assert logging.getLogger().handlers == before
    assert logging.getLogger("earmark").handlers == []
    assert capfd.readouterr().err == ""
