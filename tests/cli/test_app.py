from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from earmark.cli.app import COMMANDS, app, describe, load

HELP = """
import sys
from earmark.cli import main
sys.argv = ["earmark", "--help"]
try:
    main()
finally:
    loaded = {"torch", "scipy", "numpy", "av"} & set(sys.modules)
    assert not loaded, loaded
"""


def test_the_list_of_commands_imports_none_of_them():
    ran = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert all(f" {name} " in ran.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_its_own_words(name):
    listed, loaded = describe(name, COMMANDS[name]), load(name, COMMANDS[name])
    assert listed.help == loaded.help
    assert listed.rich_help_panel == loaded.rich_help_panel


def test_a_command_of_a_group_is_not_under_the_heading_of_another_of_its_name():
    told = CliRunner().invoke(app, ["encoder", "--help"]).output
    assert "Export a published audio encoder" in told
    assert "Look at runs" not in told
