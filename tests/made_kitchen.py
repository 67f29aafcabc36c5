"""A small made-up kitchen: recordings whose sounds go with their actions, drawn from a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from earmark_lab.annotations.actions import Action, Annotations


def kitchen(count: int = 12, *, seed: int = 0) -> tuple[Annotations, Annotations]:
    """Actions and sound events of `count` recordings of 5 to 10 minutes.

    Busy and quiet minutes take turns. Most actions are heard, at their start and with one of two
    labels; some sounds belong to no action.
    """
    rng = np.random.default_rng(seed)
    actions: dict[str, list[Action]] = {}
    events: dict[str, list[Action]] = {}
    durations: dict[str, float] = {}
    for number in range(count):
        name, length = f"K{number:02d}", float(rng.uniform(300, 600))
        starts = rng.uniform(0, length - 1, 4 * int(length / 10))
        busy = np.sin(starts / 40 + number) + rng.normal(0, 0.3, len(starts)) > 0.2
        lasts = rng.lognormal(0.8, 0.8, len(starts))
        marked = [
            Action(float(s), float(min(length, s + d)), "work")
            for s, d in zip(starts[busy], lasts[busy], strict=True)
        ]
        heard = [
            Action(a.start, min(length, a.start + 0.8), str(rng.choice(["clang", "rustle"])))
            for a in marked
            if rng.random() < 0.7
        ]
        stray = rng.uniform(0, length - 1, int(length / 40))
        heard += [Action(float(s), float(s) + 0.5, "hum") for s in stray]
        actions[name], events[name], durations[name] = sorted(marked), sorted(heard), length
    return Annotations(actions, durations), Annotations(events, durations)


def write_csv(path: Path, marked: Annotations) -> Path:
    """The annotations as a generic CSV."""
    lines = ["recording,start,end,label"]
    for name, actions in marked.recordings.items():
        lines += [f"{name},{a.start!r},{a.end!r},{a.label}" for a in actions]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_durations(path: Path, marked: Annotations) -> Path:
    """The lengths as a table."""
    rows = [f"{name},{length!r}" for name, length in marked.durations.items()]
    path.write_text("\n".join(["recording,duration", *rows]) + "\n", encoding="utf-8")
    return path
