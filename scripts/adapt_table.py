"""Prints what `earmark adapt` brings a gate that knows only dense kitchens, on sparse sites.

    python scripts/adapt_table.py DATA RUNS

DATA holds `resound/`, `shift/` and `epic/`; RUNS is where gates and features are kept. Of three
parts of participants two train the heads, of their dense recordings alone and of dense and sparse
ones. Of the third five people teach, and the sparse recordings of the others are judged, in turn:
the dense gate as it is, adapted to answers about 15 % of the windows of the five's sparse
recordings, and the gate that has met sparse marks. All these windows are picks of a run, or a
quarter of them draws of its audit. Composites, not kitchen audio.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import composites
import numpy as np
from adaptation_bench import BUDGETS, DRAWN, TaughtTurn, TurnResult, play_turn
from make_default_gate import gather_all, held_out

from earmark.evaluation.simulated_answers import AnswerSimulator
from earmark.gate.gate import Gate
from earmark.training.dataset import Material, participant
from earmark.training.recipe import Provenance, train
from earmark.training.settings import Settings

TAUGHT = 5
"""Sparse recordings that are answered."""

NOISES = ("noisy", "noisy:seed=1", "noisy:seed=2")
"""Models that err, each in its own way."""


def main() -> None:
    """Train what is missing; then every turn, by perfect and by noisy answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--turns", nargs="*", type=int, default=list(range(9)))
    parser.add_argument("--answers", nargs="*", default=["perfect", *NOISES])
    options = parser.parse_args()
    material = gather_all(options.data, options.runs)
    gates = {kind: trained(kind, material, options.runs) for kind in ("dense", "both")}
    third = {name: material[name] for name in held_out(sorted(material))[0]}
    for answers, drawn in product(options.answers, (0.0, DRAWN)):
        player, results = AnswerSimulator.parse(answers), []
        title = f"{answers}, {'with an audit' if drawn else 'a run alone'}"
        for first in options.turns:
            turn = turn_of(third, first)
            results.append(play_turn(third, gates, turn, player, drawn=drawn))
            show(f"{title}, turn {first}", [results[-1]])
        show(f"{title}, mean of {len(results)} turns", results)


def trained(kind: str, material: Material, runs: Path) -> Gate:
    """The gate of one seed trained on two parts' dense recordings, or on `both`."""
    path = runs / kind / "gate.gate"
    if not path.exists():
        own = {
            name: heard
            for name, heard in material.items()
            if kind == "both" or not name.endswith(composites.SPARSE)
        }
        aside = [name for name in held_out(sorted(material))[0] if name in own]
        origin = Provenance(composites.DATA, composites.LICENCE)
        train(own, Settings(), folder=path.parent, origin=origin, held_out=aside)
    return Gate.load(path)


def turn_of(material: Material, first: int) -> TaughtTurn:
    """Five people, from the `first` on, who teach; the others are judged."""
    people = sorted({participant(name) for name in material if name.endswith(composites.SPARSE)})
    taught = {people[(first + step) % len(people)] for step in range(TAUGHT)}
    sparse = [name for name in material if name.endswith(composites.SPARSE)]
    return TaughtTurn(
        [name for name in material if name not in sparse and participant(name) in taught],
        [name for name in sparse if participant(name) in taught],
        [name for name in sparse if participant(name) not in taught],
    )


def show(title: str, results: list[TurnResult]) -> None:
    """Print the mean coverages, and how much of the gap is closed."""
    print(f"{title}: {', '.join(each.learnt or 'nothing written' for each in results)}")
    means = []
    for kind in ("before", "adapted", "marks"):
        rows = [list(getattr(each, kind).values()) for each in results]
        means.append(100 * np.mean(rows, axis=0))
        print(f"| {kind} | " + " | ".join(f"{share:.1f}" for share in means[-1]) + " |")
    before, adapted, marks = (float(each.mean()) for each in means)
    closed = (adapted - before) / (marks - before)
    print(f"at {BUDGETS}: {closed:.0%} of the gap in mean coverage closed", flush=True)


if __name__ == "__main__":
    main()
