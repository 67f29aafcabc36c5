"""Training from files: annotations and recordings in, a gate or a segmentation head out.

annotations, media ──▶ features ──▶ heads, contexts ──▶ calibrated gate, in a folder
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from earmark.errors import MissingExtra
from earmark.evaluation.annotations.actions import Annotations
from earmark.evaluation.annotations.media_match import find_media, reconcile
from earmark.evaluation.annotations.readers import read_annotations

try:
    from earmark.training.dataset import Material, Watch, gather
    from earmark.training.optimisation import use_threads
    from earmark.training.recipe import Provenance, Step, Trained, make_recordings, train_each_tau
    from earmark.training.segmentation import Segmenter, SegmentScores, train_segmenter
    from earmark.training.settings import CLASSES, Settings, settings_of
    from earmark.training.synthetic_recordings import gather_lone
except ModuleNotFoundError as error:
    raise MissingExtra("training needs PyTorch: pip install 'earmark[train]'") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """Every choice of a training: annotations, recordings and settings."""

    spans: Path
    """An annotation file, or a folder of them."""
    media: Path
    """Folder of the recordings, matched by file name."""
    out: Path = Path("gate")
    """Folder that is written; a training found there continues."""
    settings: Settings = field(default_factory=Settings)
    taus: tuple[float, ...] = ()
    """Values of tau of which the best on `dev` is kept; empty for that of `settings`."""
    recordings: tuple[str, ...] = ()
    """Recordings to use; empty for all."""
    dev: tuple[str, ...] = ()
    """Recordings to calibrate on; empty for the people of one fold."""
    allow_missing: bool = False
    """Whether recordings without media or annotations are left out instead of refused."""
    threads: int = 2
    data: str = ""
    """Description of the data for the gate's card; by default the name of `spans`."""
    licence: str = "not stated"
    commit: str = ""

    @classmethod
    def of(cls, spans: str | Path, **choices: Any) -> TrainingPlan:
        """A plan from choices: fields of the plan, `recipe`, `encoder` and fields of `Settings`.

        Choices of None are ignored.

        Raises:
            ValueError: a choice is unknown, or a setting out of range.
        """
        given = {name: value for name, value in choices.items() if value is not None}
        own = {each.name for each in fields(cls)} - {"settings"}
        known = own | {each.name for each in fields(Settings)} | {"recipe", "settings"}
        if unknown := sorted(given.keys() - known):
            raise ValueError(f"training has no choice {unknown[0]!r}; there are {sorted(known)}")
        chosen = {name: given.pop(name) for name in own & given.keys()}
        for name in ("taus", "recordings", "dev"):
            several = chosen.get(name, ())
            chosen[name] = (several,) if isinstance(several, str | int | float) else tuple(several)
        for name in ("media", "out"):
            chosen |= {name: Path(chosen[name])} if name in chosen else {}
        if "media" not in chosen:
            raise ValueError("say where the recordings are, with media")
        settings = given.pop("settings", None)
        if settings and given:
            raise ValueError(f"{sorted(given)[0]} is a part of settings, which are given too")
        if given.get("objective") == CLASSES:
            _refuse_unused(given)
        settings = settings or settings_of(
            given.pop("recipe", "earmark"), given.pop("encoder", None), **given
        )
        return cls(spans=Path(spans), settings=settings, **chosen)


def _refuse_unused(given: Mapping[str, Any]) -> None:
    """A `ValueError` for a choice that changes nothing about a segmentation head."""
    for name, usual in (("cooling", None), ("takes", 1)):
        if given.get(name, usual) != usual:
            raise ValueError(f"the objective `{CLASSES}` does not use {name}: leave it out")


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

    Raises:
        ValueError: a choice is unknown or out of range.
        AnnotationError: annotations cannot be read, or do not match the media.
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
    """Train the paper's segmentation head on the labels of annotated events; see `train`.

    Returns the head and its quality on the dev recordings.
    """
    plan, _, material = _gather(spans, choices, watch)
    progress = partial(watch, "training")
    return train_segmenter(
        material, plan.settings, folder=plan.out, held_out=plan.dev, progress=progress
    )


def _gather(
    spans: TrainingPlan | str | Path, choices: Mapping[str, Any], watch: Watch
) -> tuple[TrainingPlan, Annotations, Material]:
    """The plan, the annotations of the recordings that have media, and their features.

    Raises:
        AnnotationError: one has no media, or `recordings` or `dev` name an unknown one.
    """
    if isinstance(spans, TrainingPlan) and choices:
        raise ValueError(f"{sorted(choices)[0]} is a part of the plan, which is given too")
    plan = spans if isinstance(spans, TrainingPlan) else TrainingPlan.of(spans, **choices)
    use_threads(plan.threads)
    marked = read_annotations(plan.spans)
    marked = marked.only(plan.recordings) if plan.recordings else marked
    found: Iterable[str] = find_media([plan.media], wanted=marked.recordings)
    heard = [name for name in found if not plan.recordings or name in marked.recordings]
    names = reconcile(list(marked.recordings), heard, allow_missing=plan.allow_missing)
    marked = marked.only(names)
    marked.only(plan.dev)
    material = gather(
        marked,
        plan.media,
        encoder=plan.settings.encoder,
        takes=plan.settings.takes,
        cache=plan.out / "features",
        watch=watch,
    )
    return plan, marked, material
