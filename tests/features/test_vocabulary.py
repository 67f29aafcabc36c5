"""The lists of classes: whole, in the order of the outputs, and what of them is handiwork."""

from __future__ import annotations

import csv

import pytest

from earmark.features.sound_tags import VOCABULARIES, class_names, not_manipulation


@pytest.mark.parametrize(("vocabulary", "count"), VOCABULARIES.items())
def test_every_list_is_whole_and_names_nothing_twice(vocabulary, count):
    names = class_names(vocabulary)
    assert len(names) == len(set(names)) == count


def test_the_order_is_that_of_the_outputs():
    strong = class_names("audioset-strong")
    assert list(strong) == sorted(strong)
    weak = class_names("audioset")
    assert [weak[place] for place in (0, 137, 364, 506, 526)] == [
        "Speech",
        "Music",
        "Dishes, pots, and pans",
        "Inside, small room",
        "Field recording",
    ]


def test_epic_sounds_classes_are_those_of_the_annotations(shared_data):
    with (shared_data / "epic" / "EPIC_Sounds_validation.csv").open(encoding="utf-8") as file:
        found = {int(row["class_id"]): row["class"] for row in csv.DictReader(file)}
    assert tuple(found[place] for place in range(44)) == class_names("epic-sounds")


def test_what_is_excluded_is_in_some_list():
    known = {name for vocabulary in VOCABULARIES for name in class_names(vocabulary)}
    assert not not_manipulation() - known


@pytest.mark.parametrize(("vocabulary", "left"), [("epic-sounds", 42), ("audioset", 118)])
def test_some_classes_are_left(vocabulary, left):
    kept = [name for name in class_names(vocabulary) if name not in not_manipulation()]
    assert len(kept) == left


def test_hands_are_heard_and_voices_are_not():
    kept = {name for name in class_names("audioset-strong") if name not in not_manipulation()}
    assert {"Chopping (food)", "Water tap, faucet", "Hammer", "Drawer open or close"} <= kept
    assert not {"Speech", "Music", "Dog", "Rain", "Siren", "Inside, small room"} & kept


def test_an_unknown_list_names_the_known():
    with pytest.raises(ValueError, match="audioset-strong, audioset, epic-sounds"):
        class_names("esc-50")
