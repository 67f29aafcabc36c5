"""Words find the sounds they mean, and say how."""

from __future__ import annotations

import pytest

from earmark.evidence.sound_query import describe_matches, match_sounds, stems
from earmark.models import ModelStore
from earmark.models.sessions import class_names
from quiet_shift import require_minilm, require_yamnet

NAMES = ("Drill", "Power tool", "Tools", "Water tap, faucet", "Speech", "Hammer", "Dog", "Bark")


@pytest.mark.parametrize("words", ["drill", "Drilling", "someone drills a hole"])
def test_a_drill_is_found_by_its_name_and_so_is_what_takes_it_in(words):
    found = match_sounds(words, NAMES)
    assert list(found) == ["Drill", "Power tool", "Tools"]
    assert found["Drill"].reason == ""
    assert found["Power tool"].reason == "includes drill"
    assert found["Power tool"].weight < found["Drill"].weight


def test_a_broad_word_finds_its_kinds():
    found = match_sounds("tools", NAMES)
    assert next(iter(found)) == "Tools"
    assert {"Tools", "Drill", "Hammer", "Power tool"} == set(found)
    assert found["Hammer"].reason == "a kind of tools"


def test_either_name_of_a_sound_is_enough():
    assert "Water tap, faucet" in match_sounds("the faucet", NAMES)
    assert match_sounds("water", NAMES) == {}


def test_what_stands_in_brackets_is_no_name_of_its_own():
    """Else `someone chops food` listens for frying."""
    names = ("Chopping (food)", "Frying (food)", "Dog")
    assert set(match_sounds("someone chops food", names)) == {"Chopping (food)"}
    assert set(match_sounds("food", names)) == {"Chopping (food)", "Frying (food)"}


def test_what_is_listened_for_is_told_in_a_line():
    found = match_sounds("tools", NAMES)
    assert describe_matches(found, most=2) == "Tools; Drill (a kind of tools); 2 more"
    assert describe_matches(found).count(";") == 3


@pytest.mark.slow
def test_one_who_names_a_kind_does_not_mean_all_the_others():
    require_yamnet()
    names = class_names(ModelStore().find("yamnet"))
    found = match_sounds("violin", names, require_minilm())
    assert {"Violin, fiddle", "Bowed string instrument", "Musical instrument"} <= set(found)
    assert found["Musical instrument"].weight < 1 and "Snare drum" not in found


@pytest.mark.slow
def test_a_guess_by_meaning_is_told_as_one_and_takes_nothing_with_it():
    require_yamnet()
    names = class_names(ModelStore().find("yamnet"))
    (guess,) = match_sounds("xyzzy", names, require_minilm()).values()
    assert guess.reason == "is nearest in meaning to 'xyzzy'"


def test_nothing_is_meant_by_nothing_and_by_other_words():
    assert match_sounds("  ", NAMES) == {}
    assert match_sounds("violin", NAMES) == {}


def test_words_are_stemmed_as_search_does():
    assert stems("Rinsing, ceramic-tiles!") == ["rins", "ceram", "tile"]


@pytest.mark.slow
def test_what_is_meant_itself_is_told_before_its_kinds():
    require_yamnet()
    found = match_sounds(
        "someone speaks", class_names(ModelStore().find("yamnet")), require_minilm()
    )
    assert next(iter(found)) == "Speech"
    assert "Conversation" in found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "name"),
    [("talking", "Conversation"), ("hoover", "Vacuum cleaner"), ("sawing wood", "Sawing")],
)
def test_meaning_finds_other_words(words, name):
    require_yamnet()
    encoder = require_minilm()
    names = class_names(ModelStore().find("yamnet"))
    assert name in match_sounds(words, names, encoder)
    assert len(match_sounds(words, names, encoder)) < 40
