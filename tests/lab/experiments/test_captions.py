"""Captions that name a class in one of its ways."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from earmark.errors import AnnotationError
from earmark_lab.experiments.captions import NamingCounts, Vocabulary

NOUNS = Vocabulary({"knife": ("knife", "knife:bread"), "cup": ("cup", "mug"), "dish:soap": ()})
VERBS = Vocabulary({"cut": ("cut", "chop", "slice"), "put": ("put", "put-down"), "dry": ("dry",)})


@pytest.mark.parametrize(
    ("caption", "label", "expected"),
    [
        ("Two knives on a board", "knife", True),
        ("A mug of tea", "cup", True),
        ("A cupboard", "cup", False),
        ("dish soap by the sink", "dish:soap", True),
        ("a bar of soap", "dish:soap", False),
        ("a pan", "pan", True),
    ],
)
def test_nouns(caption: str, label: str, expected: bool):
    assert NOUNS.mentions(caption, label) is expected


@pytest.mark.parametrize(
    ("caption", "label", "expected"),
    [
        ("The person is chopping an onion", "cut", True),
        ("Someone sliced bread", "cut", True),
        ("She puts the plate down", "put", True),
        ("He dries a glass", "dry", True),
        ("He looks at a glass", "dry", False),
    ],
)
def test_verbs(caption: str, label: str, expected: bool):
    assert VERBS.mentions(caption, label) is expected


def test_named_counts_add_up():
    total = NamingCounts(1, 2) + NamingCounts(1, 2)
    assert total == NamingCounts(2, 4)
    assert total.accuracy == 0.5
    assert math.isnan(NamingCounts().accuracy)


def test_epic_classes(tmp_path: Path):
    path = tmp_path / "nouns.csv"
    path.write_text("id,key,instances,category\n0,tap,\"['tap', 'water:tap']\",appliances\n")
    assert Vocabulary.from_epic(path).phrases == {"tap": ("tap", "water:tap")}
    path.write_text("id,name\n0,tap\n")
    with pytest.raises(AnnotationError, match="needs the columns key and instances"):
        Vocabulary.from_epic(path)


@pytest.mark.parametrize("instances", ["5", "[1, 2]", "'tap'", "None", "(" * 400])
def test_classes_without_a_list_of_words_are_one_clear_line(tmp_path: Path, instances: str):
    path = tmp_path / "nouns.csv"
    path.write_text(f'key,instances\ntap,"{instances}"\n')
    with pytest.raises(AnnotationError, match="instances, a list of words"):
        Vocabulary.from_epic(path)


def test_the_real_vocabularies(shared_data: Path):
    nouns = Vocabulary.from_epic(shared_data / "epic" / "EPIC_100_noun_classes.csv")
    verbs = Vocabulary.from_epic(shared_data / "epic" / "EPIC_100_verb_classes.csv")
    assert (len(nouns.phrases), len(verbs.phrases)) == (300, 97)
    assert nouns.mentions("A hand stirs the pot with a wooden spoon.", "spoon")
    assert verbs.mentions("A hand picks up a cup.", "take")
    assert not verbs.mentions("A hand washes a cup.", "take")
