"""What the documentation says is what the code does."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
import shlex
from pathlib import Path

import pytest
import typer

from earmark import errors
from earmark.cli.app import COMMANDS, app, commands_in
from earmark.features import ENCODERS
from earmark.selection import RULES
from making import make_video

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_reference_is_what_the_code_says():
    written = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["reference"]()
    assert REFERENCE.read_text(encoding="utf-8") == written, "run `make docs`"


@pytest.mark.parametrize(
    "name",
    [
        *COMMANDS,
        *RULES,
        *ENCODERS,
        *(name for name in vars(errors) if name[0].isupper()),
    ],
)
def test_every_command_rule_encoder_and_error_is_documented(name):
    assert re.search(rf"`(earmark )?{re.escape(name)}[` ]", REFERENCE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def lines_in(page: Path) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip().startswith("earmark ")]


@pytest.mark.parametrize(
    "line", [line for page in PAGES for line in lines_in(page)], ids=lambda line: line[:60]
)
def test_every_command_shown_is_one_that_exists(line):
    """The words parse: the command is there and takes these options."""
    words = shlex.split(line, comments=True)[1:]
    command = typer.main.get_command(app)
    while (known := commands_in(command)) and words:
        assert words[0] in known or "spans" in known, f"no command {words[0]!r} in: {line}"
        is_named = words[0] in known
        command = known[words[0] if is_named else "spans"]
        words = words[1:] if is_named else words
    known = {name for parameter in command.params for name in parameter.opts}
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
            assert word.split("=")[0] in known | {"--help"}, f"no option {word} in: {line}"


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "tutorial.md"])
def test_the_python_examples_run(page, tmp_path, monkeypatch, capsys):
    make_video(tmp_path / "shift.mp4", duration=40.0, clicks=[9.0, 25.0])
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec"), {})
    assert capsys.readouterr().out.strip()


WITH_EXAMPLES = [
    path
    for path in sorted((ROOT / "src").rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_in_docstrings_hold(path):
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    outcome = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert outcome.failed == 0
