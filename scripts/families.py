"""The families that gates are judged on without having met them, and their judged recordings."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import composites
import numpy as np
from scipy.io import wavfile

from earmark.features.encoder import SAMPLE_RATE
from earmark.media import Source, find, open_recording
from earmark_lab.annotations.actions import Action
from earmark_lab.sites.library import read_library
from earmark_lab.sites.microphone import high_pass, narrow_band
from earmark_lab.sites.physics import coloured, faded, level
from earmark_lab.sites.site import SiteGenerator, write_sites

FAMILIES = {
    "egoexolearn": (("egoexolearn",), ("impacts",)),
    "goalstep": (("goalstep",), ("liquids",)),
    "factory10k": (("factory10k",), ("motors",)),
    "captaincook4d": (("captaincook4d",), ("friction",)),
    "workers": (("assembly", "picking", "inspection"), ("impacts",)),
}
"""Timing families and groups of work sounds that are left out together."""

SEED = 3
"""Of the judged recordings; trainings use 1 and 2, development 4."""

CLIPS, QUIET_HOURS = 25, 2
ABOVE_FLOOR = (10.0, 30.0)
"""Decibels of the clips above the noise."""


@dataclass(frozen=True)
class Judged:
    """A file whose actions are known."""

    source: Source
    actions: tuple[Action, ...]


def judged_sites(data: Path, runs: Path, family: str, *, hours: float) -> list[Judged]:
    """Recordings of a family, of authors and annotated recordings that no training uses."""
    folder = runs / "judged" / f"{family}-{hours:g}h"
    if not (folder / "sites.json").is_file():
        timings, sounds = FAMILIES.get(family, ((family,), ()))
        chosen = {"sounds": sounds} if sounds else {}
        generator = SiteGenerator(data, "test", timings=timings, **chosen)
        for _ in write_sites(generator, folder, hours=hours, seed=SEED, format="wav"):
            pass
    return read_folder(folder)


def judged_composites(data: Path) -> dict[str, list[Judged]]:
    """Dense and sparse composites of the people whom neither gate has met."""
    annotations = composites.annotations(data)
    names = set(composites.old_test(sorted(annotations.recordings)))
    found: dict[str, list[Judged]] = {"dense composites": [], "sparse composites": []}
    for source in find(composites.media(data)):
        name = Path(source.name).stem
        if name in names:
            kind = "sparse composites" if name.endswith(composites.SPARSE) else "dense composites"
            found[kind].append(Judged(source, tuple(annotations.recordings[name])))
    return found


def judged_clips(data: Path, runs: Path) -> list[Judged]:
    """Two hours of quiet with 25 clips: both camera files, and sounds that no training uses."""
    folder = runs / "judged" / "clips"
    if not (folder / "actions.csv").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(SEED)
        samples = np.float32(10 ** (-62 / 20)) * level(
            coloured(QUIET_HOURS * 3600 * SAMPLE_RATE, rng, (0.3, 0.9))
        ).astype(np.float32)
        starts = np.linspace(60, QUIET_HOURS * 3600 - 120, CLIPS) + rng.uniform(-40, 40, CLIPS)
        rows = ["recording,start,end,label"]
        for start, (label, clip) in zip(starts.tolist(), clips(data, rng), strict=True):
            first = round(start * SAMPLE_RATE)
            loud = 10 ** ((-62 + rng.uniform(*ABOVE_FLOOR)) / 20)
            samples[first : first + len(clip)] += loud * faded(level(clip), 0.05)
            rows.append(f"clips,{start:.3f},{start + len(clip) / SAMPLE_RATE:.3f},{label}")
        wavfile.write(folder / "clips.wav", SAMPLE_RATE, np.rint(32_767 * samples).astype("<i2"))
        (folder / "actions.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return read_folder(folder)


def clips(data: Path, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """Work sounds of test authors, band-limited as by a camera, and the camera files whole."""
    for name in ("karma.mp4", "max-heromode.mp4"):
        blocks = open_recording(data / "clips" / name).sound(sample_rate=SAMPLE_RATE)
        yield name, np.concatenate([block.values for block in blocks])
    library = read_library(data, "test")
    labels = ["door_wood_knock", "can_opening", "hand_saw", "pouring_water", "keyboard_typing",
              "vacuum_cleaner", "brushing_teeth", "glass_breaking", "washing_machine"]  # fmt: skip
    for number in range(CLIPS - 2):
        found = library.of([labels[number % len(labels)]])
        chosen = found[int(rng.integers(len(found)))]
        clip = high_pass(library.samples(chosen), rng.uniform(100, 300))
        yield chosen.label, narrow_band(clip) if rng.random() < 0.5 else clip


def read_folder(folder: Path) -> list[Judged]:
    """The recordings of a folder written by `write_sites`."""
    with (folder / "actions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Judged(
            source,
            tuple(
                Action(float(row["start"]), float(row["end"]), row["label"])
                for row in rows
                if row["recording"] == Path(source.name).stem
            ),
        )
        for source in find([folder])
    ]
