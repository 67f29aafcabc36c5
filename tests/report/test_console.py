"""What reaches a terminal cannot command it, and holds no secret."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from earmark.report import console
from earmark.report.console import emit, emit_json, err, out, print_table, printable

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\u202egpj.\u2066"
HARMLESS = "\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\r\\x08\\u202egpj.\\u2066"


def drawn(*things: object, console: Console = out) -> str:
    """What is sent to a terminal that shows `things`."""
    shown = type(console)(
        file=io.StringIO(), force_terminal=True, color_system=None, markup=False, width=120
    )
    for thing in things:
        shown.print(thing)
    return shown.file.getvalue()


def table(words: str) -> Table:
    made = Table(box=None, pad_edge=False)
    made.add_column("detail", overflow="fold")
    made.add_row(words)
    return made


@pytest.mark.parametrize("made", [str, Text, table])
@pytest.mark.parametrize("console", [out, err], ids=["out", "err"])
def test_control_characters_are_written_out(made, console):
    said = drawn(made(HOSTILE), console=console)
    assert said.endswith("\\u202egpj.\\u2066\n") and "\\x1b[2J\\x1b]0;owned" in said
    assert said.replace("\n", "").isprintable()


def test_a_string_is_drawn_and_measured_as_it_is_written_out():
    assert drawn(HOSTILE) == f"{HARMLESS}\n"
    assert drawn(table(HOSTILE)).split("\n")[1] == HARMLESS


def test_progress_is_drawn_with_no_commands_but_its_own():
    shown = type(err)(file=io.StringIO(), force_terminal=True, color_system=None, width=120)
    with Progress(TextColumn("{task.description}", markup=False), console=shown) as bar:
        bar.add_task(HOSTILE)
    assert "\\x1b]0;own" in shown.file.getvalue()
    assert "\x1b]0" not in shown.file.getvalue() and "\u202e" not in shown.file.getvalue()


def test_letters_of_every_script_line_ends_and_tabs_are_printed():
    words = "Schäl das 洋葱\n\tبصلة 🥕"
    assert printable(words) == words


def test_secrets_are_not_printed():
    assert drawn("see https://me:hunter2@host/a.mp4") == "see https://host/a.mp4?***\n"


def test_a_machine_is_given_every_byte(capsys):
    emit(HOSTILE)
    assert capsys.readouterr().out == HOSTILE
    emit_json([HOSTILE])
    assert json.loads(capsys.readouterr().out) == [HOSTILE]


def test_a_person_is_shown_what_a_machine_would_be_given():
    """On a real terminal."""
    ours, theirs = pty.openpty()
    code = f"from earmark.report.console import emit; emit({HOSTILE!r})"
    subprocess.run([sys.executable, "-c", code], stdout=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 1000).decode() == HARMLESS
    os.close(ours)


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("width", [80, 40, 20])
def test_what_must_be_whole_is_whole_however_narrow_the_terminal(width, count, monkeypatch):
    """Names to be typed and numbers; where there is no room for that, a row is a block of lines."""
    columns = ("name", "expected share", "state", "for")
    row = ("flow-compensated", "10:39:26.4", "needs a checkpoint", "sound of " * 9)
    shown = type(out)(
        file=io.StringIO(), force_terminal=True, color_system=None, width=width, soft_wrap=True
    )
    monkeypatch.setattr(console, "out", shown)
    print_table(columns, [row] * count, words={*columns} - {columns[1]}, whole=["name"])
    text = shown.file.getvalue()
    if count:
        assert row[0] in text and row[1] in text
    if width > 20 and count:
        assert "checkpoint" in text
    assert ("\n  state" in text) == (count and width < 80)


def test_steps_are_told_in_lines_where_nobody_looks(monkeypatch, capsys):
    now = iter([0.0, 1.0, 2.0, 62.0, 62.0])
    monkeypatch.setattr("earmark.report.console.time.monotonic", lambda: next(now))
    monkeypatch.setattr(console, "err", console._SafeConsole(stderr=True))
    with console.watched_steps("reading answers") as watch:
        watch("fitting rates", 0, 1)
        watch("fitting rates", 1, 1)
        watch("fitting rates", 1, 1)
    assert capsys.readouterr().err == "reading answers\nfitting rates\nfitting rates\n"


@pytest.mark.parametrize("width", [24, 200])
def test_a_table_is_drawn_as_rich_draws_it(width, monkeypatch):
    """The quick way is the slow way if it fits; if it does not, cells are folded."""
    columns = ("window", "\u65e5\u672c", "why")
    rows = [
        ("3", "\u2013", "two actions are expected here"),
        ("12", "\u672c", "\x1b[2J"),
        ("", "", "a\nb"),
    ]
    for count in (0, 2, 3):
        texts = []
        for align in (console._align, lambda *_: None):
            shown = type(out)(
                file=io.StringIO(), width=width, soft_wrap=True, highlight=False, markup=False
            )
            monkeypatch.setattr(console, "out", shown)
            monkeypatch.setattr(console, "_align", align)
            print_table(columns, rows[:count], words=["why"])
            texts.append(shown.file.getvalue())
        assert texts[0] == texts[1]
        assert "window" in texts[0]
