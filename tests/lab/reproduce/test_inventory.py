"""`docs/reproduce.md` lists everything in the paper, and what it says of each is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from earmark_lab.experiments.paper import systems
from earmark_lab.reproduce.reproduction import ARTEFACTS

ROOT = Path(__file__).resolve().parents[3]
STATES = {"annotations", "sound", "weights", "code", "not made"}
NUMERALS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
CONSTANTS = (
    "call window", "gate frame rate", "chunk", "hop", "tau", "negative weight", "AdamW",
    "learning rate", "weight decay", "epochs", "steps", "batch", "head size", "opening thresholds",
    "median filter", "minimum span", "closed gap", "separation",
)  # fmt: skip
"""The rows of the paper's Table IX."""


@pytest.fixture(scope="module")
def listed() -> dict[str, list[str]]:
    """What, file, command and state, by the place in the paper."""
    page = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    table = page.partition("## Everything in the paper")[2]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line[:2] == "| "][1:]
    rows = {line[0]: line[1:] for line in lines}
    assert len(rows) == len(lines), "a place is listed twice"
    return rows


def test_every_table_figure_formula_system_and_constant_is_listed(listed: dict[str, list[str]]):
    expected = {f"Table {numeral}" for numeral in NUMERALS}
    expected |= {f"Fig. {number}" for number in range(1, 6)}
    expected |= {f"Eq. {number}" for number in range(1, 9)}
    expected |= {name for each in systems() if (name := each.paper or each.stands_for)}
    assert expected <= set(listed), expected - set(listed)
    named = {word for place in listed for word in place.split(", ")}
    assert set(CONSTANTS) <= named, set(CONSTANTS) - named


def test_the_paper_has_no_more_than_that(shared_data: Path, listed: dict[str, list[str]]):
    """Counted in its source, where that lies beside the checkout."""
    source = shared_data.parent / "paper" / "paper.tex"
    if not source.is_file():
        pytest.skip("the paper's source is not here")
    text = source.read_text(encoding="utf-8")
    for kind, prefix in (("eq", "Eq. "), ("tab", "Table "), ("fig", "Fig. ")):
        labels = set(re.findall(rf"\\label{{{kind}:(\w+)}}", text))
        assert len(labels) == sum(place.startswith(prefix) for place in listed), labels


def test_every_command_file_and_state_is_real(listed: dict[str, list[str]]):
    named: set[str] = set()
    for place, (_, file, command, state) in listed.items():
        assert state in STATES, place
        if file != "–":
            assert (ROOT / file.strip("`")).is_file(), (place, file)
        for word in re.findall(r"`([^`]+)`", command):
            if word.startswith("tests/"):
                assert (ROOT / word).is_file(), word
            elif not word.startswith(("earmark ", "python ")):
                assert word in ARTEFACTS, (place, word)
                named.add(word)
    assert set(ARTEFACTS) - named == {"sets"} - named, "a table of `reproduce` is not listed"
