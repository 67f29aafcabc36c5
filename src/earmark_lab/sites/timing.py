"""When the actions of a made recording happen: annotated timings, and semi-Markov workers.

family    ▇▇ ▇▇▇▇ ▇ ▇▇▇▇▇▇▇▇ ▇▇           actions of one annotated recording, or of a worker
bouts     ▇▇ ▇▇▇▇ | ▇ ▇▇▇▇▇▇▇▇ ▇▇         cut where no action is under way
recording ▇▇ ▇▇▇▇ ..... ▇ ▇▇▇▇▇▇▇▇ ▇▇ ..  idle time between them, for the occupancy asked for
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from earmark.errors import AnnotationError
from earmark_lab.annotations.actions import Action
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.sites.library import part_of
from earmark_lab.sites.physics import log_uniform

ANNOTATED = {
    "egoexolearn": ("egoexolearn", ""),
    "goalstep": ("goalstep/goalstep_valid.json", "goalstep-substeps"),
    "factory10k": ("factory10k", ""),
    "captaincook4d": ("captaincook4d/step_annotations.csv", ""),
}
"""Paths below the data folder, and the format if it cannot be detected."""

BOUTS = (20.0, 300.0)
"""Seconds after which a bout is cut at the next moment without an action."""

LONGEST_GAP = 45.0
"""Seconds without an action that are kept within a bout; annotators leave out what they skip."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Jobs of a few actions each, then a break: a semi-Markov chain with log-normal stays."""

    action: tuple[float, float]
    """Seconds: bounds of the median length, drawn for each worker."""
    between: tuple[float, float]
    """Seconds between two actions of a job."""
    job: tuple[float, float]
    """Actions in a job."""
    rest: tuple[float, float]
    """Seconds between jobs."""

    def __call__(self, duration: float, rng: np.random.Generator) -> list[Action]:
        medians = [log_uniform(rng, (low, high)) for low, high in (self.action, self.between)]
        kinds = medians[0] * np.exp(rng.normal(0, 0.6, 5))
        actions, time = [], 0.0
        while time < duration:
            for _ in range(max(1, round(log_uniform(rng, self.job)))):
                lasts = float(kinds[rng.integers(len(kinds))] * rng.lognormal(0, 0.35))
                actions.append(Action(time, time + max(0.3, lasts)))
                time = actions[-1].end + medians[1] * float(rng.lognormal(0, 0.7))
            time += log_uniform(rng, self.rest)
        return [action for action in actions if action.end <= duration]


WORKERS = {
    "assembly": Worker((3.0, 12.0), (0.3, 2.0), (5.0, 40.0), (10.0, 120.0)),
    "picking": Worker((0.8, 3.0), (1.0, 6.0), (2.0, 15.0), (10.0, 90.0)),
    "inspection": Worker((4.0, 40.0), (3.0, 30.0), (1.0, 3.0), (60.0, 400.0)),
}

IDLE = "idle"
"""No action at all; only on request."""

TIMINGS = (*ANNOTATED, *WORKERS, IDLE)

Timing = Callable[[float, np.random.Generator], list[Action]]
"""Actions of so many seconds of work, in order."""


def timings_in(data: Path | None, names: Sequence[str] = (), *, part: str) -> dict[str, Timing]:
    """The families `names`, or all that `data` allows.

    Raises:
        AnnotationError: A family that was asked for is not in `data`.
    """
    unknown = [name for name in names if name not in TIMINGS]
    if unknown:
        raise ValueError(f"no timing family {unknown[0]!r}; there are {', '.join(TIMINGS)}")
    families: dict[str, Timing] = {}
    for name, (path, kind) in ANNOTATED.items():
        if data is not None and (data / path).exists() and (not names or name in names):
            recordings = _parts(data / path, kind)[part]
            families[name] = partial(_from_annotations, recordings)
    families |= {name: worker for name, worker in WORKERS.items() if not names or name in names}
    if IDLE in names:
        families[IDLE] = _nothing
    missing = [name for name in names if name not in families]
    if missing:
        raise AnnotationError(
            f"the timings of {missing[0]} are not in {data or 'a data folder'}: "
            f"give --data the folder that holds {ANNOTATED[missing[0]][0]}"
        )
    return families


def _nothing(duration: float, rng: np.random.Generator) -> list[Action]:  # noqa: ARG001
    return []


@cache
def _parts(path: Path, kind: str) -> Mapping[str, list[list[Action]]]:
    annotations = read_annotations(path, format=kind or None)
    parts: dict[str, list[list[Action]]] = {"train": [], "dev": [], "test": []}
    for name, actions in annotations.recordings.items():
        if len(actions) > 2:
            parts[part_of(name)].append(actions)
    return parts


def _from_annotations(
    recordings: Sequence[list[Action]], duration: float, rng: np.random.Generator
) -> list[Action]:
    """One annotated recording after the other; gaps over `LONGEST_GAP` are shortened to it."""
    actions: list[Action] = []
    free = 0.0
    while free < duration:
        source = recordings[int(rng.integers(len(recordings)))]
        end, shift = source[0].start, free - source[0].start
        for action in source:
            shift -= max(0.0, action.start - end - LONGEST_GAP)
            end = max(end, action.end)
            actions.append(Action(action.start + shift, action.end + shift, action.label))
        free = end + shift + log_uniform(rng, (2.0, 30.0))
    return [action for action in actions if action.end <= duration]


def schedule(
    timing: Timing, duration: float, occupancy: float, rng: np.random.Generator
) -> list[Action]:
    """Bouts of work with idle time between them, `occupancy` of `duration` in bouts; maybe none."""
    work = max(60.0, occupancy * duration)
    bouts = list(_bouts(timing(work, rng), rng))
    if occupancy >= 1 or not bouts:
        return [action for bout in bouts for action in bout]
    idle = max(0.0, duration - sum(bout[-1].end - bout[0].start for bout in bouts))
    gaps = rng.lognormal(0, 1.0, len(bouts) + 1)
    gaps *= 0.98 * idle / gaps.sum()
    actions: list[Action] = []
    time = 0.0
    for gap, bout in zip(gaps.tolist(), bouts, strict=False):
        time += gap
        shift = time - bout[0].start
        actions += [Action(a.start + shift, a.end + shift, a.label) for a in bout]
        time = max(action.end for action in actions)
    return [action for action in actions if action.end <= duration]


def _bouts(actions: Sequence[Action], rng: np.random.Generator) -> Iterator[list[Action]]:
    bout: list[Action] = []
    end, limit = 0.0, log_uniform(rng, BOUTS)
    for action in actions:
        if bout and action.start >= end and end - bout[0].start >= limit:
            yield bout
            bout, limit = [], log_uniform(rng, BOUTS)
        bout.append(action)
        end = max(end, action.end) if len(bout) > 1 else action.end
    if bout:
        yield bout
