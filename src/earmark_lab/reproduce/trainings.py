"""Results of heads trained as in the paper, kept in the folder, and shared by all tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from earmark.errors import AnnotationError, EarmarkError
from earmark.gate.episodes import CLOSED_GAP, SHORTEST
from earmark.grid import Grid
from earmark.media.atomic_file import replacing
from earmark.selection.rules.ranking import MinimumSeparation
from earmark.timeline import HOP, FloatArray, Track
from earmark_lab.annotations.actions import Annotations
from earmark_lab.encoders.chunk_encoder import PAPER_THRESHOLD, Layout
from earmark_lab.experiments.operating_points import (
    EpisodeShape,
    EpisodeTrial,
    OperatingPoint,
)
from earmark_lab.experiments.paper import TRANSFER, primary_of
from earmark_lab.experiments.report import Cells, Table, p_value
from earmark_lab.experiments.score_sources import AnnotatedScores
from earmark_lab.metrics.counts import EpisodeCounts
from earmark_lab.metrics.statistics import welch, welch_of_summaries
from earmark_lab.reproduce.inputs import PaperInputs, encoder_label
from earmark_lab.reproduce.printed import ABLATION
from earmark_lab.reproduce.reproduction import Comparison, Made, boundary_rows, mean_std
from earmark_lab.training import gate_training as recipe
from earmark_lab.training.dataset import Material, gather
from earmark_lab.training.optimisation import STEEPEST, score
from earmark_lab.training.segmentation import Segmenter, judge_segmenter, train_segmenter
from earmark_lab.training.settings import CLASSES, PAPER, Settings, settings_of


def paper_gate(inputs: PaperInputs) -> Path:
    """The head of the first seed over the first encoder, calibrated and exported."""
    encoder, path = inputs.plan.encoders[0], inputs.folder / "paper.gate"
    settings = settings_for(inputs, encoder, "span")
    folder = gates_folder(inputs, encoder, settings)
    trained = folder / f"seed-{settings.first_seed}.gate"
    if not trained.is_file():
        features, split = gather_actions(inputs, encoder), inputs.split
        material = {name: features[name] for name in (*split.training, *split.development)}
        words = f"span over {encoder_label(encoder)}"
        ensemble = fit_seeds(inputs, material, settings, folder=folder, words=words)
        origin = recipe.Provenance(inputs.plan.sound, "of the data")
        run = recipe.describe_run(material, settings, split.development, origin)
        gate, _ = recipe.finish(material, ensemble, run, seeds=[settings.first_seed])
        gate.save(trained)
    with replacing(path) as scratch:
        shutil.copyfile(trained, scratch)
    return path


def settings_for(inputs: PaperInputs, encoder: str, objective: str) -> Settings:
    own = {**inputs.plan.settings, "objective": objective, "seeds": inputs.plan.seeds}
    return settings_of("paper", encoder, **own)


def fit_seeds(
    inputs: PaperInputs, material: Material, settings: Settings, *, folder: Path, words: str
) -> recipe.Ensemble:
    def watch(step: recipe.Step) -> None:
        inputs.progress(step.done, step.steps, f"{words}, seed {step.seed}")

    training = {name: material[name] for name in inputs.split.training}
    return recipe.fit_heads(training, settings, (), folder=folder, watch=watch)


def gather_actions(inputs: PaperInputs, encoder: str) -> Material:
    split = inputs.split
    everybody = [*split.training, *split.development, *split.judged]
    return gather_features(inputs, inputs.all_actions.only(everybody), encoder)


def gather_features(inputs: PaperInputs, marked: Annotations, encoder: str) -> Material:
    folders = dict.fromkeys(Path(source.uris[0]).parent for source in inputs.media.values())
    folder = inputs.folder / "kept" / "features"

    def watch(what: str, done: int, total: int) -> None:
        inputs.progress(done, total, f"{what}: {encoder_label(encoder)}")

    return gather(marked, list(folders), encoder=encoder, cache=folder, watch=watch)


def gates_folder(inputs: PaperInputs, encoder: str, settings: Settings) -> Path:
    name = f"gates-{settings.objective}-{encoder.partition(':')[0]}"
    return inputs.results_folder(name, settings.to_json() | inputs.training_identity())


def score_features(
    material: Material, names: Iterable[str], rate: Callable[[FloatArray], FloatArray]
) -> list[AnnotatedScores]:
    return [
        AnnotatedScores(
            name, Track(rate(recording.features)), recording.duration, recording.actions
        )
        for name, recording in ((name, material[name]) for name in names)
    ]


def make_transfer(inputs: PaperInputs) -> Iterator[Made]:
    results: dict[str, list[EpisodeCounts]] = {}
    for encoder in inputs.plan.encoders:
        settings = settings_for(inputs, encoder, "span")
        try:
            features = gather_actions(inputs, encoder)
            points = _measure_points(
                inputs, features, settings, gates_folder(inputs, encoder, settings)
            )[inputs.plan.recall]
        except EarmarkError as error:
            yield from _transfer_rows(inputs, encoder, [], absent=str(error))
            continue
        counts = results[encoder_label(encoder)] = [point.counts for point in points if point.rule]
        absent = "" if counts else "no threshold reaches that recall"
        yield from _transfer_rows(inputs, encoder, counts, absent=absent)
    for encoder in TRANSFER:
        if encoder not in map(encoder_label, inputs.plan.encoders):
            why = f"bring its weights, and --encoders {encoder}"
            if " " in encoder:
                why = "its weights are unpublished; the table `ablation` trains such a head"
            yield from _transfer_rows(inputs, encoder, [], absent=why)
    columns = ("encoders", "difference, points", "t", "p")
    pairs: list[Cells] = []
    for first, second in combinations(results, 2):
        gap = welch(
            *([100 * counts.reduction for counts in results[name]] for name in (first, second))
        )
        pairs.append((f"{first} against {second}", gap.mean, gap.t, p_value(gap.p)))
    if pairs:
        yield Table("Transfer: every pair, Welch", columns, pairs)
    printed: list[Cells] = []
    for first, second in combinations(TRANSFER, 2):
        gap = welch_of_summaries(*((*TRANSFER[name][2:], 5) for name in (first, second)))
        printed.append((f"{first} against {second}", gap.mean, gap.t, p_value(gap.p)))
    note = (
        "The paper says that no p is below 0.14. Its own means and deviations over five seeds give "
        "0.006 to 0.013 for PANNs against each of the others, and 0.22 or more for the rest."
    )
    yield Table("Transfer: the paper's pairs, from its printed values", columns, printed, note)


def _transfer_rows(
    inputs: PaperInputs, encoder: str, results: Sequence[EpisodeCounts], *, absent: str = ""
) -> Iterator[Comparison]:
    name = encoder_label(encoder)
    printed = TRANSFER.get(name)
    for index, what in enumerate(("recall", "reduction")):
        paper = printed[2 * index] if printed else None
        quantity = f"{name}: {what}, %"
        if absent:
            yield Comparison.missing(quantity, paper, absent)
            continue
        values = [100 * getattr(counts, what) for counts in results]
        there = f"there ± {printed[2 * index + 1]:g}; " if printed else ""
        remarks = f"{there}here {mean_std(values)} (interval: seed range)"
        ran = inputs.describe_training(encoder)
        yield Comparison.over_seeds(quantity, paper, values, ran=ran, remarks=remarks)


def make_settings(inputs: PaperInputs) -> Iterator[Made]:
    printed = {"tau": 4.0, "learning_rate": 3e-4, "weight_decay": 1e-4, "steps": 3000, "batch": 16}
    own, ran = {**asdict(PAPER), **inputs.plan.settings}, "earmark train --recipe paper"
    for what, paper in printed.items():
        yield Comparison(what, f"{paper:g}", f"{own[what]:g}", ran=ran)
    remarks = "447 inputs, width 192; width 128 gives the 0.2 M of the paper's table"
    size = 447 * 192 + 192 + 3 * (192 * 192 * 3 + 192) + 192 + 1
    yield Comparison("parameters, millions", 0.41, size / 1e6, ran="the head", remarks=remarks)
    silent = partial(Comparison, paper=None, ran=ran, remarks="the paper is silent")
    for what in ("crop", "dropout", "cooling", "width"):
        yield silent(what, ours=f"{own[what]:g}")
    yield silent("gradients are clipped to a norm of", ours=STEEPEST)
    cut = "trained on if half of it, or half a crop of it, is inside"
    yield silent("an action cut by the edge of a crop", ours=cut)
    fixed, chunked = partial(Comparison, ran="earmark's own"), "of BEATs, ATST-Frame and fPaSST"
    yield fixed("call window, s", 4.0, Grid().length)
    yield fixed("gate frame rate, Hz", 25.0, 1 / HOP)
    yield fixed("chunk, s", 10.0, Layout().chunk * HOP, remarks=chunked)
    yield fixed("hop, s", 5.0, Layout().hop * HOP, remarks=chunked)
    median, separation = float(EpisodeShape().median), float(MinimumSeparation().delta)
    yield fixed("median filter, frames", 1.0, median, remarks="or as development chooses")
    yield fixed("minimum span, s", 0.15, SHORTEST)
    yield fixed("maximum closed gap, s", 0.6, CLOSED_GAP)
    yield fixed("separation, windows", 2.0, separation)


def make_segmentation(inputs: PaperInputs) -> Iterator[Made]:
    encoder = inputs.plan.encoders[0]
    segmenter, judged = train_on_classes(inputs, encoder)
    settings = settings_for(inputs, encoder, CLASSES)
    head = f"a head of width {settings.width} over {encoder_label(encoder)}, {settings.steps} steps"
    ran = f"{head}; {inputs.plan.sound}; {inputs.split.description}"
    scores = judge_segmenter(segmenter, judged.values(), actions=inputs.all_actions.recordings)
    n = f"{len(judged)} recordings"
    remarks = "the paper says 42, EPIC-SOUNDS has 44; here those of the training recordings"
    yield Comparison("classes", 42, len(segmenter.classes), ran=ran, remarks=remarks)
    yield from boundary_rows(scores.boundaries, n=f"boundaries of {n}", ran=ran)
    yield Comparison("event F1, collar 0.5 s, %", None, 100 * scores.events.f1, n, ran=ran)
    yield Comparison(f"boundaries at {PAPER_THRESHOLD:g}", 2015, scores.sure, n, ran=ran)


def train_on_classes(inputs: PaperInputs, encoder: str) -> tuple[Segmenter, Material]:
    assert inputs.sound_classes is not None
    annotated, split = inputs.sound_classes.recordings, inputs.split
    training, chosen, judged = (
        [name for name in names if name in annotated]
        for names in (split.training, split.development, primary_of(split.judged))
    )
    if not training or not chosen or not judged:
        raise AnnotationError("no sound events of recordings to train on, or of those to judge")
    material = gather_features(
        inputs, inputs.sound_classes.only([*training, *chosen, *judged]), encoder
    )
    met = {name: material[name] for name in (*training, *chosen)}
    settings = settings_for(inputs, encoder, CLASSES)
    marks = {
        "sounds": inputs.sound_classes.only(list(met)).fingerprint,
        **inputs.training_identity(),
    }
    segmenter, _ = train_segmenter(
        met,
        settings,
        folder=inputs.results_folder(
            f"segments-{encoder.partition(':')[0]}", settings.to_json() | marks
        ),
        held_out=chosen,
        progress=lambda done, steps: inputs.progress(done, steps, "segmentation head"),
    )
    return segmenter, {name: material[name] for name in judged}


def make_ablation(inputs: PaperInputs) -> Iterator[Comparison]:
    encoder = inputs.plan.encoders[0]
    segmenter, _ = train_on_classes(inputs, encoder)
    settings = settings_for(inputs, encoder, "span")
    features = gather_actions(inputs, encoder)
    own = settings.to_json() | inputs.training_identity() | {"classes": segmenter.classes}
    in_classes = {  # the logits of the segmentation head as features
        name: replace(recording, takes=(segmenter(recording.features).values.astype(np.float16),))
        for name, recording in features.items()
    }
    classes, ran = len(segmenter.classes), inputs.describe_training(encoder)
    name = encoder_label(encoder)
    for kind, words, material, folder in (
        ("classes", f"over {classes} classes heard in {name}", in_classes,
         inputs.results_folder("gates-span-classes", own)),
        ("plain", f"over {name}", features, gates_folder(inputs, encoder, settings)),
    ):  # fmt: skip
        for points in _measure_points(inputs, material, settings, folder).values():
            yield from _ablation_rows(kind, words, points, ran)


def _measure_points(
    inputs: PaperInputs, material: Material, settings: Settings, folder: Path
) -> dict[float, list[OperatingPoint]]:
    """By plain recall of the development recordings, one point a seed; used by every table."""
    split = inputs.split
    points: dict[float, list[OperatingPoint]] = {inputs.plan.recall: [], 0.90: []}
    fitted = fit_seeds(inputs, material, settings, folder=folder, words="operating points")
    for head in fitted.heads.values():
        rate = partial(score, head, settings.loss)
        chosen = score_features(material, split.development, rate)
        judged = score_features(material, primary_of(split.judged), rate)
        for point in EpisodeTrial(chosen, judged, inputs.plan.window).measure_points(list(points)):
            points[point.target].append(point)
    return points


def _ablation_rows(
    name: str, words: str, points: Sequence[OperatingPoint], ran: str
) -> Iterator[Comparison]:
    target = points[0].target
    printed = ABLATION.get((name, target), (None, None))
    for index, what in enumerate(("reduction", "recall")):
        values = [100 * getattr(point.counts, what) for point in points if point.rule]
        quantity = f"{words}: {what} at a dev recall of {100 * target:g} %, %"
        remarks = "no threshold reaches that recall"
        if values:
            remarks = f"{mean_std(values)} (interval: seed range); the paper's are over BEATs"
        yield Comparison.over_seeds(quantity, printed[index], values, ran=ran, remarks=remarks)
