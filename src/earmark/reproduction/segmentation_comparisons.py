"""The segmentation head on the deployment's own classes: boundaries and events, at equal counts."""

from __future__ import annotations

from earmark.errors import AnnotationError
from earmark.evaluation.metrics.boundaries import TOLERANCES
from earmark.features.pretrained.segments import SURE
from earmark.reproduction.comparison import Comparison, Made
from earmark.reproduction.material import Material as Given
from earmark.reproduction.training_comparisons import media_folders, settings_for
from earmark.training.dataset import Material, gather
from earmark.training.segmentation import Segmenter, judge_segmenter, train_segmenter
from earmark.training.settings import CLASSES

PRINTED = {("segments", 0.5): 22.8, ("even segments", 0.5): 17.4}
"""Boundary F1 in per cent."""


def make_segmentation(given: Given) -> Made:
    """Train the head on annotated sound events, and judge boundaries and events on the others."""
    encoder = given.plan.encoders[0]
    segmenter, judged = train_on_classes(given, encoder)
    settings = settings_for(given, encoder, CLASSES)
    ran = (
        f"a head of width {settings.width} over {encoder}, {settings.steps} steps; "
        f"{given.plan.audio_is}; {given.split.words}"
    )
    scores = judge_segmenter(segmenter, judged.values(), actions=given.marked.recordings)
    n = f"{len(judged)} recordings"
    told = "the paper says 42, EPIC-SOUNDS has 44; here those of the training recordings"
    rows = [Comparison("classes", 42, len(segmenter.classes), ran=ran, remarks=told)]
    rows += [
        Comparison(
            f"B-F1 at {tolerance:g} s, {name}, %", PRINTED.get((name, tolerance)),
            100 * scores.boundaries[name, tolerance].f1,
            f"{scores.boundaries[name, tolerance].found} boundaries of {n}", ran=ran,
        )
        for name in ("segments", "even segments")
        for tolerance in TOLERANCES
    ]  # fmt: skip
    rows.append(Comparison("event F1, collar 0.5 s, %", None, 100 * scores.events.f1, n, ran=ran))
    rows.append(Comparison(f"boundaries at {SURE:g}", 2015, scores.sure, n, ran=ran))
    return Made(rows)


def train_on_classes(given: Given, encoder: str) -> tuple[Segmenter, Material]:
    """The head, kept in the folder, and the judged recordings with their sound events."""
    assert given.sound_classes is not None
    known, split = given.sound_classes.recordings, given.split
    training, chosen, judged = (
        [name for name in names if name in known]
        for names in (split.training, split.development, split.judged)
    )
    if not training or not chosen or not judged:
        raise AnnotationError("no sound events of recordings to train on, or of those to judge")
    heard = gather(
        given.sound_classes.only([*training, *chosen, *judged]),
        media_folders(given),
        encoder=encoder,
        cache=given.folder / "kept" / "features",
    )
    met = {name: heard[name] for name in (*training, *chosen)}
    settings = settings_for(given, encoder, CLASSES)
    segmenter, _ = train_segmenter(
        met,
        settings,
        folder=given.room(f"segments-{encoder.partition(':')[0]}", settings.to_json()),
        held_out=chosen,
        progress=lambda done, steps: given.progress(done, steps, "segmentation head"),
    )
    return segmenter, {name: heard[name] for name in judged}
