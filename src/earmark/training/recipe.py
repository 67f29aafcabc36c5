"""The whole training of a gate: fit heads, export them, test the export, calibrate, save."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from earmark.evaluation.annotations.actions import Action
from earmark.features import encoder_named
from earmark.features.encoder import SoundEncoder
from earmark.features.encoder_spec import portable_options, split_name
from earmark.gate.gate import Card, Gate, OnnxScorer
from earmark.gate.rates import RankRates
from earmark.media.atomic_file import replacing, write_whole
from earmark.timeline import CLOCK_RATE
from earmark.training.calibration import (
    calibrate,
    cases,
    fit_survival,
    mean_coverage,
    separated_coverage,
)
from earmark.training.dataset import (
    Material,
    TalkMixture,
    TrainingRecording,
    check_actions,
    fingerprint,
    fold,
    participant,
)
from earmark.training.head import Context, Head, TalkDetector, in_seconds
from earmark.training.head_export import Panel, export, prove
from earmark.training.objectives import NEAR
from earmark.training.optimisation import Check, fit, fit_detector, make_context, make_head, score
from earmark.training.settings import Settings
from earmark.training.synthetic_recordings import ALONE, make_recording, make_room
from earmark.training.synthetic_talk import Voices


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a gate's training data and code, for its card."""

    data: str
    licence: str
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """Progress of a training, for a progress bar."""

    seed: int
    check: Check
    done: int
    """Steps taken so far by all heads."""
    steps: int
    """Steps of the whole training."""


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A gate, the gates of its single seeds, and their coverage on the dev recordings."""

    gate: Gate
    """The heads of all seeds, averaged."""
    by_seed: dict[int, Gate]
    coverage: dict[str, dict[float, float]]
    """Mean dev coverage of the rule `coverage` by budget: `seed 0`, ..., and `all`."""
    curves: dict[str, list[Check]] = field(default_factory=dict)
    held_out: tuple[str, ...] = ()
    """Names of the dev recordings."""

    def spread(self, budget: float) -> tuple[float, float]:
        """Mean and standard deviation over the seeds of the dev coverage at `budget`.

        The deviation of a single seed is 0.
        """
        shares = [row[budget] for name, row in self.coverage.items() if name != "all"]
        return float(np.mean(shares)), float(np.std(shares, ddof=1)) if len(shares) > 1 else 0.0


Watch = Callable[[Step], None]

RUN_FIELDS = ("data", "data_hash", "licence", "commit", "recordings", "actions", "hours")
"""Fields of a gate's card that come from `describe_run`."""


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Trained networks by seed, in order: a head and, if the settings have one, a context each.

    With voices there is also a detector of talk.
    """

    settings: Settings
    detector: TalkDetector | None = None
    heads: dict[int, Head] = field(default_factory=dict)
    contexts: dict[int, Context] = field(default_factory=dict)
    """Empty without a context."""
    curves: dict[str, list[Check]] = field(default_factory=dict)
    """Checks made while training each head: `seed 0`, ..."""

    def panel(self, seeds: Sequence[int]) -> Panel:
        """The heads and contexts of `seeds`, to be averaged."""
        heads = [self.heads[seed] for seed in seeds]
        contexts = [self.contexts[seed] for seed in seeds if seed in self.contexts]
        return Panel(heads, contexts, self.settings.loss, self.settings.loudness, self.detector)


def train(
    material: Material,
    settings: Settings,
    *,
    folder: Path,
    origin: Provenance,
    held_out: Sequence[str] | None = None,
    lone: Material | None = None,
    voices: Voices | None = None,
    watch: Watch = lambda _: None,
) -> Trained:
    """Train a gate on `material` and save it in `folder`; continues from checkpoints found there.

    The participants are divided into folds. The heads are trained without the first fold; the
    exported gate is then calibrated on it. So rates, thresholds and promises are measured with the
    gate as it ships, on recordings that no part of it was trained on. `held_out` names recordings
    to calibrate on instead of the first fold. The context is also trained on `lone`, see
    `gather_lone`, without the participants held out. With `voices` there is a detector of talk;
    otherwise the context learns from synthetic talk.
    """
    held_out = held_out or fold(sorted(material), folds=settings.folds)[0]
    run = describe_run(material, settings, held_out, origin)
    ensemble = fit_heads(
        material, settings, held_out, folder=folder, lone=lone, voices=voices, watch=watch
    )
    gates, coverage = finish_seeds(material, ensemble, run, folder=folder)
    gate, coverage["all"] = gates[settings.first_seed], coverage[f"seed {settings.first_seed}"]
    if settings.seeds > 1:
        gate, coverage["all"] = finish(material, ensemble, run, seeds=settings.all_seeds)
    gate.save(folder / "gate.gate")
    trained = Trained(gate, gates, coverage, ensemble.curves, tuple(held_out))
    keep_run(folder, run, trained)
    return trained


def finish_seeds(
    material: Material, ensemble: Ensemble, run: Mapping[str, Any], *, folder: Path
) -> tuple[dict[int, Gate], dict[str, dict[float, float]]]:
    """The gate of each single seed, saved in `folder`, and its dev coverage as `seed 0`, ..."""
    gates, coverage = {}, {}
    for seed in ensemble.heads:
        gates[seed], coverage[f"seed {seed}"] = finish(material, ensemble, run, seeds=[seed])
        gates[seed].save(folder / f"seed-{seed}.gate")
    return gates, coverage


def train_each_tau(
    material: Material, settings: Settings, taus: Sequence[float], *, folder: Path, **run: Any
) -> Trained:
    """Train with each of `taus`, and keep the gate of the highest dev coverage.

    Coverage is that of the rule `separated` at a quarter of the calls. `run` is passed on to
    `train`. With one tau this is just `train`. With several, each is trained in a subfolder of
    `folder`; the files of the best are copied to `folder`, and the coverage of each is added to
    `run.json` as `taus`.
    """
    if len(taus) == 1:
        return train(material, replace(settings, tau=taus[0]), folder=folder, **run)
    done = {
        tau: train(material, replace(settings, tau=tau), folder=folder / f"tau-{tau:g}", **run)
        for tau in taus
    }
    reached = {}
    for tau, trained in done.items():
        gate, names = trained.gate, trained.held_out
        scores = {name: gate.scorer.score_whole(material[name].features) for name in names}
        judged = cases(scores, material, names, gate.rates, gate.survival)
        reached[tau] = separated_coverage(judged, gate.separation)
    best = max(reached, key=lambda tau: reached[tau])
    for path in (folder / f"tau-{best:g}").iterdir():
        if path.is_file():
            write_whole(folder / path.name, path.read_bytes())
    kept = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    kept["taus"] = {f"{tau:g}": round(share, 5) for tau, share in reached.items()}
    write_whole(folder / "run.json", json.dumps(kept, indent=1, allow_nan=False))
    return done[best]


def fit_heads(
    material: Material,
    settings: Settings,
    held_out: Sequence[str],
    *,
    folder: Path,
    lone: Material | None = None,
    voices: Voices | None = None,
    watch: Watch,
) -> Ensemble:
    """A head for each seed, and contexts and a detector of talk if the settings have them.

    All are trained without `held_out`, and without the recordings in `lone` of its participants.
    """
    training = [heard for name, heard in sorted(material.items()) if name not in held_out]
    check_actions({heard.name: heard for heard in training})
    excluded = {participant(name) for name in held_out}
    own = {name.removesuffix(ALONE): heard for name, heard in (lone or {}).items()}
    alone = [heard for person, heard in own.items() if person not in excluded]
    synthetic = [*make_recordings(settings, voices), *alone]
    channels, kept = settings.context_channels, folder / "checkpoints"
    bouts = [in_bouts(heard, channels) for heard in (*training, *synthetic)] if channels else []
    detector = None
    if voices and synthetic:
        talked = [heard.with_talk for heard in synthetic if heard.with_talk]
        mixtures = [*make_rooms(settings, voices), *talked]
        detector = fit_detector(mixtures, training, settings, checkpoint=kept / "talk.pt")
    ensemble, steps = Ensemble(settings, detector), settings.seeds * settings.steps
    for number, seed in enumerate(settings.all_seeds):

        def report(check: Check, seed: int = seed, done: int = number * settings.steps) -> None:
            watch(Step(seed, check, done + check.step, steps))

        if bouts:
            context = ensemble.contexts[seed] = make_context(settings, seed=seed)
            path = kept / f"seed-{seed}-context.pt"
            fit(context, bouts, settings.of_context(), seed=seed, checkpoint=path)
        head = ensemble.heads[seed] = make_head(training[0].takes[0].shape[1], settings, seed=seed)
        ensemble.curves[f"seed {seed}"] = fit(
            head,
            training,
            settings,
            seed=seed,
            measure=partial(dev_coverage, head, material, settings, held_out),
            checkpoint=kept / f"seed-{seed}-head.pt",
            progress=report,
        )
    return ensemble


def make_recordings(
    settings: Settings, voices: Voices | None = None
) -> Iterator[TrainingRecording]:
    """Synthetic recordings of sustained sounds to train the context on.

    None without a context, or with an encoder that does not read sound.
    """
    encoder = encoder_named(settings.encoder)
    if settings.context_channels and isinstance(encoder, SoundEncoder):
        yield from (make_recording(encoder, seed, voices) for seed in range(settings.made))


def make_rooms(settings: Settings, voices: Voices) -> list[TalkMixture]:
    """Quiet rooms with talk, twice as many as there are synthetic recordings."""
    encoder = encoder_named(settings.encoder)
    assert isinstance(encoder, SoundEncoder), "there are synthetic recordings"
    return [make_room(encoder, seed, voices) for seed in range(2 * settings.made)]


def in_bouts(heard: TrainingRecording, channels: int) -> TrainingRecording:
    """A recording as input of a context: a row a second, actions widened by `NEAR` to bouts."""
    takes = tuple(
        in_seconds(torch.from_numpy(take.astype(np.float32))[None], channels)[0]
        .numpy()
        .astype(np.float16)
        for take in heard.takes
    )
    widened = tuple(
        Action(max(0.0, action.start - NEAR), action.end + NEAR) for action in heard.actions
    )
    return replace(heard, takes=takes, actions=widened)


def dev_coverage(head: Head, material: Material, settings: Settings, names: Sequence[str]) -> float:
    """Mean coverage of `names` at a quarter of the calls, with rates by rank, uncalibrated."""
    survival = fit_survival(material, [name for name in material if name not in names])
    scores = {name: score(head, settings.loss, material[name].features) for name in names}
    judged = cases(scores, material, names, RankRates(contrast=0.8), survival)
    return mean_coverage(judged, budgets=[0.25])[0.25]


def finish(
    material: Material, ensemble: Ensemble, run: Mapping[str, Any], *, seeds: Sequence[int]
) -> tuple[Gate, dict[float, float]]:
    """The gate of `seeds`, exported, checked and calibrated, and its dev coverage by budget.

    The export is checked on the three shortest recordings, see `prove`.
    """
    settings, panel = ensemble.settings, ensemble.panel(seeds)
    encoder, (name, _) = encoder_named(settings.encoder), split_name(settings.encoder)
    weights = export(panel)
    digest = hashlib.sha256(weights).hexdigest()
    scorer = OnnxScorer(digest, name, encoder.channels, panel.context, weights)
    examples = sorted(material, key=lambda name: material[name].duration)[:3]
    prove(panel, scorer, [material[name].features for name in examples])
    scores = {name: scorer.score_whole(material[name].features) for name in run["held_out"]}
    card = Card(
        encoder=name,
        encoder_options=portable_options(encoder),
        channels=encoder.channels,
        clock_rate=CLOCK_RATE,
        context=panel.context,
        objective=settings.objective,
        heads=len(seeds),
        seeds=tuple(seeds),
        settings=replace(settings, encoder=name).to_json(),
        **{key: run[key] for key in RUN_FIELDS},
    )
    return calibrate(scores, material, card, weights)


def describe_run(
    material: Material, settings: Settings, held_out: Sequence[str], origin: Provenance
) -> dict[str, Any]:
    """Contents of `run.json` that are known before training."""
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
        "held_out": list(held_out),
    }


def keep_run(folder: Path, run: Mapping[str, Any], trained: Trained) -> None:
    """Write `run.json` and `curves.png` to `folder`."""
    kept = {
        **run,
        "coverage": {
            name: {f"{budget:g}": round(value, 5) for budget, value in row.items()}
            for name, row in trained.coverage.items()
        },
        "curves": {name: [c.to_json() for c in checks] for name, checks in trained.curves.items()},
    }
    write_whole(folder / "run.json", json.dumps(kept, indent=1, allow_nan=False))
    with replacing(folder / "curves.png") as scratch:
        draw_curves(trained.curves, scratch)


def draw_curves(curves: Mapping[str, Sequence[Check]], path: Path) -> None:
    """Training loss and dev coverage of every head against the step, as a PNG at `path`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for name, checks in curves.items():
        steps = [check.step for check in checks]
        left.plot(steps, [check.loss for check in checks], linewidth=1, label=name)
        right.plot(steps, [100 * check.dev for check in checks], linewidth=1, label=name)
    left.set(xlabel="step", ylabel="training loss")
    right.set(xlabel="step", ylabel="dev coverage at 25 % of calls, %")
    if len(curves) <= 8:
        left.legend(fontsize=7)
    figure.savefig(path, dpi=100)
