"""What the documentation says is what the code does."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from earmark import errors
from earmark.cli.app import COMMANDS, app
from earmark.gate.frontline import FRONTLINES
from earmark.selection import RULES
from earmark.settings import all_settings
from making import make_video

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference.md"
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
GUIDES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")]
PAGES = [*GUIDES, ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, *sorted((ROOT / "experiments").rglob("*.md"))]


def test_the_reference_is_what_the_code_says():
    written = SCRIPT["reference"]()
    assert REFERENCE.read_text(encoding="utf-8") == written, "run `make docs`"
    assert "\n| `` |" not in written, "every option has a name"


@pytest.mark.parametrize(
    "name",
    [
        *COMMANDS,
        *RULES,
        *FRONTLINES,
        *(name for name in vars(errors) if name[0].isupper()),
    ],
)
def test_every_command_rule_encoder_and_error_is_documented(name):
    assert re.search(rf"`(earmark )?{re.escape(name)}[` ]", REFERENCE.read_text(encoding="utf-8"))


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    words = ["-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").exists()


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def anchors_of(page: Path) -> set[str]:
    """What a link can name on a page: its headings, as a browser of Markdown spells them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_to_a_heading_lead_to_one(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        assert anchor in anchors_of(page.parent / target if target else page), f"#{anchor}"


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
    while (known := SCRIPT["children"](command)) and words:
        assert words[0] in known, f"no command {words[0]!r} in: {line}"
        command = known[words.pop(0)]
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    options |= {"--help"}
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
            flag = word.split("=")[0]
            assert flag in options, f"no option {flag} in: {line}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "NOTICE"], ids=lambda page: page.name)
def test_every_module_that_a_page_names_exists(page):
    named = re.findall(
        r"(?<![\w./-])(?:src/)?([a-z_]+(?:/[a-z_]+)*/[a-z_0-9]+\.py)\b", page.read_text("utf-8")
    )
    roots = (ROOT, ROOT / "src", ROOT / "src" / "earmark", ROOT / "src" / "earmark_lab")
    assert [path for path in named if not any((root / path).is_file() for root in roots)] == []


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/python.md"])
def test_the_python_examples_run(page, tmp_path, monkeypatch, capsys):
    make_video(tmp_path / "shift.mp4", duration=40.0, clicks=[9.0, 25.0])
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out.strip()


def test_every_setting_is_in_the_reference():
    page = REFERENCE.read_text(encoding="utf-8")
    assert [one.key for one in all_settings() if f"| `{one.key}` |" not in page] == []


def test_every_experiment_is_in_the_index_once():
    index = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[([\w-]+\.md)\]", index, re.MULTILINE)
    pages = {page.name for page in (ROOT / "experiments").glob("*.md")} - {"README.md"}
    assert sorted(listed) == sorted(pages)


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
