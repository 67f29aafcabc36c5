"""What `adapt` brings a gate that has met only busy recordings, on sparse ones of others.

five people's sparse recordings ──▶ played answers ──▶ learn ──┐
the others' sparse recordings ─────────────────────────────────┴──▶ coverage, beside the gate
                                                                    as it was, and one of marks
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from earmark.errors import LedgerError
from earmark.evaluation.benchmark import Case
from earmark.evaluation.simulated_answers import AnswerSimulator
from earmark.gate.gate import Gate
from earmark.grid import Grid
from earmark.selection.audit_sample import chance_of_activity, draw_evenly
from earmark.selection.rules.coverage import Coverage
from earmark.timeline import FloatArray
from earmark.training.answer_regression import Reheard
from earmark.training.answered_windows import AnsweredRecording, AnsweredWindow, TeachingMaterial
from earmark.training.calibration import Scores, cases, fit_rates, fit_survival, mean_coverage
from earmark.training.dataset import Material
from earmark.training.site_adaptation import learn

BUDGETS = (0.01, 0.02, 0.05, 0.10, 0.25, 0.50)

ASKED = 0.15
"""Share of the windows of each taught recording that are answered."""

DRAWN = 0.25
"""Share of these that are drawn at random, as `earmark audit` draws them, where a run has one."""


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
    gain: float
    """Log-likelihood an answer kept aside, as `learn` says it."""

    @property
    def closed(self) -> float:
        """Share of the gap that is closed, in coverage meaned over the budgets."""
        before, adapted, marks = (
            float(np.mean(list(each.values()))) for each in (self.before, self.adapted, self.marks)
        )
        return (adapted - before) / (marks - before)


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
    asked = cases(scores["dense"], material, turn.taught, base.rates, base.survival)
    heard = [
        Reheard(_answered(case, player, drawn), material[case.recording].takes[0], own)
        for case in asked
        for own in [scores["dense"][case.recording]]
    ]
    try:
        made = learn(TeachingMaterial(tuple(one.part for one in heard)), base, heard=heard)
        adapted, learnt, gain = made.gate, made.learnt, made.gain.mean
    except LedgerError:
        adapted, learnt, gain = None, "", float("nan")
    site = adapted or base
    rescored = {name: site.scorer.score_whole(material[name].features) for name in turn.judged}
    return TurnResult(
        _judge(scores["dense"], material, turn.judged, base),
        _judge(rescored, material, turn.judged, site),
        _judge(scores["both"], material, turn.judged, marks),
        learnt if adapted else "",
        gain,
    )


def _calibrated(gate: Gate, scores: Scores, material: Material, names: Sequence[str]) -> Gate:
    """`gate` with rates and lengths by the marks of `names`."""
    return replace(
        gate,
        rates=fit_rates(scores, material, names, [Grid().length]),
        survival=fit_survival(material, names),
    )


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
    scores: Mapping[str, FloatArray], material: Material, names: Sequence[str], gate: Gate
) -> dict[float, float]:
    return mean_coverage(cases(scores, material, names, gate.rates, gate.survival), budgets=BUDGETS)
