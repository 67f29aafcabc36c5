"""Training: annotations and recordings in, a gate or a segmentation head out.

annotations, media ──▶ features ──▶ heads, contexts ──▶ calibrated gate, in a folder
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from earmark.features.encoder import SoundEncoder, portable_options, split_name
from earmark.gate.frontline import encoder_named
from earmark.gate.gate import Card, Gate, OnnxScorer
from earmark.gate.rates import RankRates
from earmark.media.atomic_file import replacing, write_whole
from earmark.timeline import CLOCK_RATE
from earmark_lab.annotations.actions import Action, Annotations, find_media, reconcile
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.training.calibration import (
    calibrate,
    cases,
    mean_coverage,
    separated_coverage,
)
from earmark_lab.training.dataset import (
    Material,
    TrainingRecording,
    Watch,
    check_actions,
    fingerprint,
    fold,
    gather,
    participant,
)
from earmark_lab.training.head import NEAR, Context, Head, TalkDetector, in_seconds
from earmark_lab.training.head_export import Panel, export, prove
from earmark_lab.training.optimisation import (
    Check,
    fit,
    fit_detector,
    make_context,
    make_head,
    score,
    use_threads,
)
from earmark_lab.training.rate_fit import fit_lengths
from earmark_lab.training.segmentation import Segmenter, SegmentScores, train_segmenter
from earmark_lab.training.settings import CLASSES, Settings, settings_of
from earmark_lab.training.synthetic_recordings import ALONE, gather_lone, make_recording, make_room
from earmark_lab.training.synthetic_sound import Voices


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    spans: Path
    media: Path
    """Folder of the recordings, matched by file name."""
    out: Path = Path("gate")
    """A training found there continues."""
    settings: Settings = field(default_factory=Settings)
    taus: tuple[float, ...] = ()
    """The best on `dev` is kept; empty for that of `settings`."""
    recordings: tuple[str, ...] = ()
    """Empty for all."""
    dev: tuple[str, ...] = ()
    """Recordings to calibrate on; empty for the people of one fold."""
    allow_missing: bool = False
    """Leave out recordings without media or annotations."""
    threads: int = 2
    data: str = ""
    """For the gate's card; by default the name of `spans`."""
    licence: str = "not stated"
    commit: str = ""

    @classmethod
    def of(cls, spans: str | Path, **choices: Any) -> TrainingPlan:
        """From fields of the plan and of `Settings`, `recipe` and `encoder`; None is ignored."""
        choices = {name: value for name, value in choices.items() if value is not None}
        own = {option.name for option in fields(cls)} - {"settings"}
        options = own | {option.name for option in fields(Settings)} | {"recipe", "settings"}
        if unknown := sorted(choices.keys() - options):
            raise ValueError(f"training has no choice {unknown[0]!r}; there are {sorted(options)}")
        planned = {name: choices.pop(name) for name in own & choices.keys()}
        for name in ("taus", "recordings", "dev"):
            several = planned.get(name, ())
            planned[name] = (several,) if isinstance(several, str | int | float) else tuple(several)
        for name in ("media", "out"):
            planned |= {name: Path(planned[name])} if name in planned else {}
        if "media" not in planned:
            raise ValueError("say where the recordings are, with media")
        settings = choices.pop("settings", None)
        if settings and choices:
            raise ValueError(f"{sorted(choices)[0]} is a part of settings, which are given too")
        if choices.get("objective") == CLASSES and "cooling" in choices:
            raise ValueError(f"the objective `{CLASSES}` does not use cooling: leave it out")
        settings = settings or settings_of(
            choices.pop("recipe", "earmark"), choices.pop("encoder", None), **choices
        )
        return cls(spans=Path(spans), settings=settings, **planned)


