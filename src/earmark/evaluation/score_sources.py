"""Where the scores of an evaluation come from: media that are heard, or events that are marked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from earmark.errors import AnnotationError, MediaError
from earmark.evaluation.annotations.actions import Annotations, few
from earmark.evaluation.benchmark import Case
from earmark.evaluation.benchmark_run import Task
from earmark.evaluation.sound_event_listener import SoundEventListener
from earmark.gate.frontline_registry import frontline_named
from earmark.gate.score_cache import ScoreCache
from earmark.media import Recording, Source, find, open_recording
from earmark.media.source import name_of
from earmark.pipeline.triage import hear, make_plan

EVIDENCE = "evidence"
"""The name under which annotated events stand in for a frontline."""

FOLDS = 5
"""Parts that recordings are dealt into where all of them are evaluated."""


def find_media(paths: Sequence[str | Path]) -> dict[str, Source]:
    """Recordings by name: the file's name without its suffix, the first chapter's of several.

    Raises:
        AnnotationError: there is nothing at a path, or two files have the same name, so that
            annotations cannot tell them apart.
    """
    found: dict[str, Source] = {}
    for source in find([str(path) for path in paths]):
        if "://" not in source.uris[0] and not Path(source.uris[0]).exists():
            raise AnnotationError(f"there are no media at {source.uris[0]}")
        name = Path(name_of(source.uris[0])).stem
        if name in found:
            raise AnnotationError(
                f"two media files are called {name}: {found[name].uris[0]} and {source.uris[0]}"
            )
        found[name] = source
    return found


def open_media(
    media: Mapping[str, Source], names: Iterable[str]
) -> tuple[dict[str, Recording], dict[str, str]]:
    """The named recordings, opened; and, for those that cannot be, the reason."""
    opened: dict[str, Recording] = {}
    broken: dict[str, str] = {}
    for name in names:
        try:
            opened[name] = open_recording(media[name])
        except MediaError as error:
            broken[name] = str(error)
    return opened, broken


def media_tasks(
    annotations: Annotations,
    media: Mapping[str, Source],
    *,
    frontlines: Sequence[str],
    window: float,
    cache_folder: Path | None = None,
) -> dict[tuple[str, str], Task]:
    """One task for each frontline and recording: listen, or take what was heard before."""
    kept = ScoreCache(cache_folder) if cache_folder else None

    def task(frontline: str, name: str) -> Task:
        def listen() -> Case:
            plan = make_plan(frontline=frontline, window=window)
            scored = hear(media[name], plan, cache=kept)
            return Case(name, frontline, scored.windows, annotations.recordings[name])

        return listen

    return {
        (line, name): task(line, name) for line in frontlines for name in annotations.recordings
    }


@dataclass(frozen=True, slots=True)
class FittingSplit:
    """Which recordings a listener is fitted on, for each that is evaluated."""

    evaluated: tuple[str, ...]
    fitted: Mapping[str, tuple[str, ...]]
    """By evaluated recording; never holds that recording itself."""
    words: str
    """One line for a reader of the results."""


def split_for_fitting(annotations: Annotations, evaluated: Sequence[str] = ()) -> FittingSplit:
    """Fit on all recordings that are not `evaluated`; with none named, evaluate all of them.

    In that case recordings are dealt into five parts in turn, and each part is judged by a listener
    fitted on the other four.

    Raises:
        AnnotationError: no recording is left to fit on.
    """
    names = list(annotations.recordings)
    if evaluated:
        annotations.only(evaluated)  # says which are not annotated
        rest = tuple(name for name in names if name not in set(evaluated))
        if not rest:
            raise AnnotationError("every annotated recording is evaluated: none is left to fit on")
        words = f"fitted on the {len(rest)} other annotated recordings"
        return FittingSplit(tuple(evaluated), dict.fromkeys(evaluated, rest), words)
    if len(names) < 2:
        raise AnnotationError(f"only {few(names)} is annotated: none is left to fit on")
    parts = min(FOLDS, len(names))
    others = [tuple(n for p, n in enumerate(names) if p % parts != part) for part in range(parts)]
    fitted = {name: others[place % parts] for place, name in enumerate(names)}
    return FittingSplit(tuple(names), fitted, f"fitted on the other parts of {parts}, part by part")


def evidence_tasks(
    annotations: Annotations, events: Annotations, fitting: FittingSplit, *, window: float
) -> dict[tuple[str, str], Task]:
    """One task for each evaluated recording: rate its windows by the events marked in it."""
    listener = listeners(annotations, events, window=window)

    def task(name: str) -> Task:
        def rate() -> Case:
            heard = listener(fitting.fitted[name])
            windows = heard.windows(events.recordings.get(name, []), annotations.durations[name])
            return Case(name, EVIDENCE, windows, annotations.recordings[name])

        return rate

    return {(EVIDENCE, name): task(name) for name in fitting.evaluated}


def listeners(
    annotations: Annotations, events: Annotations, *, window: float
) -> Callable[[tuple[str, ...]], SoundEventListener]:
    """A function that fits a listener on the named recordings, each set of them once."""

    @cache
    def fit(names: tuple[str, ...]) -> SoundEventListener:
        return SoundEventListener.fit(annotations.only(names), events, window=window)

    return fit


def fingerprint(annotations: Annotations) -> str:
    """A short hash of every action and length, to tell one set of annotations from another."""
    digest = hashlib.sha256()
    for name in sorted(annotations.recordings):
        digest.update(f"{name} {annotations.durations[name]!r}\n".encode())
        for action in annotations.recordings[name]:
            digest.update(f"{action.start!r} {action.end!r} {action.label}\n".encode())
    return digest.hexdigest()[:16]


def heard_fingerprint(recordings: Mapping[str, Recording], frontlines: Sequence[str]) -> str:
    """A short hash of the sound of every recording and of what listens to it."""
    digest = hashlib.sha256()
    for name in sorted(recordings):
        digest.update(f"{name} {recordings[name].key}\n".encode())
    for line in map(frontline_named, frontlines):
        parts = (line.encoder, line.scorer, line.rates, line.survival)
        digest.update(f"{parts!r}\n".encode())
    return digest.hexdigest()[:16]
