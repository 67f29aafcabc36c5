"""What runs by itself runs what a person runs: the make targets."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from earmark import __version__

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
PRE_COMMIT = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
problem = runpy.run_path(str(ROOT / "scripts" / "release_check.py"))["problem"]


def test_every_target_says_what_it_does():
    listed = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[0] for line in listed.splitlines()} == TARGETS
    assert all(len(line.split()) > 2 for line in listed.splitlines())


def test_a_commit_is_checked_as_make_check_does():
    (checks,) = re.findall(r"^check: (.*?) *##", MAKEFILE, re.MULTILINE)
    hooks = [hook["entry"] for repo in PRE_COMMIT["repos"] for hook in repo["hooks"]]
    assert hooks == [f"make {check}" for check in checks.split()]
    assert {repo["repo"] for repo in PRE_COMMIT["repos"]} == {"local"}


def test_the_workflow_calls_make_targets_on_every_version():
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    called = {step["run"].split()[1] for step in steps if step.get("run", "").startswith("make ")}
    assert called == {"test", "release-check", "dist"}
    assert called <= TARGETS
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"] == declared
    assert WORKFLOW["jobs"]["release"]["needs"] == "test"


def test_what_builds_a_release_is_pinned_by_its_hash():
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name) for name in used)
    lines = (ROOT / "release-requirements.txt").read_text("utf-8").splitlines()[1:]
    assert all(re.fullmatch(r"\w+==[\d.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    assert {line.partition("==")[0] for line in lines} >= {"build", "setuptools"}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert "dist: $(VENV)/.release" in makefile and "--require-hashes" in makefile


@pytest.mark.parametrize(
    ("tag", "changelog", "expected"),
    [
        (f"v{__version__}", f"# Changelog\n\n## {__version__} (2026-02-01)\n", None),
        ("v99.0", f"## {__version__} (2026-02-01)\n", f"tag it v{__version__}"),
        ("", f"## {__version__} (2026-02-01)\n", "the tag is missing"),
        (f"v{__version__}", "## 0.0.1 (2026-02-01)\n", "says nothing"),
        (f"v{__version__}", f"## {__version__} (not released yet)\n", "where the day of"),
    ],
)
def test_a_release_is_what_its_tag_says(tag, changelog, expected):
    found = problem(tag, changelog)
    assert (found is None) if expected is None else (expected in found)


def test_the_benchmark_of_answers_still_runs(tmp_path):
    script = ROOT / "benchmarks" / "answers.py"
    words = [sys.executable, str(script), "--calls", "9", "--answers", "9"]
    subprocess.run(words, cwd=tmp_path, check=True)
