"""`earmark demo`: the first command that anybody runs."""

from __future__ import annotations

import re
import shlex

from typer.testing import CliRunner

from earmark.cli.app import app


def test_the_command_that_adds_captions_is_one_that_takes_a_model(tmp_path, monkeypatch):
    monkeypatch.setenv("EARMARK_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "a demo"
    words = ["demo", "--minutes", "0.5", "--budget", "1", "--folder", str(folder)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (told,) = re.findall(r"to add them run `earmark (.*)` with --gguf", done.stdout)
    again = CliRunner().invoke(app, [*shlex.split(told), "--dry-run"])
    assert (again.exit_code, "1 call to make" in again.stdout) == (0, True), again.output