def train(
    spans: TrainingPlan | str | Path,
    *,
    watch: Watch = lambda *_: None,
    on_check: Callable[[Step], None] = lambda _: None,
    **choices: Any,
) -> Trained:
    """Train, calibrate and export a gate for annotated recordings.

        train("marks.csv", media="recordings/", out="mygate", seeds=5)

    Args:
        spans: Annotations, or a plan of everything.
        watch: Called with the current activity, the steps done and the steps in all.
        on_check: Called with every check of a head on the dev recordings.
        choices: See `TrainingPlan.of`: `media`, `out`, `recipe`, `encoder`, `seeds`, `dev`, …
    """
    plan, marked, material = _gather(spans, choices, watch)
    settings, cache = plan.settings, plan.out / "features"
    if settings.objective == CLASSES:
        raise ValueError("the objective `classes` makes no gate: call `train_classes`")
    lone = gather_lone(marked, plan.media, settings, cache=cache)
    for done, _ in enumerate(make_recordings(settings), start=1):
        watch("making up recordings", done, settings.made)
    taus = plan.taus or (settings.tau,)

    def check(step: Step) -> None:
        watch("training", step.done, len(taus) * step.steps)
        on_check(step)

    return train_each_tau(
        material,
        settings,
        taus,
        folder=plan.out,
        origin=Provenance(plan.data or plan.spans.name, plan.licence, plan.commit),
        held_out=plan.dev,
        lone=lone,
        watch=check,
    )


def train_classes(
    spans: TrainingPlan | str | Path, *, watch: Watch = lambda *_: None, **choices: Any
) -> tuple[Segmenter, SegmentScores]:
    plan, _, material = _gather(spans, choices, watch)
    progress = partial(watch, "training")
    return train_segmenter(
        material, plan.settings, folder=plan.out, held_out=plan.dev, progress=progress
    )


def _gather(
    spans: TrainingPlan | str | Path, choices: Mapping[str, Any], watch: Watch
) -> tuple[TrainingPlan, Annotations, Material]:
    if isinstance(spans, TrainingPlan) and choices:
        raise ValueError(f"{sorted(choices)[0]} is a part of the plan, which is given too")
    plan = spans if isinstance(spans, TrainingPlan) else TrainingPlan.of(spans, **choices)
    use_threads(plan.threads)
    marked = read_annotations(plan.spans)
    marked = marked.only(plan.recordings) if plan.recordings else marked
    media: Iterable[str] = find_media([plan.media], wanted=marked.recordings)
    media = [name for name in media if not plan.recordings or name in marked.recordings]
    names = reconcile(list(marked.recordings), media, allow_missing=plan.allow_missing)
    marked = marked.only(names)
    marked.only(plan.dev)
    material = gather(
        marked,
        plan.media,
        encoder=plan.settings.encoder,
        cache=plan.out / "features",
        watch=watch,
    )
    return plan, marked, material


@dataclass(frozen=True, slots=True)
class Provenance:
    data: str
    licence: str
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    seed: int
    check: Check
    done: int
    steps: int


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    gate: Gate
    coverage: dict[str, dict[float, float]]
    """Mean dev coverage of the rule `coverage` by budget: `seed 0`, ..., and `all`."""
    curves: dict[str, list[Check]] = field(default_factory=dict)
    held_out: tuple[str, ...] = ()

    def spread(self, budget: float) -> tuple[float, float]:
        shares = [row[budget] for name, row in self.coverage.items() if name != "all"]
        return float(np.mean(shares)), float(np.std(shares, ddof=1)) if len(shares) > 1 else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    settings: Settings
    detector: TalkDetector | None = None
    heads: dict[int, Head] = field(default_factory=dict)
    contexts: dict[int, Context] = field(default_factory=dict)
    curves: dict[str, list[Check]] = field(default_factory=dict)

    def panel(self, seeds: Sequence[int]) -> Panel:
        heads = [self.heads[seed] for seed in seeds]
        contexts = [self.contexts[seed] for seed in seeds if seed in self.contexts]
        return Panel(heads, contexts, self.settings.loss, self.settings.loudness, self.detector)


