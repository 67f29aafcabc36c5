"""Films a long quiet shift with a few sounds in it, three of them drilling: what to search in.

    python scripts/make_quiet_shift.py shift.mp4 --minutes 120
    python scripts/make_quiet_shift.py shift.mp4 --data ../shared/data      # real clips beside it

The drill is made here, of what a motor and its gears give off, and YAMNet knows it as one. The
other sounds are cut from the composites of `resound` at the annotated times of EPIC-SOUNDS where
those are at hand, and made here where they are not. `shift.csv` beside the video says what is when.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from earmark_lab.annotations.table_readers import parse_time

RATE = 16_000
LENGTH = 8.0
"""Seconds of each drilling."""
OTHERS = ("tap running", "cut / chop", "scrub / scrape / scour / wipe", "paper rustle", "beep")

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Event:
    """What is heard, and from when until when."""

    start: float
    end: float
    label: str
    sound: Samples


def drill(seed: int, seconds: float = LENGTH) -> Samples:
    """A motor at about 650 turns of its teeth a second, its gears five times that, and hiss."""
    rng, count = np.random.default_rng(seed), round(seconds * RATE)
    time = np.arange(count) / RATE
    drift = 1 + 0.12 * np.cumsum(rng.standard_normal(count)) / np.sqrt(RATE)
    turn = 2 * np.pi * np.cumsum(650 * drift) / RATE
    motor = sum(np.sin(k * turn + k * k) / k for k in range(1, 12))
    gears = sum(np.sin(5 * k * turn + k) / k for k in (1, 2))
    hiss = np.diff(rng.standard_normal(count + 1))
    parts = ((motor, 1.0), (gears, 1.2), (hiss, 2.4))
    mixed = sum(part / np.std(part) * weight for part, weight in parts)
    mixed *= 1 + 0.2 * np.sin(2 * np.pi * 58 * time)
    return _faded(mixed, peak=0.25)


def _faded(sound: NDArray[np.floating], *, peak: float) -> Samples:
    ramp = np.minimum(1.0, (np.arange(len(sound)) + 1) / (0.05 * RATE))
    scaled = sound / max(float(np.abs(sound).max()), 1e-9) * ramp * ramp[::-1]
    return np.asarray(peak * scaled, dtype=np.float32)


def made_others() -> Iterator[tuple[str, Samples]]:
    """Water from a tap, and beeps."""
    rng, time = np.random.default_rng(5), np.arange(5 * RATE) / RATE
    flow = lfilter([0.3, 0.0, -0.3], [1.0, -0.9, 0.4], rng.standard_normal(len(time)))
    yield "tap running", _faded(flow, peak=0.1)
    yield "beep", _faded(np.sin(2 * np.pi * 2000 * time) * (time % 1 < 0.5), peak=0.1)


def real_others(data: Path) -> Iterator[tuple[str, Samples]]:
    """A long clip of each kind, from the composites at the annotated times."""
    with (data / "epic" / "EPIC_Sounds_validation.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["description"] in OTHERS]
    for label in OTHERS:
        own = [row for row in rows if row["description"] == label]
        own = [row for row in own if (data / "resound" / f"{row['video_id']}.opus").exists()]
        spans = [
            (row, parse_time(row["start_timestamp"]), parse_time(row["stop_timestamp"]))
            for row in own
        ]
        row, start, end = max(spans, key=lambda span: min(10.0, span[2] - span[1]))
        path = data / "resound" / f"{row['video_id']}.opus"
        yield label, _faded(read(path, start, min(end, start + 10.0)), peak=0.2)


def read(path: Path, start: float, end: float) -> Samples:
    """Mono sound at `RATE`."""
    resampler = av.AudioResampler("flt", "mono", RATE)
    pieces: list[Samples] = []
    with av.open(str(path)) as container:
        for frame in container.decode(audio=0):
            pieces += [each.to_ndarray()[0] for each in resampler.resample(frame)]
            if frame.time is not None and frame.time > end:
                break
    return np.concatenate(pieces)[round(start * RATE) : round(end * RATE)]


def compose(minutes: float, data: Path | None = None, *, drillings: int = 3) -> list[Event]:
    """What is heard when: the drillings and, between them, the other sounds twice each."""
    duration = 60 * minutes
    others = list(real_others(data) if data else made_others()) * 2
    sounds = [("drill", drill(seed)) for seed in range(drillings)]
    every = len(others) // max(1, drillings) + 1
    for place, other in enumerate(others):
        sounds.insert(min(len(sounds), (place // every) * (every + 1) + place % every), other)
    rng, slot = np.random.default_rng(7), duration / len(sounds)
    events = []
    for place, (label, sound) in enumerate(sounds):
        seconds = len(sound) / RATE
        start = slot * place + rng.uniform(0.2, 0.8) * max(0.0, slot - seconds)
        events.append(Event(start, start + seconds, label, sound))
    return events


def film(path: Path, events: list[Event], *, minutes: float) -> None:
    """Write the shift to `path`, and what is when beside it; a picture a second."""
    duration = round(60 * minutes)
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=1)
        video.width, video.height, video.pix_fmt, video.bit_rate = 320, 180, "yuv420p", 60_000
        video.gop_size = 10
        audio = container.add_stream("aac", rate=RATE)
        audio.layout = "mono"
        rng = np.random.default_rng(1)
        for second in range(duration):
            frame = av.AudioFrame.from_ndarray(_second(events, second, rng)[None], "fltp", "mono")
            frame.sample_rate, frame.pts, frame.time_base = RATE, second * RATE, Fraction(1, RATE)
            container.mux(audio.encode(frame))
            shown = av.VideoFrame.from_ndarray(_picture(events, second), "rgb24")
            shown.pts = second
            container.mux(video.encode(shown))
        container.mux(audio.encode(None))
        container.mux(video.encode(None))
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["recording", "start", "end", "label"])
        rows.writerows([path.stem, f"{e.start:.2f}", f"{e.end:.2f}", e.label] for e in events)


def _second(events: list[Event], second: int, rng: np.random.Generator) -> Samples:
    """A second of the sound: quiet, and whatever reaches into it."""
    sound = 0.0005 * rng.standard_normal(RATE, dtype=np.float32)
    for event in events:
        first = round(event.start * RATE) - second * RATE
        low, high = max(0, first), min(RATE, first + len(event.sound))
        if low < high:
            sound[low:high] += event.sound[low - first : high - first]
    return sound


def _picture(events: list[Event], second: int) -> NDArray[np.uint8]:
    """A bench; on it a block whose colour is what is going on."""
    picture = np.full((180, 320, 3), (206, 198, 184), dtype=np.uint8)
    picture[120:] = (150, 120, 90)
    for place, label in enumerate(dict.fromkeys(event.label for event in events)):
        if any(e.label == label and e.start < second + 1 and second < e.end for e in events):
            picture[70:130, 120:200] = np.array([(200, 60, 40), (40, 110, 190), (60, 150, 80)])[
                place % 3
            ]
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--drillings", type=int, default=3)
    parser.add_argument("--data", type=Path, help="The folder that holds `resound` and `epic`.")
    said = parser.parse_args()
    events = compose(said.minutes, said.data, drillings=said.drillings)
    film(said.path, events, minutes=said.minutes)
    for event in events:
        print(f"{event.start:8.1f} - {event.end:8.1f}  {event.label}")


if __name__ == "__main__":
    main()
