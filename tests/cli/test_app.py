"""The commands and their options, and how an option becomes a setting."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer

from acceptance.command_line import earmark
from earmark.cli.app import COMMANDS, app, commands_in, describe, load
from earmark.settings import all_settings
from making import make_audio

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

HERE = {name: home for name, home in COMMANDS.items() if home}


def leaves(command, path=()):
    """Every command below `command` that is no group, by its words."""
    groups = commands_in(command)
    if not groups:
        yield path, command
    for name, child in groups.items():
        yield from leaves(child, (*path, name))


ALL = dict(leaves(typer.main.get_command(app)))


def run(*words: object) -> str:
    """What a command prints."""
    outcome = earmark(*words)
    assert outcome.code == 0, outcome.err
    return outcome.out


@pytest.fixture
def clip(tmp_path, monkeypatch):
    """A recording of ten windows; nothing of the user is read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return make_audio(tmp_path / "a.wav", duration=40.0, clicks=[5.0, 21.0])


def plan_of(*words):
    return json.loads(run("select", *words, "--format", "json"))["plan"]


def test_a_misspelt_command_is_corrected():
    done = earmark("selct", "a.mp4")
    assert done.code == 2
    assert "Did you mean 'select'?" in done.err


def test_the_list_of_commands_imports_none_of_them():
    ran = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert all(f" {name} " in ran.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", HERE)
def test_a_command_is_listed_with_its_own_words(name):
    listed, loaded = describe(name, HERE[name]), load(name, HERE[name])
    assert listed.help == loaded.help
    assert listed.rich_help_panel == loaded.rich_help_panel


def test_a_person_can_hold_the_commands():
    assert len(COMMANDS) <= 15
    options = {
        words: [one for one in command.params if not getattr(one, "hidden", True)]
        for words, command in ALL.items()
    }
    assert max(map(len, options.values())) <= 20  # with --help
    assert sum(map(len, options.values())) - len(options) <= 140


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_each_help_fits_a_screen(words):
    lines = earmark(*words, "--help", env={"COLUMNS": "100"}).out.splitlines()
    assert 5 < len(lines) <= 55
    assert max(map(len, lines)) <= 100


def test_help_all_lists_every_setting():
    for words in (["--help-all"], ["caption", "--help-all"]):
        printed = run(*words)
        assert all(f"--{one.flag}" in printed for one in all_settings())


def test_a_setting_is_an_option_whether_or_not_the_help_shows_it(clip):
    assert "--audio-track" not in run("select", "--help")
    assert plan_of(clip, "--window", "8", "--rule", "rank")["window"] == 8.0
    assert plan_of(clip, "--action-length=2.5")["action_length"] == "2.5"
    assert plan_of(clip, "--set", "listening.window=2", "--set=budget=3")["budget"] == "3"
    assert plan_of("--no-cache", clip, "-b", "10%")["budget"] == "10%"


def test_a_file_and_a_variable_are_read_and_an_option_wins(clip, tmp_path, monkeypatch):
    (tmp_path / "earmark.toml").write_text('budget = "10%"\n[listening]\nwindow = 5.0\n')
    plan = plan_of(clip)
    assert (plan["budget"], plan["window"]) == ("10%", 5.0)
    monkeypatch.setenv("EARMARK_BUDGET", "20%")
    assert plan_of(clip)["budget"] == "20%"
    assert plan_of(clip, "--budget", "30%")["budget"] == "30%"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--budget", "lots"], "earmark: --budget: 'lots' is not a budget"),
        (["--rule", "magic"], "earmark: --rule: there is no rule 'magic'"),
        (["--max-calls", "x"], "earmark: --max-calls: should be a valid integer, not 'x'"),
        (["--set", "colour=red"], "earmark: there is no setting 'colour'"),
        (["--set", "window"], "earmark: --set window: write KEY=VALUE"),
        (["--episodes", "--recall", "2"], "earmark: --recall: should be above 0%"),
        (["--set", "window=-1"], "earmark: --window: should be greater than 0"),
        (["--engine", "cloud", "--workers", "2"], "earmark: --engine: there is no backend"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_names_the_option(clip, words, line):
    outcome = earmark("select", clip, *words)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(line), outcome.err
    assert outcome.err.count("\n") == 1
