"""The whole training, from top to bottom: listen, fit, calibrate, export, prove, keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from earmark.evaluation.benchmark import Case
from earmark.features import encoder_named
from earmark.features.encoder_spec import portable, split_name
from earmark.gate.card import Card
from earmark.gate.gate import Gate
from earmark.gate.rates import RankRates
from earmark.grid import Grid
from earmark.media.atomic_file import replacing
from earmark.timeline import CLOCK_RATE, FloatArray, Track
from earmark.training.calibration import calibrate, fit_survival, mean_coverage
from earmark.training.dataset import Material, fingerprint
from earmark.training.head import Head
from earmark.training.head_export import Panel, export, prove
from earmark.training.objectives import OBJECTIVES
from earmark.training.optimisation import Check, Fitted, fit, score
from earmark.training.settings import Settings
from earmark.training.split import fold
from earmark.training.training_curves import draw_curves


@dataclass(frozen=True, slots=True)
class Origin:
    """What the card of a gate says about where it comes from."""

    data: str
    licence: str
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What a training has just done, for a progress bar."""

    seed: int
    fold: int
    check: Check
    done: int
    """Steps taken so far by all heads."""
    steps: int
    """Steps of the whole training."""


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A gate, those of its single seeds, and how well each did on its dev recordings."""

    gate: Gate
    """All heads of all seeds together."""
    by_seed: dict[int, Gate]
    coverage: dict[str, dict[float, float]]
    """Mean dev coverage of the rule `coverage` by budget: `seed 0`, ..., and `all`."""
    curves: dict[str, list[Check]] = field(default_factory=dict)

    def spread(self, budget: float) -> tuple[float, float]:
        """Mean and standard deviation over the seeds of the dev coverage at `budget`."""
        seen = [row[budget] for name, row in self.coverage.items() if name != "all"]
        return float(np.mean(seen)), float(np.std(seen, ddof=1)) if len(seen) > 1 else 0.0


Watch = Callable[[Step], None]
Heads = dict[tuple[int, int], Head]
"""Heads by seed and by the fold each has not heard."""


def train(
    material: Material,
    settings: Settings,
    *,
    folder: Path,
    origin: Origin,
    watch: Watch = lambda _: None,
) -> Trained:
    """Train a gate on `material` and keep it in `folder`; what is there already is not done again.

    Each seed trains one head for each fold of the participants, without that fold. A recording's
    dev scores are those of the heads that have not heard it, so calibration and dev coverage rest
    on all recordings and none of them was trained on.
    """
    folds = fold(sorted(material), folds=settings.folds)
    run = describe_run(material, settings, folds, origin)
    fitted = fit_heads(material, settings, folds, folder=folder, watch=watch)
    heads = {place: each.head for place, each in fitted.items()}
    gates, coverage = {}, {}
    for seed in settings.all_seeds:
        gates[seed], coverage[f"seed {seed}"] = finish(
            material, settings, folds, heads, seeds=[seed], run=run
        )
        gates[seed].save(folder / f"seed-{seed}.gate")
    gate, coverage["all"] = finish(
        material, settings, folds, heads, seeds=settings.all_seeds, run=run
    )
    gate.save(folder / "gate.gate")
    curves = {f"seed {s}, fold {f}": each.checks for (s, f), each in fitted.items()}
    trained = Trained(gate, gates, coverage, curves)
    keep_run(folder, run, trained)
    return trained


def fit_heads(
    material: Material,
    settings: Settings,
    folds: Sequence[Sequence[str]],
    *,
    folder: Path,
    watch: Watch,
) -> dict[tuple[int, int], Fitted]:
    """One head for each seed and fold."""
    fitted: dict[tuple[int, int], Fitted] = {}
    steps = settings.seeds * len(folds) * settings.steps
    for seed in settings.all_seeds:
        for place, held_out in enumerate(folds):
            before = len(fitted) * settings.steps

            def measure(head: Head, names: Sequence[str] = held_out) -> float:
                return dev_coverage(head, material, settings, names)

            def report(check: Check, seed: int = seed, place: int = place, b: int = before) -> None:
                watch(Step(seed, place, check, b + check.step, steps))

            fitted[seed, place] = fit(
                [heard for name, heard in sorted(material.items()) if name not in held_out],
                settings,
                seed=seed,
                measure=measure,
                checkpoint=folder / "checkpoints" / f"seed-{seed}-fold-{place}.pt",
                progress=report,
            )
    return fitted


def dev_coverage(head: Head, material: Material, settings: Settings, names: Sequence[str]) -> float:
    """Mean coverage of `names` at a quarter of the calls, by rank of the score: no calibration."""
    objective, judged = OBJECTIVES[settings.objective], []
    survival = fit_survival(material, [name for name in material if name not in names])
    for name in names:
        heard = material[name]
        track = Track(score(head, objective, heard.features))
        windows = Grid().score(
            track, heard.duration, rates=RankRates(contrast=0.8), survival=survival
        )
        judged.append(Case(name, "dev", windows, heard.actions))
    return mean_coverage(judged, budgets=[0.25])[0.25]


def unheard_scores(
    material: Material,
    settings: Settings,
    folds: Sequence[Sequence[str]],
    heads: Mapping[tuple[int, int], Head],
    seeds: Sequence[int],
) -> dict[str, FloatArray]:
    """The scores of every recording by the heads that have not heard it, meaned over `seeds`."""
    objective = OBJECTIVES[settings.objective]
    return {
        name: np.mean(
            [score(heads[seed, place], objective, material[name].features) for seed in seeds],
            axis=0,
        )
        for place, held_out in enumerate(folds)
        for name in held_out
    }


def finish(
    material: Material,
    settings: Settings,
    folds: Sequence[Sequence[str]],
    heads: Mapping[tuple[int, int], Head],
    *,
    seeds: Sequence[int],
    run: Mapping[str, Any],
) -> tuple[Gate, dict[float, float]]:
    """The gate of `seeds`, calibrated, exported and proved, and its dev coverage by budget."""
    scores = unheard_scores(material, settings, folds, heads, seeds)
    calibration = calibrate(scores, material, folds)
    chosen = [head for (seed, _), head in heads.items() if seed in seeds]
    panel = Panel(chosen, OBJECTIVES[settings.objective]).eval()
    encoder, (name, _) = encoder_named(settings.encoder), split_name(settings.encoder)
    weights = export(panel)
    card = Card(
        encoder=name,
        encoder_options=portable(encoder),
        channels=encoder.channels,
        clock_rate=CLOCK_RATE,
        context=panel.context,
        objective=settings.objective,
        heads=len(chosen),
        seeds=tuple(seeds),
        data=run["data"],
        data_hash=run["data_hash"],
        licence=run["licence"],
        commit=run["commit"],
        recordings=run["recordings"],
        actions=run["actions"],
        hours=run["hours"],
        settings=replace(settings, encoder=name).to_json(),
        honesty=calibration.honesty,
    )
    gate = Gate(
        card=card,
        weights=weights,
        rates=calibration.rates,
        survival=calibration.survival,
        points=calibration.points,
        misses=calibration.misses,
        separation=calibration.separation,
    )
    examples = sorted(material, key=lambda name: material[name].duration)[:3]
    prove(panel, gate.scorer, [material[name].features for name in examples])
    return gate, calibration.coverage


def describe_run(
    material: Material, settings: Settings, folds: Sequence[Sequence[str]], origin: Origin
) -> dict[str, Any]:
    """Everything that `run.json` says before the first step."""
    return {
        "settings": settings.to_json(),
        "seeds": list(settings.all_seeds),
        "commit": origin.commit,
        "data": origin.data,
        "licence": origin.licence,
        "data_hash": fingerprint(material),
        "recordings": len(material),
        "actions": sum(len(heard.actions) for heard in material.values()),
        "hours": round(sum(heard.duration for heard in material.values()) / 3600, 4),
        "folds": [list(each) for each in folds],
    }


def keep_run(folder: Path, run: Mapping[str, Any], trained: Trained) -> None:
    """Write `run.json` and the curves beside the gates."""
    kept = {
        **run,
        "coverage": {
            name: {f"{budget:g}": round(value, 5) for budget, value in row.items()}
            for name, row in trained.coverage.items()
        },
        "curves": {name: [c.to_json() for c in checks] for name, checks in trained.curves.items()},
    }
    with replacing(folder / "run.json") as scratch:
        scratch.write_text(json.dumps(kept, indent=1, allow_nan=False), encoding="utf-8")
    with replacing(folder / "curves.png") as scratch:
        draw_curves(trained.curves, scratch)
