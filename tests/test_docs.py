"""What the documentation says is what the code does."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
import shlex
import sys
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from earmark import errors
from earmark.cli.app import COMMANDS, app, commands_in
from earmark.features import ENCODERS
from earmark.pipeline.run_plan import PARTS
from earmark.selection import RULES
from making import make_video

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference.md"
GUIDES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")]
PAGES = [*GUIDES, ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_reference_is_what_the_code_says():
    written = runpy.run_path(str(ROOT / "scripts" / "reference.py"))["reference"]()
    assert REFERENCE.read_text(encoding="utf-8") == written, "run `make docs`"
    assert "\n| `` |" not in written, "every option has a name"


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


def anchors_of(page: Path) -> set[str]:
    """What a link can name on a page: its headings, as a browser of Markdown spells them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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
    while (known := commands_in(command)) and words:
        assert words[0] in known or "spans" in known, f"no command {words[0]!r} in: {line}"
        is_named = words[0] in known
        command = known[words[0] if is_named else "spans"]
        words = words[1:] if is_named else words
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    for word in words:
        if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
            assert word.split("=")[0] in known | {"--help"}, f"no option {word} in: {line}"


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/python.md"])
def test_the_python_examples_run(page, tmp_path, monkeypatch, capsys):
    make_video(tmp_path / "shift.mp4", duration=40.0, clicks=[9.0, 25.0])
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, page, "exec"), {})
    assert capsys.readouterr().out.strip()


def test_every_choice_of_a_plan_is_listed():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    choices = {each.name for kind in PARTS.values() for each in fields(kind)}
    instead = {"grid", "beside", "is_looked_at"}  # `window`, `sounds` and `pictures` make them
    assert [name for name in sorted(choices - instead) if f"`{name}`" not in page] == []


def test_every_protocol_of_a_seam_is_where_the_page_says():
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(earmark\.\w+)` \|[^|]+\| `([\w.]+)` \|", page, re.MULTILINE)
    assert len(rows) == 9
    for _, protocol in rows:
        module, _, name = protocol.rpartition(".")
        assert hasattr(importlib.import_module(module), name), protocol


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WALK = re.findall(r"^(\d+)\. `([\w/]+\.py)` `([\w.]+)`", ARCHITECTURE, re.MULTILINE)


def test_the_map_names_every_package_and_only_files_that_exist():
    source = ROOT / "src" / "earmark"
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", ARCHITECTURE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    there = {path.stem for path in source.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named == there - {"__init__", "__main__", "__pycache__", "py"}
    files = re.findall(r"`([\w/]+\.py)`", ARCHITECTURE)
    assert [file for file in files if not any((r / file).exists() for r in (source, ROOT))] == []


@pytest.mark.parametrize(
    ("word", "home"),
    {
        "retry": "captioning/dispatch.py",
        "backoff": "captioning/limits.py",
        "prefetch": "media/prefetch.py",
        "cache": "gate/score_cache.py",
        "worker pool": "distributed/worker_pool.py",
        "resume": "pipeline/resume.py",
        "disk reserve": "ledger/run_writer.py",
        "model store": "models/model_store.py",
        "report data": "reporting/report_page.py",
        "batch import": "pipeline/batch.py",
    }.items(),
)
def test_a_word_of_the_field_is_found_where_it_is_looked_for(word, home):
    path = ROOT / "src" / "earmark" / home
    assert word in f"{path.stem.replace('_', ' ')} {path.read_text(encoding='utf-8')}".lower()


def test_a_caption_call_takes_the_steps_of_the_walk_in_their_order(tmp_path):
    """Followed on a real call: each function named is entered, for the first time in this order."""
    assert [int(number) for number, _, _ in WALK] == list(range(1, len(WALK) + 1))
    assert len(WALK) <= 12
    make_video(tmp_path / "shift.mp4", duration=12.0, clicks=[5.0])
    wanted = [(file, name) for _, file, name in WALK]
    entered: dict[tuple[str, str], None] = {}

    def note(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and "/earmark/" in code.co_filename:
            file = Path(code.co_filename).as_posix().rpartition("/earmark/")[2]
            entered.setdefault((file, code.co_qualname))

    words = f"caption {tmp_path}/shift.mp4 --budget 2 --no-cache --run {tmp_path}/run"
    sys.setprofile(note)
    try:
        with pytest.raises(SystemExit) as leaving:
            app(words.split())
    finally:
        sys.setprofile(None)
    assert leaving.value.code == 0
    assert [place for place in entered if place in wanted] == wanted
    functions = [place for place in entered if "<" not in place[1].replace("<locals>", "")]
    order = [file for file, _ in functions if file.startswith(("cli/", "pipeline/"))]
    switches = sum(before != after for before, after in pairwise(order))
    assert (len(order) <= 60, len(set(order)) <= 12, switches <= 25) == (True, True, True)


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