def train_gate(
    material: Material,
    settings: Settings,
    *,
    folder: Path,
    origin: Provenance,
    held_out: Sequence[str] | None = None,
    lone: Material | None = None,
    voices: Voices | None = None,
    watch: Callable[[Step], None] = lambda _: None,
) -> Trained:
    """Save a gate in `folder`; continues from checkpoints found there.

    It is calibrated on `held_out`, by default the first fold of participants. Without `voices`
    there is no detector of talk, and the context learns from synthetic talk.
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
    trained = Trained(gate, coverage, ensemble.curves, tuple(held_out))
    keep_run(folder, run, trained)
    return trained


def finish_seeds(
    material: Material, ensemble: Ensemble, run: Mapping[str, Any], *, folder: Path
) -> tuple[dict[int, Gate], dict[str, dict[float, float]]]:
    gates, coverage = {}, {}
    for seed in ensemble.heads:
        gates[seed], coverage[f"seed {seed}"] = finish(material, ensemble, run, seeds=[seed])
        gates[seed].save(folder / f"seed-{seed}.gate")
    return gates, coverage


def train_each_tau(
    material: Material, settings: Settings, taus: Sequence[float], *, folder: Path, **run: Any
) -> Trained:
    """The best, by dev coverage of `separated` at a quarter of the calls, is copied to `folder`."""
    if len(taus) == 1:
        return train_gate(material, replace(settings, tau=taus[0]), folder=folder, **run)
    done = {
        tau: train_gate(material, replace(settings, tau=tau), folder=folder / f"tau-{tau:g}", **run)
        for tau in taus
    }
    reached = {}
    for tau, trained in done.items():
        gate, names = trained.gate, trained.held_out
        scores = {name: gate.scorer.score_whole(material[name].features) for name in names}
        judged = cases(scores, material, names, gate.rates, gate.lengths)
        reached[tau] = separated_coverage(judged, gate.separation)
    best = max(reached, key=lambda tau: reached[tau])
    for path in (folder / f"tau-{best:g}").iterdir():
        if path.is_file():
            write_whole(folder / path.name, path.read_bytes())
    best_run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    best_run["taus"] = {f"{tau:g}": round(share, 5) for tau, share in reached.items()}
    write_whole(folder / "run.json", json.dumps(best_run, indent=1, allow_nan=False))
    return done[best]


def fit_heads(
    material: Material,
    settings: Settings,
    held_out: Sequence[str],
    *,
    folder: Path,
    lone: Material | None = None,
    voices: Voices | None = None,
    watch: Callable[[Step], None],
) -> Ensemble:
    training = [recording for name, recording in sorted(material.items()) if name not in held_out]
    check_actions({recording.name: recording for recording in training})
    excluded = {participant(name) for name in held_out}
    own = {name.removesuffix(ALONE): recording for name, recording in (lone or {}).items()}
    alone = [recording for person, recording in own.items() if person not in excluded]
    synthetic = [*make_recordings(settings, voices), *alone]
    channels, checkpoints = settings.context_channels, folder / "checkpoints"
    bouts = (
        [in_bouts(recording, channels) for recording in (*training, *synthetic)] if channels else []
    )
    detector = None
    if voices and synthetic:
        encoder = encoder_named(settings.encoder)
        assert isinstance(encoder, SoundEncoder), "there are synthetic recordings"
        mixtures = [make_room(encoder, seed, voices) for seed in range(2 * settings.made)]
        mixtures += [recording.with_talk for recording in synthetic if recording.with_talk]
        detector = fit_detector(mixtures, training, settings, checkpoint=checkpoints / "talk.pt")
    ensemble, steps = Ensemble(settings, detector), settings.seeds * settings.steps
    for number, seed in enumerate(settings.all_seeds):

        def report(check: Check, seed: int = seed, done: int = number * settings.steps) -> None:
            watch(Step(seed, check, done + check.step, steps))

        if bouts:
            context = ensemble.contexts[seed] = make_context(settings, seed=seed)
            path = checkpoints / f"seed-{seed}-context.pt"
            fit(context, bouts, settings.of_context(), seed=seed, checkpoint=path)
        head = ensemble.heads[seed] = make_head(training[0].takes[0].shape[1], settings, seed=seed)
        ensemble.curves[f"seed {seed}"] = fit(
            head,
            training,
            settings,
            seed=seed,
            measure=partial(dev_coverage, head, material, settings, held_out),
            checkpoint=checkpoints / f"seed-{seed}-head.pt",
            progress=report,
        )
    return ensemble


def make_recordings(
    settings: Settings, voices: Voices | None = None
) -> Iterator[TrainingRecording]:
    """For the context; none without one, or if the encoder reads no sound."""
    encoder = encoder_named(settings.encoder)
    if settings.context_channels and isinstance(encoder, SoundEncoder):
        yield from (make_recording(encoder, seed, voices) for seed in range(settings.made))


def in_bouts(recording: TrainingRecording, channels: int) -> TrainingRecording:
    """As input of a context: a row a second, actions widened by `NEAR` to bouts."""
    takes = tuple(
        in_seconds(torch.from_numpy(take.astype(np.float32))[None], channels)[0]
        .numpy()
        .astype(np.float16)
        for take in recording.takes
    )
    widened = tuple(
        Action(max(0.0, action.start - NEAR), action.end + NEAR) for action in recording.actions
    )
    return replace(recording, takes=takes, actions=widened)


def dev_coverage(head: Head, material: Material, settings: Settings, names: Sequence[str]) -> float:
    """At a quarter of the calls, with rates by rank, uncalibrated."""
    lengths = fit_lengths(material, [name for name in material if name not in names])
    scores = {name: score(head, settings.loss, material[name].features) for name in names}
    judged = cases(scores, material, names, RankRates(contrast=0.8), lengths)
    return mean_coverage(judged, budgets=[0.25])[0.25]


def finish(
    material: Material, ensemble: Ensemble, run: Mapping[str, Any], *, seeds: Sequence[int]
) -> tuple[Gate, dict[float, float]]:
    settings, panel = ensemble.settings, ensemble.panel(seeds)
    encoder, (name, _) = encoder_named(settings.encoder), split_name(settings.encoder)
    weights = export(panel)
    digest = hashlib.sha256(weights).hexdigest()
    scorer = OnnxScorer(digest, name, encoder.channels, panel.context, weights)
    facts = ("data", "data_hash", "licence", "commit", "recordings", "actions", "hours")
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
        **{fact: run[fact] for fact in facts},
    )
    return calibrate(scores, material, card, weights)


def describe_run(
    material: Material, settings: Settings, held_out: Sequence[str], origin: Provenance
) -> dict[str, Any]:
    return {
        "settings": settings.to_json(),
        "seeds": list(settings.all_seeds),
        "commit": origin.commit,
        "data": origin.data,
        "licence": origin.licence,
        "data_hash": fingerprint(material),
        "recordings": len(material),
        "actions": sum(len(recording.actions) for recording in material.values()),
        "hours": round(sum(recording.duration for recording in material.values()) / 3600, 4),
        "held_out": list(held_out),
    }


def keep_run(folder: Path, run: Mapping[str, Any], trained: Trained) -> None:
    facts = {
        **run,
        "coverage": {
            name: {f"{budget:g}": round(value, 5) for budget, value in row.items()}
            for name, row in trained.coverage.items()
        },
        "curves": {name: [c.to_json() for c in checks] for name, checks in trained.curves.items()},
    }
    write_whole(folder / "run.json", json.dumps(facts, indent=1, allow_nan=False))
    with replacing(folder / "curves.png") as scratch:
        draw_curves(trained.curves, scratch)


def draw_curves(curves: Mapping[str, Sequence[Check]], path: Path) -> None:
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
