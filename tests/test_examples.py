"""A package of another's is installed, and its rule is used like our own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from making import make_video

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_every_example_is_listed():
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    listed = {Path(target).parts[0] for target in re.findall(r"\]\(([^)]+)\)", page)}
    assert listed == {path.name for path in EXAMPLES.iterdir()} - {"README.md"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder the example package was installed into, with its entry points."""
    # pip builds beside the sources, so it gets a copy.
    sources = tmp_path_factory.mktemp("sources") / "earmark-every-third"
    shutil.copytree(EXAMPLES / "earmark-every-third", sources)
    target = tmp_path_factory.mktemp("site")
    offline = ("-q", "--no-deps", "--no-build-isolation", "--no-index")
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", target, sources]
    subprocess.run(command, check=True, timeout=600)
    return target


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    make_video(folder / "busy.mp4", duration=12.0, clicks=[0.5, 3.5, 3.7, 6.5, 9.5, 9.6])
    make_video(folder / "quiet.mp4", duration=9.0, clicks=[6.5])
    return folder


def run(installed: Path, *command: str) -> str:
    path = os.pathsep.join([str(installed), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SELECTIONS = """
import json, sys
import earmark
from earmark.selection import rule_named

def choose(rule, **budget):
    return earmark.select([sys.argv[1]], rule=rule, window=1.0, frontline="energy", **budget)

def picked(rule, **budget):
    return [[pick.window for pick in one.picks] for one in choose(rule, **budget).recordings]

print(json.dumps({
    "name": choose("every-third", budget="2").to_json()["plan"]["rule"],
    "each": picked("every-third", budget="2"),
    "across": picked("every-third", budget="5", across=True),
    "dear": picked("every-third", budget="price=0.9"),
    "cheap": picked("every-third", budget="price=0.05"),
    "fourth": picked(rule_named("every-third", step=4), budget="price=0.05"),
}))
"""


def test_a_rule_of_anothers_spends_every_kind_of_budget(installed, recordings):
    found = json.loads(run(installed, "-c", SELECTIONS, str(recordings)))
    assert found["name"] == "every-third"
    assert [len(windows) for windows in found["each"]] == [2, 2]
    assert sum(map(len, found["across"])) == 5
    assert 6 in found["across"][1], "the one click of the quiet recording"
    assert sum(map(len, found["dear"])) < sum(map(len, found["cheap"]))
    assert found["cheap"] == [[0, 3, 6, 9], [0, 3, 6]]
    assert found["fourth"] == [[0, 4, 8], [0, 4, 8]]


def test_every_seam_is_documented():
    root = EXAMPLES.parent
    page = (root / "docs" / "plugins.md").read_text(encoding="utf-8")
    sources = (root / "src").rglob("*.py")
    groups = {
        group
        for source in sources
        for group in re.findall(r"Registry\(\s*\"([\w.]+)\"", source.read_text(encoding="utf-8"))
        if source.name != "registry.py"
    }
    assert "earmark.rules" in groups
    assert [group for group in sorted(groups) if f"`{group}`" not in page] == []


def test_the_systemd_unit_is_valid():
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    unit = EXAMPLES / "watch" / "earmark-watch.service"
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_compose_file_is_valid():
    """By compose itself if it is here; and it starts the commands that exist."""
    yaml = pytest.importorskip("yaml")
    path = EXAMPLES / "watch" / "compose.yaml"
    services = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]
    assert services.keys() == {"model", "watch"}
    assert services["watch"]["command"][:2] == ["earmark", "watch"]
    names = {f"EARMARK_{name}" for name in ("MODEL", "CALLS_PER_HOUR", "KEEP")}
    assert services["watch"]["environment"].keys() == names
    compose = ["docker", "compose"]
    if (
        not shutil.which("docker")
        or subprocess.run([*compose, "version"], capture_output=True, check=False).returncode
    ):
        pytest.skip("needs docker compose to check the rest")
    environment = os.environ | {"CAMERA": "rtsp://camera/stream"}
    subprocess.run([*compose, "-f", str(path), "config", "-q"], check=True, env=environment)
