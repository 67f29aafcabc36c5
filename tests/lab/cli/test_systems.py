"""Every system of the paper is listed, and what is called ready can be named."""

from __future__ import annotations

import json

import pytest

from earmark.gate.frontline import FRONTLINES, frontline_named
from earmark.gate.gate import default_gate
from earmark.models import EXTRAS, ModelStore
from earmark.models.model_store import checkpoint_folder
from earmark.report.console import Format
from earmark.selection import RULES
from earmark_lab.cli.reproduce import systems as print_systems
from earmark_lab.experiments.paper import READY, list_systems, systems

PAPER = (
    "Full scan", "Uniform", "Random spans", "Short-term energy", "Spectral flux", "PANNs / CNN14",
    "BEATs", "fPaSST", "ATST-Frame", "DASM", "BEATs–SlowFast", "Frame differencing",
    "Optical flow, raw", "Optical flow, ego-comp.", "Rank-only", "AKS", "BOLT", "Ours, the gate",
    "Ours, the rule", "Facility location, greedy",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_setting(monkeypatch):
    monkeypatch.delenv("EARMARK_CHECKPOINTS", raising=False)


def rows(folder) -> dict[str, dict]:
    return {row["name"]: row for row in list_systems(ModelStore(folder), checkpoint_folder())}


def test_the_papers_table_is_there_in_its_order():
    named = [system.paper or system.stands_for for system in systems()]
    assert tuple(filter(None, named)) == PAPER


def test_what_is_not_the_papers_own_says_so(tmp_path):
    """Weights that nobody published cannot be what runs under a paper's name."""
    listed = rows(tmp_path)
    for name, paper in (
        ("gate", "Ours, the gate"),
        ("slowfast", "BEATs–SlowFast"),
        ("dasm", "DASM"),
    ):
        assert (listed[name]["paper"], listed[name]["stands_for"]) == (None, paper)
    card = default_gate().card
    assert f"{card.objective}` head over {card.encoder}" in listed["gate"]["scores"]
    assert f"{card.heads} heads" in listed["gate"]["scores"]
    assert "SlowFast with the EPIC-SOUNDS head" in listed["slowfast"]["scores"]


def test_names_are_those_of_the_registries():
    names = [system.name for system in systems()]
    assert len(set(names)) == len(names)
    for system in systems():
        known = RULES if system.kind == "rule" else FRONTLINES
        assert system.name in known, "it is listed and nobody knows it"
    assert {*FRONTLINES, *RULES} == set(names)


def test_what_is_ready_can_be_made():
    for system in systems():
        if system.kind == "frontline" and system.state(ModelStore()) == READY:
            assert frontline_named(system.name).encoder.channels >= 1


def test_a_checkpoint_that_is_not_here_is_named_with_its_cure(tmp_path):
    listed = rows(tmp_path)
    assert listed["beats"]["state"] in ("needs a checkpoint", "needs an extra")
    assert listed["energy"]["state"] == "ready" and listed["energy"]["cure"] is None
    pytest.importorskip("ai_edge_litert")
    assert listed["yamnet"]["cure"] == "earmark models get yamnet"


def test_an_extra_that_is_missing_is_named_with_its_cure(tmp_path, monkeypatch):
    monkeypatch.setitem(EXTRAS, "vision", "no_such_library")
    listed = rows(tmp_path)
    assert listed["flow"]["state"] == "needs an extra"
    assert listed["flow"]["cure"] == "pip install 'earmark[vision]'"


def test_the_setting_is_looked_at_too(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "Cnn14_DecisionLevelMax.pth").touch()
    monkeypatch.setenv("EARMARK_CHECKPOINTS", str(tmp_path / "checkpoints"))
    listed = rows(tmp_path)
    assert (listed["panns"]["state"], listed["beats"]["state"]) == ("ready", "needs a checkpoint")
    monkeypatch.setenv("EARMARK_CHECKPOINTS", str(tmp_path / "nowhere"))
    assert rows(tmp_path)["panns"]["state"] == "needs a checkpoint"


def test_the_command_names_them_all(capsys):
    print_systems(format=Format.table)
    printed = capsys.readouterr().out
    assert all(system.name in printed for system in systems())
    print_systems(format=Format.json)
    assert len(json.loads(capsys.readouterr().out)) == len(list(systems()))
