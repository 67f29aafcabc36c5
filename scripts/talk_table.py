"""Prints how many windows of talk `--budget auto` asks about, and whether work in talk is asked.

    python scripts/talk_table.py VOICES [--gate FILE]

VOICES holds a folder for each voice, with sound files in which somebody speaks; they are said one
after another, again and again. Voices that the gate was trained on show nothing: see `voices.py`.
Rooms are white noise, the peaks of talk are at half of full scale.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from voices import decode

from earmark.features.encoder import SAMPLE_RATE
from earmark.gate.frontline import encoder_named
from earmark.gate.gate import Gate, default_gate
from earmark.grid import Grid
from earmark.media import Sound
from earmark.selection import Budget, Coverage
from earmark.selection.budget import AUTO_PRICE
from earmark.timeline import Span, Track
from earmark_lab.sites.physics import level, motor

WINDOW = Grid().length
ROOMS = (0.002, 0.0005)
PAUSES = (1.0, 2.5)
"""Seconds between two files; the second only for voices of several files."""
WORK = (30, 130, 180, 230, 280, 500)
"""Seconds at which work begins in ten minutes; `TALKED` covers all but the first and the last."""
TALKED = Span(100, 340)
LASTS = 8
"""Seconds after which a piece of work is over."""


@dataclass(frozen=True, eq=False)
class Voice:
    """Somebody who says the same things again and again."""

    name: str
    clips: Sequence[np.ndarray]
    pause: float

    def over(self, room: np.ndarray, span: Span) -> np.ndarray:
        """`room` with this voice in `span`."""
        mixed, time, turn = room.copy(), span.start, 0
        while time < span.end - 1:
            clip = self.clips[turn % len(self.clips)]
            first = round(time * SAMPLE_RATE)
            clip = clip[: round(span.end * SAMPLE_RATE) - first]
            mixed[first : first + len(clip)] += 0.5 * clip / np.abs(clip).max()
            time, turn = time + len(clip) / SAMPLE_RATE + self.pause, turn + 1
        return mixed


def main() -> None:
    """Print a row for each voice, and their sums."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("voices", type=Path)
    parser.add_argument("--gate", type=Path)
    options = parser.parse_args()
    gate = Gate.load(options.gate) if options.gate else default_gate()
    columns = "talk all along | ten minutes in 15 | a minute in 5 | work in talk | calls beside it"
    print(f"| windows asked of talk | {columns} |")
    print("|---" * 6 + "|")
    rows = []
    for voice in read(options.voices):
        rows.append(judge(gate, voice))
        print(f"| {voice.name} | {cells(rows[-1])} |", flush=True)
    print(f"| all | {cells(np.sum(rows, axis=0))} |")


def cells(row: np.ndarray) -> str:
    """The counts of a row as `asked of all`."""
    return " | ".join(f"{asked} of {total}" for asked, total in row.tolist())


def read(folder: Path) -> Iterator[Voice]:
    """The voices in `folder`, and all of them in turns."""
    found = []
    for person in sorted(path for path in folder.iterdir() if path.is_dir()):
        clips = [decode(path) for path in sorted(person.iterdir())]
        found += clips
        for pause in PAUSES if len(clips) > 1 else PAUSES[:1]:
            yield Voice(f"{person.name}, pauses of {pause:g} s", clips, pause)
    yield Voice("all of them in turns", found, PAUSES[0])


def judge(gate: Gate, voice: Voice) -> np.ndarray:
    """Windows asked and windows in all, a row for each column of the table."""
    rows = np.zeros((5, 2), dtype=int)
    for room in ROOMS:
        rows[0] += talked(gate, voice, 240, Span(0, 240), room)
    rows[1] = talked(gate, voice, 900, Span(120, 720), ROOMS[0])
    rows[2] = talked(gate, voice, 300, Span(60, 120), ROOMS[0])
    for kind in (blows, drill):
        sound = voice.over(noise(600, ROOMS[0]), TALKED)
        for at in WORK:
            kind(sound, at)
        windows = asked(gate, sound)
        pieces = [windows_of(Span(at, at + LASTS)) for at in WORK]
        rows[3] += sum(bool(windows & each) for each in pieces), len(pieces)
        near = set().union(*(windows_of(Span(at - WINDOW, at + LASTS + WINDOW)) for at in WORK))
        beside = windows_of(TALKED) - near
        rows[4] += len(windows & beside), len(beside)
    return rows


def talked(gate: Gate, voice: Voice, seconds: int, span: Span, room: float) -> tuple[int, int]:
    """Windows asked and windows in all, of `span`."""
    windows = windows_of(span)
    return len(asked(gate, voice.over(noise(seconds, room), span)) & windows), len(windows)


def windows_of(span: Span) -> set[int]:
    """The windows that `span` touches."""
    return set(range(int(span.start // WINDOW), int(-(-span.end // WINDOW))))


def noise(seconds: float, room: float, *, seed: int = 0) -> np.ndarray:
    """White noise."""
    return room * np.random.default_rng(seed).standard_normal(round(seconds * SAMPLE_RATE))


def blows(sound: np.ndarray, at: int) -> None:
    """Add six blows."""
    fading = np.exp(-np.arange(3000) / 400)
    for turn in range(6):
        first = round((at + 0.7 * turn) * SAMPLE_RATE)
        sound[first : first + 3000] += noise(3000 / SAMPLE_RATE, 0.5, seed=first) * fading


def drill(sound: np.ndarray, at: int) -> None:
    """Add eight seconds of a synthetic drill."""
    place = slice(at * SAMPLE_RATE, (at + 8) * SAMPLE_RATE)
    sound[place] += 0.1 * level(motor(8 * SAMPLE_RATE, np.random.default_rng(at)))


def asked(gate: Gate, samples: np.ndarray) -> set[int]:
    """The windows that `--budget auto` asks about."""
    sound = Sound(samples.clip(-1, 1).astype(np.float32), 0.0, SAMPLE_RATE)
    encoder = encoder_named(gate.card.encoder)
    tracks = list(gate.scorer(encoder.encode([sound])))  # type: ignore[attr-defined]
    scores = Track(np.concatenate([each.values for each in tracks]))
    windows = Grid().score(
        scores, len(samples) / SAMPLE_RATE, rates=gate.rates, lengths=gate.lengths.usual
    )
    bought = Coverage().solve_many([windows], budget=Budget(price=AUTO_PRICE))[0]
    return {int(window) for window in bought}


if __name__ == "__main__":
    main()
