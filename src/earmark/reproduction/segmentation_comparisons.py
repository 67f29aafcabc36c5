"""The segmentation head on the deployment's own classes: boundaries and events, at equal counts."""

from __future__ import annotations

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.boundaries import (
    ONSET_COLLAR,
    TOLERANCES,
    MatchCounts,
    compare_boundaries,
    match_events,
)
from earmark.features.pretrained.segments import Segment, boundaries, segments
from earmark.reproduction.comparison import Comparison, Made
from earmark.reproduction.episode_comparisons import SURE, even_segments
from earmark.reproduction.material import Material as Given
from earmark.reproduction.training_comparisons import media_folders, settings_for
from earmark.timeline import Track
from earmark.training.dataset import Material, gather
from earmark.training.segmentation import Segmenter, fit_segmenter

PRINTED = {("segments", 0.5): 22.8, ("even segments", 0.5): 17.4}
"""Boundary F1 in per cent."""


def make_segmentation(given: Given) -> Made:
    """Train the head on annotated sound events, and judge boundaries and events on the others."""
    encoder = given.plan.encoders[0]
    segmenter, judged = _train(given, encoder)
    settings = settings_for(given, encoder, "frame")
    ran = (
        f"a head of width {settings.width} over {encoder}, {settings.steps} steps; "
        f"{given.plan.audio_is}; {given.split.words}"
    )
    total: dict[tuple[str, float], MatchCounts] = {}
    events, count = MatchCounts(), 0
    for heard in judged.values():
        track = segmenter(heard.features)
        found = list(segments([track], segmenter.classes))
        spans = {"segments": [each.span for each in found]}
        spans["even segments"] = even_segments(len(found), heard.duration)
        for name, by in compare_boundaries(given.marked.recordings[heard.name], spans).items():
            for tolerance, counts in by.items():
                total[name, tolerance] = total.get((name, tolerance), MatchCounts()) + counts
        events += match_events(heard.actions, _named(found), collar=ONSET_COLLAR)
        count += _sure(track, segmenter)
    n = f"{len(judged)} recordings"
    told = "the paper says 42, EPIC-SOUNDS has 44; here those of the training recordings"
    rows = [Comparison("classes", 42, len(segmenter.classes), ran=ran, remarks=told)]
    rows += [
        Comparison(
            f"B-F1 at {tolerance:g} s, {name}, %", PRINTED.get((name, tolerance)),
            100 * total[name, tolerance].f1, f"{total[name, tolerance].found} boundaries", ran=ran,
        )
        for name in ("segments", "even segments")
        for tolerance in TOLERANCES
    ]  # fmt: skip
    rows.append(Comparison("event F1, collar 0.5 s, %", None, 100 * events.f1, n, ran=ran))
    rows.append(Comparison(f"boundaries at {SURE:g}", 2015, count, n, ran=ran))
    return Made(rows)


def _train(given: Given, encoder: str) -> tuple[Segmenter, Material]:
    """The head, and the judged recordings with their sound events."""
    assert given.sound_classes is not None
    known, split = given.sound_classes.recordings, given.split
    training = [name for name in (*split.training, *split.development) if name in known]
    judged = [name for name in split.judged if name in known]
    if not training or not judged:
        raise AnnotationError("no sound events of recordings to train on, or of those to judge")
    heard = gather(
        given.sound_classes.only([*training, *judged]),
        media_folders(given),
        encoder=encoder,
        cache=given.folder / "kept" / "features",
    )
    segmenter = fit_segmenter(
        [heard[name] for name in training],
        settings_for(given, encoder, "frame"),
        progress=lambda done, steps: given.progress(done, steps, "segmentation head"),
    )
    return segmenter, {name: heard[name] for name in judged}


def _named(found: list[Segment]) -> list[Action]:
    return [Action(each.span.start, each.span.end, each.name) for each in found]


def _sure(track: Track, segmenter: Segmenter) -> int:
    return len(boundaries(segments([track], segmenter.classes, threshold=SURE)))
