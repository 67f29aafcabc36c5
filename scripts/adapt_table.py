"""Prints what `earmark lab adapt` brings a gate that knows only dense kitchens, on sparse sites.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import composites
import numpy as np
from make_default_gate import gather_all, held_out

from earmark.errors import RunError
from earmark.gate.gate import Gate
from earmark.grid import Grid
from earmark.selection.audit_sample import chance_of_activity, draw_evenly
from earmark.selection.rules.coverage import Coverage
from earmark_lab.experiments.benchmark import Case
from earmark_lab.experiments.simulated_answers import AnswerSimulator
from earmark_lab.training.answered_windows import (
    AnsweredRecording,
    AnsweredWindow,
    TeachingMaterial,
)
from earmark_lab.training.calibration import cases, mean_coverage
from earmark_lab.training.dataset import Material, participant
from earmark_lab.training.gate_training import Provenance, train_gate
from earmark_lab.training.rate_fit import Scores, fit_all, hedged
from earmark_lab.training.settings import Settings
from earmark_lab.training.site_adaptation import Reheard, learn

BUDGETS = (0.01, 0.02, 0.05, 0.10, 0.25, 0.50)

ASKED = 0.15
"""Share of the windows of each taught recording that are answered."""

DRAWN = 0.25
"""Share of these that are drawn at random, as `earmark audit` draws them, where a run has one."""

TAUGHT = 5
"""Sparse recordings that are answered."""

NOISES = ("noisy", "noisy:seed=1", "noisy:seed=2")
"""Models that err, each in its own way."""


@dataclass(frozen=True, slots=True)
class TaughtTurn:
    """Who teaches, and who is judged."""

    busy: Sequence[str]
    """Recordings that the base gate's rates know."""
    taught: Sequence[str]
    """Sparse recordings that are answered."""
    judged: Sequence[str]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """Mean coverage of the judged recordings by budget."""

    before: dict[float, float]
    adapted: dict[float, float]
    marks: dict[float, float]
    """By a gate trained on sparse marks, with rates by the marks of the taught recordings too."""
    learnt: str
    """What was learnt; empty where nothing was written."""


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
        train_gate(own, Settings(), folder=path.parent, origin=origin, held_out=aside)
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


def play_turn(
    material: Material,
    gates: Mapping[str, Gate],
    turn: TaughtTurn,
    player: AnswerSimulator,
    *,
    drawn: float = 0.0,
) -> TurnResult:
    """Adapt `gates["dense"]` to the taught recordings, and judge it beside `gates["both"]`.

    Of the answers `drawn` is the share that an audit draws; there are as many in all without it.
    """
    names = [*turn.busy, *turn.taught, *turn.judged]
    scores = {
        kind: {name: gate.scorer.score_whole(material[name].features) for name in names}
        for kind, gate in gates.items()
    }
    base = _calibrated(gates["dense"], scores["dense"], material, turn.busy)
    known = [*turn.busy, *turn.taught]
    marks = _calibrated(gates["both"], scores["both"], material, known)
    asked = cases(scores["dense"], material, turn.taught, base.rates, base.lengths)
    heard = [
        Reheard(_answered(case, player, drawn), material[case.recording].takes[0], own)
        for case in asked
        for own in [scores["dense"][case.recording]]
    ]
    try:
        made = learn(TeachingMaterial(tuple(one.part for one in heard)), base, heard=heard)
        adapted, learnt = made.gate, made.learnt
    except RunError:
        adapted, learnt = None, ""
    site = adapted or base
    rescored = {name: site.scorer.score_whole(material[name].features) for name in turn.judged}
    return TurnResult(
        _judge(scores["dense"], material, turn.judged, base),
        _judge(rescored, material, turn.judged, site),
        _judge(scores["both"], material, turn.judged, marks),
        learnt if adapted else "",
    )


def _calibrated(gate: Gate, scores: Scores, material: Material, names: Sequence[str]) -> Gate:
    """`gate` with rates and lengths by the marks of `names`."""
    fitted = fit_all(scores, material, names, windows=[Grid().length])
    return replace(gate, rates=fitted.rates, lengths=fitted.lengths)


def _answered(case: Case, player: AnswerSimulator, drawn: float) -> AnsweredRecording:
    """What the player says of the windows that `coverage` picks, and of those an audit draws."""
    windows = case.windows
    said = player.activities(case.recording, case.actions, windows)
    calls = round(ASKED * len(windows))
    draws = round(drawn * calls)
    picks = Coverage()(windows, budget=calls - draws)
    places = {windows.window_at(pick.start) for pick in picks}
    if draws:
        rest = np.setdiff1d(np.arange(len(windows)), sorted(places))
        rng = np.random.default_rng(0)
        places.update(rest[draw_evenly(chance_of_activity(windows)[rest], draws, rng)].tolist())
    known = (AnsweredWindow(place, bool(said[place]), said[place]) for place in sorted(places))
    return AnsweredRecording(case.recording, windows, tuple(known))


def _judge(
    scores: Scores, material: Material, names: Sequence[str], gate: Gate
) -> dict[float, float]:
    return mean_coverage(
        cases(scores, material, names, hedged(gate.rates, gate.hedge), gate.lengths),
        budgets=BUDGETS,
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
