"""The core works without the lab, from a wheel in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from acceptance.model_server import model_server
from acceptance.recordings import make_recording
from earmark import __version__

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "src" / "earmark_lab"
PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")


def test_the_lab_has_the_version_of_the_core() -> None:
    project = tomllib.loads((LAB / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
    assert f"earmark=={__version__}" in project["dependencies"]


def build(sources: Path, folder: Path) -> Path:
    """The wheel of a copy of `sources`: setuptools writes beside what it builds."""
    copy = folder / sources.name
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "tests", "experiments.*", "docs")
    shutil.copytree(sources, copy, ignore=unwanted)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder))
    subprocess.run([*PIP, "wheel", *options, str(copy)], check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_of_the_lab_holds_every_package(tmp_path: Path) -> None:
    names = {str(Path(name).parent) for name in zipfile.ZipFile(build(LAB, tmp_path)).namelist()}
    packages = {path.parent.relative_to(LAB.parent) for path in LAB.rglob("__init__.py")}
    assert {str(package) for package in packages} <= names


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the core and what it needs, but no lab."""
    folder = tmp_path_factory.mktemp("install")
    wheel = build(ROOT, folder)
    dependencies = folder / "dependencies"
    dependencies.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "earmark" not in path.name:
            (dependencies / path.name).symlink_to(path)
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    interpreter = environment / "bin" / "python"
    install = ("--python", str(interpreter), "install", "--no-deps", "--no-index", str(wheel))
    subprocess.run([*PIP, *install], check=True, timeout=300)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{dependencies}\n", encoding="utf-8")
    return interpreter


def run(python: Path, *words: object, code: int = 0) -> str:
    """Standard output of a command; standard error if it is expected to fail."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "HOME": str(python.parent),
        "XDG_CACHE_HOME": str(python.parent / "cache"),
    }
    done = subprocess.run(
        [python.with_name("earmark"), *map(str, words)],
        env=environment,
        cwd=python.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.slow
def test_everything_a_person_with_footage_needs_works_without_the_lab(
    python: Path, tmp_path: Path
) -> None:
    absent = "import importlib.util as u, sys; sys.exit(u.find_spec('earmark_lab') is not None)"
    assert subprocess.run([python, "-I", "-c", absent], cwd=tmp_path, check=False).returncode == 0
    clip, folder = make_recording(tmp_path / "shift.mp4"), tmp_path / "run"
    selected = json.loads(run(python, "select", clip, "--budget", "2", "--format", "json"))
    assert len(selected["recordings"][0]["picks"]) == 2
    assert "%" in run(python, "plan", clip)
    with model_server() as server:
        run(python, "caption", clip, "--budget", "2", "--run", folder, "--model", server.model)
        assert server.count == 2
    assert "shift" in run(python, "show", folder)
    assert len(json.loads(run(python, "search", folder, "knocking", "--format", "json"))) == 2
    run(python, "export", folder, "--to", "csv", "--out", tmp_path / "picks.csv")
    assert len((tmp_path / "picks.csv").read_text(encoding="utf-8").splitlines()) == 3
    run(python, "doctor")
    assert "yamnet" in run(python, "models")


@pytest.mark.slow
@pytest.mark.parametrize("words", [("lab", "evaluate", "spans.csv"), ("lab", "demo")])
def test_a_command_of_the_lab_says_what_to_install(python: Path, words: tuple[str, ...]) -> None:
    error = run(python, *words, code=1)
    assert error.count("\n") == 1 and "pip install earmark-lab" in error
