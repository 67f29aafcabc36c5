"""Which network names sounds better, YAMNet or mn04? Prints experiments/naming-sounds.md's tables.

    python scripts/namer_table.py DATA/open_sounds [--clips 0]

Every clip lies in nine seconds of a quiet room (-60 dB) or of pink noise 10 dB below it, and is
named as a window is: the likeliest three classes over its cells, of at least 0.2. A name is right
if `TRUTH` lists it for the clip's class or it is broader than one that is listed, animals apart.
The halves are divided by the uploader of the sound; how the cells of a window are joined is chosen
on the first half alone, and the tables are of the second. Blows, strokes and motors of physical
models, a workshop without an animal, are named in the same rooms.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from earmark.evidence.sound_query import broader, narrower
from earmark.features.mn04 import MN04
from earmark.features.sound_tags import PatchTagger, likeliest_names
from earmark.features.yamnet import YAMNet
from earmark.media import Sound, find, open_recording
from earmark_lab.sites import physics

RATE, ROOM, CELL = 16_000, 9.0, 24
QUIET_DB, NOISE_DB = -60.0, -10.0
ROOMS = ("quiet", "noise")
JOINS = ("max", "mean")
ANIMALS = narrower("Animal") | {"Animal"}

# fmt: off
TRUTH = {
    "airplane": "Aircraft | Aircraft engine | Jet engine | Propeller, airscrew | Fixed-wing aircraft, airplane",  # noqa: E501
    "breathing": "Breathing | Wheeze | Gasp | Pant | Sigh",
    "brushing_teeth": "Toothbrush | Electric toothbrush",
    "can_opening": "Burst, pop | Crack | Crushing | Crunch | Clicking | Tearing",
    "car_horn": "Vehicle horn, car horn, honking | Toot | Air horn, truck horn",
    "cat": "Cat | Meow | Purr | Caterwaul",
    "chainsaw": "Chainsaw | Power tool",
    "chirping_birds": "Bird | Bird vocalization, bird call, bird song | Chirp, tweet",
    "church_bells": "Church bell | Bell | Change ringing (campanology) | Chime",
    "clapping": "Clapping | Applause | Hands",
    "clock_alarm": "Alarm clock | Alarm | Beep, bleep | Clock",
    "clock_tick": "Tick | Tick-tock | Clock",
    "coughing": "Cough | Throat clearing",
    "cow": "Cattle, bovinae | Moo | Livestock, farm animals, working animals",
    "crackling_fire": "Fire | Crackle",
    "crickets": "Cricket | Insect",
    "crow": "Crow | Caw",
    "crying_baby": "Baby cry, infant cry | Crying, sobbing",
    "dog": "Dog | Bark | Bow-wow | Yip | Growling",
    "door_wood_creaks": "Creak | Door | Squeak",
    "door_wood_knock": "Knock | Door | Tap",
    "drinking_sipping": "Liquid | Gurgling | Pour | Trickle, dribble",
    "engine": "Engine | Idling | Engine starting | Light engine (high frequency) | Medium engine (mid frequency) | Heavy engine (low frequency) | Motor vehicle (road) | Engine knocking",  # noqa: E501
    "fireworks": "Fireworks | Firecracker | Explosion | Burst, pop",
    "footsteps": "Walk, footsteps | Run | Shuffle",
    "frog": "Frog | Croak",
    "glass_breaking": "Glass | Shatter | Breaking | Smash, crash",
    "hand_saw": "Sawing",
    "helicopter": "Helicopter | Aircraft",
    "hen": "Chicken, rooster | Cluck | Fowl",
    "insects": "Insect | Fly, housefly | Buzz | Bee, wasp, etc. | Mosquito | Cricket",
    "keyboard_typing": "Computer keyboard | Typing | Typewriter",
    "laughing": "Laughter | Giggle | Chuckle, chortle | Belly laugh | Baby laughter | Snicker",
    "mouse_click": "Clicking",
    "pig": "Pig | Oink",
    "pouring_water": "Pour | Liquid | Water | Fill (with liquid) | Trickle, dribble | Splash, splatter",  # noqa: E501
    "rain": "Rain | Raindrop | Rain on surface",
    "rooster": "Chicken, rooster | Crowing, cock-a-doodle-doo | Fowl",
    "sea_waves": "Waves, surf | Ocean",
    "sheep": "Sheep | Goat | Bleat",
    "siren": "Siren | Police car (siren) | Ambulance (siren) | Fire engine, fire truck (siren) | Emergency vehicle | Civil defense siren",  # noqa: E501
    "sneezing": "Sneeze",
    "snoring": "Snoring",
    "thunderstorm": "Thunder | Thunderstorm",
    "toilet_flush": "Toilet flush",
    "train": "Train | Rail transport | Railroad car, train wagon | Train horn | Train whistle | Clickety-clack",  # noqa: E501
    "vacuum_cleaner": "Vacuum cleaner",
    "washing_machine": "Mechanisms | Mechanical fan | Whir | Hum",
    "water_drops": "Drip | Water | Plop | Splash, splatter",
    "wind": "Wind | Wind noise (microphone)",
}  # fmt: skip
# fmt: on
WORK = [
    "brushing_teeth",
    "can_opening",
    "chainsaw",
    "clock_tick",
    "door_wood_creaks",
    "door_wood_knock",
    "engine",
    "footsteps",
    "glass_breaking",
    "hand_saw",
    "keyboard_typing",
    "mouse_click",
    "pouring_water",
    "vacuum_cleaner",
    "washing_machine",
    "water_drops",
]
"""Classes of things that hands or machines do, which must not become animals."""

WORKSHOP = {
    "blows": physics.impacts,
    "strokes": physics.friction,
    "power tools": physics.loaded_motor,
    "motors": physics.motor,
}
MADE, MADE_LEVEL = 40, 0.1
"""Sounds of five seconds of each model, and their amplitude."""


@dataclass(frozen=True)
class Named:
    group: str
    room: str
    half: int
    names: tuple[str, ...]

    @property
    def right(self) -> frozenset[str]:
        listed = frozenset(TRUTH[self.group].split(" | "))
        return listed.union(*map(broader, listed)) - {"Animal"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sounds", type=Path)
    parser.add_argument(
        "--clips", type=int, default=0, help="the first so many of a shuffle; 0: all"
    )
    options = parser.parse_args()
    with (options.sounds / "sounds.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rows = [rows[place] for place in np.random.default_rng(0).permutation(len(rows))]
    rows = rows[: options.clips or len(rows)]
    namers = {"YAMNet": YAMNet(cell=CELL), "mn04": MN04(cell=CELL)}
    named: dict[tuple[str, str], list[Named]] = {}
    for number, row in enumerate(rows):
        half = hashlib.sha256(row["author"].encode()).digest()[0] % 2
        clip = read(options.sounds / row["file"])
        for room in ROOMS:
            sound, cells = place(clip, room, number)
            for namer, encoder in namers.items():
                logits = cell_rows(encoder, sound)[cells]
                for join in JOINS:
                    joined = logits.max(axis=0) if join == "max" else mean_logit(logits)
                    names = likeliest_names(joined, encoder.classes)
                    named.setdefault((namer, join), []).append(
                        Named(row["class"], room, half, names)
                    )
    print("\n".join([*tables(named), "", *workshop(namers)]))


def workshop(namers: dict[str, PatchTagger]) -> Iterator[str]:
    """What made sounds of work are called, cells joined by their maximum."""
    yield (
        "| made sounds | room | namer | animal first, % | among three, % | no name, % "
        "| most frequent first names |"
    )
    yield "|---|---|---|---|---|---|---|"
    for group, draw in WORKSHOP.items():
        for room in ROOMS:
            names: dict[str, list[tuple[str, ...]]] = {namer: [] for namer in namers}
            for seed in range(MADE):
                made = draw(5 * RATE, np.random.default_rng((7, seed)))
                sound, cells = place(MADE_LEVEL * physics.level(made), room, seed)
                for namer, encoder in namers.items():
                    logits = cell_rows(encoder, sound)[cells].max(axis=0)
                    names[namer].append(likeliest_names(logits, encoder.classes))
            for namer, own in names.items():
                common = Counter(each[0] for each in own if each).most_common(3)
                yield (
                    f"| {group} | {room} | {namer} "
                    f"| {share(bool(ANIMALS & {*each[:1]}) for each in own):.0f} "
                    f"| {share(bool(ANIMALS & {*each}) for each in own):.0f} "
                    f"| {share(not each for each in own):.0f} "
                    f"| {', '.join(f'{name} {count}' for name, count in common)} |"
                )


def read(path: Path) -> np.ndarray:
    return np.concatenate([block.values for block in open_recording(find([path])[0]).sound()])


def place(clip: np.ndarray, room: str, seed: int) -> tuple[np.ndarray, slice]:
    """The clip two seconds into its room, and the cells that it touches."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(round(ROOM * RATE))
    if room == "noise":  # pink
        spectrum = np.fft.rfft(noise)
        noise = np.fft.irfft(spectrum / np.sqrt(np.arange(len(spectrum)) + 1), len(noise))
        noise *= 10 ** (NOISE_DB / 20) * np.sqrt(np.mean(clip**2)) / noise.std()
    else:
        noise *= 10 ** (QUIET_DB / 20)
    first = 2 * RATE
    noise[first : first + len(clip)] += clip[: len(noise) - first]
    width = CELL * RATE // 25
    return noise.astype(np.float32), slice(first // width, -(-(first + len(clip)) // width))


def cell_rows(encoder: PatchTagger, sound: np.ndarray) -> np.ndarray:
    tracks = encoder.encode([Sound(sound, 0.0, RATE)])
    return np.concatenate([track.values for track in tracks])[::CELL]


def mean_logit(logits: np.ndarray) -> np.ndarray:
    share = np.clip((1 / (1 + np.exp(-logits.astype(float)))).mean(axis=0), 1e-7, 1 - 1e-7)
    return np.log(share / (1 - share))


def tables(named: dict[tuple[str, str], list[Named]]) -> Iterator[str]:
    yield "| half, by uploader | namer | cells joined by | first name right, % | one of three, % |"
    yield "|---|---|---|---|---|"
    for half in (0, 1):
        for (namer, join), clips in named.items():
            own = [clip for clip in clips if clip.half == half]
            words = "chosen on" if half == 0 else "reported"
            yield f"| {words} | {namer} | {join} | {first(own):.1f} | {any_right(own):.1f} |"
    best = {
        namer: max(JOINS, key=lambda join: first([n for n in named[namer, join] if n.half == 0]))
        for namer in {namer for namer, _ in named}
    }
    yield ""
    yield (
        "| second half | room | clips | first right, % | one of three, % | no name, % "
        "| work named an animal first, % | among three, % |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for namer in sorted(best):
        for room in ROOMS:
            own = [n for n in named[namer, best[namer]] if n.half == 1 and n.room == room]
            work = [clip for clip in own if clip.group in WORK]
            yield (
                f"| {namer}, {best[namer]} | {room} | {len(own)} | {first(own):.1f} "
                f"| {any_right(own):.1f} | {share(not n.names for n in own):.1f} "
                f"| {share(bool(ANIMALS & {*n.names[:1]}) for n in work):.1f} "
                f"| {share(bool(ANIMALS & {*n.names}) for n in work):.1f} |"
            )
    yield ""
    yield "| work, second half, quiet | clips | " + " | ".join(sorted(best)) + " |"
    yield "|---|---|" + "---|" * len(best)
    for group in WORK:
        cells = []
        for namer in sorted(best):
            own = [n for n in named[namer, best[namer]] if (n.half, n.room) == (1, "quiet")]
            own = [clip for clip in own if clip.group == group]
            common = Counter(clip.names[0] if clip.names else "–" for clip in own).most_common(3)
            told = ", ".join(f"{name} {count}" for name, count in common)
            cells.append(f"{first(own):.0f} %: {told}")
        yield f"| {group} | {len(own)} | " + " | ".join(cells) + " |"


def share(values: Iterator[bool]) -> float:
    return 100 * float(np.mean([*values] or [np.nan]))


def first(clips: list[Named]) -> float:
    return share(bool(clip.right & {*clip.names[:1]}) for clip in clips)


def any_right(clips: list[Named]) -> float:
    return share(bool(clip.right & {*clip.names}) for clip in clips)


if __name__ == "__main__":
    main()
