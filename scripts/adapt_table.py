"""Prints what `earmark adapt` brings a gate whose rates know only dense kitchens, on sparse sites.

    python scripts/adapt_table.py DATA

DATA holds `resound/`, `shift/` and `epic/`. Only the participants whom the built-in gate's head has
not met take part, five of them to learn from and the rest to judge on, in turn: rates and lengths
from the dense recordings of the five, the same adapted to the answers about 15 % of the windows of
their sparse ones, and rates from the marks of both. Composites, not kitchen audio.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import composites
import numpy as np
from make_default_gate import held_out

from earmark.errors import LedgerError
from earmark.evaluation.annotations.media_match import find_media
from earmark.evaluation.benchmark import Case
from earmark.evaluation.played_answers import AnswerPlayer, main_actions
from earmark.gate.gate import Gate, default_gate
from earmark.media import Meter, open_recording
from earmark.selection.audit_sample import chance_of_activity
from earmark.selection.rules.coverage import Coverage
from earmark.timeline import FloatArray
from earmark.training.answered_windows import (
    AnsweredRecording,
    AnsweredWindow,
    TeachingMaterial,
)
from earmark.training.calibration import cases, fit_rates, fit_survival, mean_coverage
from earmark.training.dataset import Material, TrainingRecording
from earmark.training.site_adaptation import learn
from earmark.training.split import participant

BUDGETS = (0.01, 0.02, 0.05, 0.10, 0.25, 0.50)
ASKED = 0.15
TAUGHT = 5
"""Sparse recordings that are answered."""

NO_FEATURES = np.zeros((0, 0), dtype=np.float16)


def main() -> None:
    """Hear the recordings once; then by perfect and by noisy answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    scores, material = hear(options.data)
    for answers in ("perfect", "noisy"):
        tell(scores, material, answers)


def tell(scores: dict[str, FloatArray], material: Material, answers: str) -> None:
    """Learn and judge in turn, and print the means."""
    people = sorted({participant(name) for name in material if name.endswith(composites.SPARSE)})
    rows: dict[str, list[list[float]]] = {"dense": [], "adapted": [], "marks": []}
    written = 0
    for first in range(len(people)):
        taught = [people[(first + step) % len(people)] for step in range(TAUGHT)]
        gates = learn_each(scores, material, taught, AnswerPlayer.parse(answers))
        written += gates["adapted"].rates != gates["dense"].rates
        judged = [
            name
            for name in material
            if name.endswith(composites.SPARSE) and participant(name) not in taught
        ]
        for kind, gate in gates.items():
            found = cases(scores, material, judged, gate.rates, gate.survival)
            rows[kind].append(judge(found))
    print(f"{answers} answers: written in {written} of {len(people)} turns")
    print("| rates | log-likelihood a window | actions expected / real |", *BUDGETS, sep=" | ")
    for kind, values in rows.items():
        mean = np.mean(values, axis=0).tolist()
        shares = " | ".join(f"{100 * share:.1f}" for share in mean[2:])
        print(f"| {kind} | {mean[0]:.3f} | {mean[1]:.2f} | {shares} |")
        print("   each turn", [f"{each[0]:.3f}/{each[1]:.2f}" for each in values])


def hear(data: Path) -> tuple[dict[str, FloatArray], Material]:
    """Scores and actions of everybody whom the built-in gate's head has not met."""
    marked = composites.annotations(data)
    names = held_out(sorted(marked.recordings))[0]
    files = find_media(composites.media(data))
    line = default_gate().frontline()
    scores: dict[str, FloatArray] = {}
    material: Material = {}
    for name in names:
        recording = open_recording(files[name])
        tracks = list(line(recording, meter=Meter()))
        scores[name] = np.concatenate([track.values for track in tracks])
        material[name] = TrainingRecording(
            name, recording.duration, (NO_FEATURES,), tuple(marked.recordings[name])
        )
    return scores, material


def learn_each(
    scores: dict[str, FloatArray], material: Material, taught: Sequence[str], player: AnswerPlayer
) -> dict[str, Gate]:
    """The built-in head with rates by dense marks, by answers beside them, and by all marks."""
    known = [name for name in material if participant(name) in taught]
    dense = [name for name in known if not name.endswith(composites.SPARSE)]
    sparse = [name for name in known if name.endswith(composites.SPARSE)]
    fitted = {
        kind: replace(
            default_gate(),
            rates=fit_rates(scores, material, names),
            survival=fit_survival(material, names),
        )
        for kind, names in (("dense", dense), ("marks", known))
    }
    base = fitted["dense"]
    asked = [
        answered(case, player)
        for case in cases(scores, material, sparse, base.rates, base.survival)
    ]
    try:
        made = learn(TeachingMaterial(tuple(asked)), base)
    except LedgerError as error:
        print(f"{' '.join(taught)}: {error}", flush=True)
        return {"dense": base, "adapted": base, "marks": fitted["marks"]}
    print(
        f"{' '.join(taught)}: {made.answers} answers, {made.active:.0%} active, expected "
        f"{made.expected:.0%}, {made.scale}, median {made.median:.1f} s, gain "
        f"{made.gain.mean:.3f} (at least {made.gain.low:.3f})",
        flush=True,
    )
    return {"dense": base, "adapted": made.gate or base, "marks": fitted["marks"]}


def answered(case: Case, player: AnswerPlayer) -> AnsweredRecording:
    """What the player says of the windows that `coverage` picks."""
    said = player.activities(case.recording, case.actions, case.windows)
    picks = Coverage()(case.windows, budget=round(ASKED * len(case.windows)))
    places = sorted(case.windows.window_at(pick.start) for pick in picks)
    known = (AnsweredWindow(place, bool(said[place]), said[place]) for place in places)
    return AnsweredRecording(case.recording, case.windows, tuple(known))


def judge(found: Sequence[Case]) -> list[float]:
    """Log-likelihood a window, expected over real actions, coverage by budget."""
    told = []
    for case in found:
        chance = np.clip(chance_of_activity(case.windows), 1e-4, 1 - 1e-4)
        active = main_actions(case.actions, case.windows) >= 0
        told.append(np.where(active, np.log(chance), np.log1p(-chance)).mean())
    totals = [(case.windows.rates.sum(), len(case.actions)) for case in found]
    expected, real = np.sum(totals, axis=0)
    covered = mean_coverage(found, budgets=BUDGETS)
    return [float(np.mean(told)), float(expected / real), *covered.values()]


if __name__ == "__main__":
    main()
