"""How well two narrations of EPIC-KITCHENS-100 are told to be the same, by words and by meaning.

    python scripts/activity_table.py EPIC_100_validation.csv

Pairs of one recording, one to twenty actions apart, whose words differ. The truth is the classes of
the annotators: the same verb, and a noun in common. Half of the participants chose the threshold.
"""

from __future__ import annotations

import argparse
import ast
import csv
import zlib
from pathlib import Path

import numpy as np

from earmark.captioning.answer_schema import LEAST_SIMILARITY, ActivityMeaning, same_activity
from earmark.models.sentence_encoder import SentenceEncoder

APART = (1, 2, 5, 20)
Row = dict[str, str]


def pairs_of(path: Path) -> list[tuple[Row, Row]]:
    """Two actions of one recording each, in other words."""
    with path.open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (row["video_id"], row["start_frame"]))
    pairs = [pair for steps in APART for pair in zip(rows, rows[steps:], strict=False)]
    return [
        (one, other)
        for one, other in pairs
        if one["video_id"] == other["video_id"] and one["narration"] != other["narration"]
    ]


def is_same(one: Row, other: Row) -> bool:
    """What the annotators say."""
    nouns = (set(ast.literal_eval(row["all_noun_classes"])) for row in (one, other))
    return one["verb_class"] == other["verb_class"] and not set.isdisjoint(*nouns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("annotations", type=Path)
    pairs = pairs_of(parser.parse_args().annotations)
    meaning = ActivityMeaning(SentenceEncoder())
    meaning.read(row["narration"] for pair in pairs for row in pair)
    print("| participants | pairs | compared by | same found | different called the same |")
    print("|---|---|---|---|---|")
    for half, name in enumerate(("chosen on", "kept aside")):
        own = [pair for pair in pairs if zlib.crc32(pair[0]["participant_id"].encode()) % 2 == half]
        truth = np.array([is_same(*pair) for pair in own])
        texts = [(one["narration"], other["narration"]) for one, other in own]
        for how, agree in (
            ("words", same_activity),
            (f"words or meaning {LEAST_SIMILARITY}", meaning),
        ):
            said = np.array([agree(*pair) for pair in texts])
            shares = (100 * said[truth].mean(), 100 * said[~truth].mean())
            print(f"| {name} | {len(own)} | {how} | {shares[0]:.1f} % | {shares[1]:.1f} % |")


if __name__ == "__main__":
    main()
