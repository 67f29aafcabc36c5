"""The examples run as they are, and the rule of the example package joins by its entry point."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.command_line import fresh_command
from acceptance.views.conftest import Place

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SCRIPTS = {
    "select_windows.py": "calls: 100% of the actions expected",
    "caption_windows.py": "the second time 0 calls are made",
    "compare_rules.py": "| coverage |",
}
"""What each script prints."""


def run(*command: object, folder: Path | None = None) -> str:
    path = os.pathsep.join([*([str(folder)] if folder else []), *filter(None, sys.path)])
    done = subprocess.run(
        list(map(str, command)),
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == SCRIPTS.keys()


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_runs_on_what_it_films(script: str):
    assert SCRIPTS[script] in run(sys.executable, EXAMPLES / script)


def test_the_notebook_runs_and_its_results_show_themselves():
    """As a kernel would: cell by cell, the last expression of each shown."""
    pytest.importorskip("pandas", reason="pandas is not installed")
    notebook = json.loads((EXAMPLES / "walkthrough.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells), "clear its outputs before a commit"
    names: dict[str, object] = {}
    shown: list[str] = []
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "walkthrough.ipynb", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "walkthrough.ipynb", "eval"), names)
            html = getattr(value, "_repr_html_", None)
            shown.append(html() if html else repr(value))
    forecast, selection, frame, done, hits = shown
    assert all("<table" in result for result in (forecast, selection))
    assert "expected" in frame
    assert "CaptionResult(run=" in done
    assert "loud" in hits


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the example package was installed into."""
    if importlib.util.find_spec("pip") is None or importlib.util.find_spec("setuptools") is None:
        pytest.skip("pip or setuptools is not installed")
    sources = tmp_path_factory.mktemp("sources") / "package"
    shutil.copytree(EXAMPLES / "earmark-every-third", sources)  # pip builds beside the sources
    target = tmp_path_factory.mktemp("site-packages")
    offline = ("-q", "--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, "-m", "pip", "install", *offline, "--target", target, sources)
    return target


def test_a_rule_of_another_package_chooses(place: Place, installed: Path):
    words = ("--rule", "every-third", "--budget", "4", "--format", "json")
    printed = run(*fresh_command("select", place.bench, *words), folder=installed)
    selection = json.loads(printed)
    assert selection["plan"]["rule"] == "every-third"
    (recording,) = selection["recordings"]
    assert [pick["window"] for pick in recording["picks"]] == [0, 3, 6, 9]


def test_a_rule_of_another_package_captions(place: Place, installed: Path, tmp_path: Path):
    words = ("--rule", "every-third", "--budget", "4", "--run", tmp_path / "run")
    run(*fresh_command("caption", place.bench, *words), folder=installed)
    lines = run(*fresh_command("export", tmp_path / "run", "--to", "jsonl")).splitlines()
    assert [json.loads(line)["window"] for line in lines] == [0, 3, 6, 9]


def test_without_the_package_its_rule_is_unknown(place: Place):
    done = subprocess.run(
        fresh_command("select", place.bench, "--rule", "every-third"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "every-third" in done.stderr
    assert "coverage" in done.stderr, "the rules there are"
