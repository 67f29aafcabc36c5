"""What every part of the evidence costs, beside decoding the sound alone, and what it holds.

    python benchmarks/evidence.py [--minutes 5]
    python benchmarks/evidence.py --memory 1 10

Makes its own recordings: a quiet one with a sound now and then, and a busy one in which every
moment stands out; as a camera writes sound (AAC, 48 kHz, stereo) and as a small recorder does
(16 kHz, mono), which is decoded in a third of the time. Processor seconds of all threads and
processes, and seconds by the clock, which mean something only where nothing else runs: the best of
several turns. What runs over everything is held against decoding the same sound and throwing it
away. A model that is not here is left out, and said to be.

With `--memory` the most that `earmark sounds` holds while it hears so many hours of busy sound.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from earmark.errors import EarmarkError
from earmark.evidence.picture_evidence import ObjectTagger, TextReader
from earmark.evidence.sound_track import CELL, SoundListener
from earmark.evidence.speech_listener import VoiceActivity
from earmark.evidence.whisper_model import WhisperModel
from earmark.features.yamnet import YAMNet
from earmark.gate.gate import default_frontline
from earmark.media import Meter, Recording, open_recording
from earmark.timeline import Span
from earmark_lab.demo import NOISES, Script, write_scene

RATE = 16_000
KINDS = {
    "camera, quiet": (48_000, "stereo", False),
    "camera, busy": (48_000, "stereo", True),
    "recorder, quiet": (16_000, "mono", False),
    "recorder, busy": (16_000, "mono", True),
}

AND_TELL = """import atexit, pathlib, sys
from earmark.cli import main
atexit.register(lambda: sys.stderr.write(pathlib.Path("/proc/self/status").read_text()))
main()"""
"""The command line, which says at its end what the system knows of it (on Linux): that its parent
held more before it was started does not count, as it does in `getrusage`."""


def main() -> None:
    """Make the recordings, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="length of the recordings")
    parser.add_argument("--turns", type=int, default=3, help="times each measurement is taken")
    parser.add_argument("--only", default="", help="kinds of recording that begin so")
    parser.add_argument("--memory", type=float, nargs="+", metavar="HOURS", default=())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.memory:
            tell_memory(Path(folder), options.memory)
            return
        print(
            f"| over everything, {options.minutes:g} min | processor, s an hour | x decoding ",
            end="",
        )
        print("| by the clock, s an hour | x decoding |\n|---|---|---|---|---|")
        for name, (rate, layout, is_busy) in KINDS.items():
            if not name.startswith(options.only):
                continue
            path = record(Path(folder, f"{name}.m4a"), 60 * options.minutes, rate, layout, is_busy)
            tell_whole(name, open_recording(path), options.turns)
        tell_some(Path(folder), options.turns)


def record(path: Path, seconds: float, rate: int, layout: str, is_busy: bool) -> Path:
    """A recording of made sounds, one after the other or one a minute, at ever other levels."""
    rng = np.random.default_rng(1)
    pieces = [make(rng, 2 * rate, rate) for make in NOISES.values()]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=rate)
        stream.layout, stream.bit_rate = layout, 64_000 * (rate // 16_000)
        for part in range(int(seconds / 2)):
            sound = 0.0005 * rng.standard_normal(2 * rate)
            if part % 30 == 1 or (is_busy and part % 30):  # a quiet moment a minute in either
                sound += rng.uniform(0.03, 0.3) * np.roll(pieces[part % len(pieces)], 99 * part)
            channels = np.repeat(sound[None].astype(np.float32), 1 + (layout == "stereo"), axis=0)
            frame = av.AudioFrame.from_ndarray(channels, "fltp", layout)
            frame.sample_rate, frame.pts = rate, part * 2 * rate
            frame.time_base = Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def listen_for_names(recording: Recording) -> None:
    """What `earmark sounds` does with a recording."""
    SoundListener(YAMNet(cell=CELL))(recording).events()


def tell_whole(name: str, recording: Recording, turns: int) -> None:
    """One row a part that runs over everything."""

    def decode() -> int:
        return sum(len(block) for block in recording.sound(sample_rate=RATE, meter=Meter()))

    frontline = default_frontline()
    floor, hours = best_of(turns, decode), recording.duration / 3600

    def as_row(took: Took) -> str:
        return (
            f"{took.processor / hours:.1f} | {took.processor / floor.processor:.2f} "
            f"| {took.clock / hours:.1f} | {took.clock / floor.clock:.2f}"
        )

    print(f"| {name}: the sound decoded | {as_row(floor)} |", flush=True)
    parts: dict[str, Callable[[], object]] = {
        "the gate": lambda: list(frontline(recording, meter=Meter())),
        "voice activity (Silero)": lambda: list(VoiceActivity()(recording.sound())),
        "named sounds (YAMNet)": lambda: listen_for_names(recording),
    }
    for part, job in parts.items():
        tell(f"{name}: {part}", turns, job, as_row)


def tell_memory(folder: Path, many_hours: Sequence[float]) -> None:
    """The most that one process of `earmark sounds` holds, for several lengths."""
    minute = record(folder / "part.m4a", 600, 16_000, "mono", True)
    print("| busy sound, h | events | most memory, MB |\n|---|---|---|")
    for hours in many_hours:
        path = repeat(minute, folder / "long.m4a", round(6 * hours))
        command = [
            sys.executable,
            "-c",
            AND_TELL,
            "search",
            "--sounds",
            str(path),
            "--no-cache",
            "--format",
        ]
        done = subprocess.run([*command, "csv"], capture_output=True, text=True, check=False)
        (most,) = re.findall(r"VmHWM:\s+(\d+) kB", done.stderr) or ["nan"]
        events = len(done.stdout.splitlines()) - 1
        print(f"| {hours:g} | {events} | {float(most) / 1024:.0f} |", flush=True)


def repeat(path: Path, into: Path, times: int) -> Path:
    """The sound at `path`, so many times one after the other; nothing is encoded again."""
    with av.open(str(path)) as given, av.open(str(into), "w") as made:
        (own,) = given.streams.audio
        stream = made.add_stream_from_template(own)
        packets = [packet for packet in given.demux(own) if packet.size]
        for turn in range(times):
            for place, packet in enumerate(packets):
                packet.stream = stream
                packet.pts = packet.dts = 1024 * (turn * len(packets) + place)
                made.mux(packet)
    return into


def tell_some(folder: Path, turns: int) -> None:
    """One row a part that runs where there is something."""
    write_scene(folder / "s.mp4", Script.compose(duration=60.0), size=(640, 352), fps=2)
    recording = open_recording(folder / "s.mp4")
    floor = best_of(turns, lambda: sum(len(block) for block in recording.sound()))
    second = floor.processor / recording.duration
    print("\n| where there is something | s | as decoding so much sound |\n|---|---|---|")
    frames = recording.frames([recording.duration / 2])
    tagger, reader, whisper = ObjectTagger(), TextReader(), WhisperModel()
    voice = 0.3 * NOISES["voice"](np.random.default_rng(0), 20 * RATE, RATE)
    some: dict[str, Callable[[], object]] = {
        "a frame decoded": lambda: recording.frames([recording.duration / 2]),
        "objects of a frame (EfficientDet-Lite0)": lambda: tagger(frames, Span(0, 4)),
        "text of a frame (PP-OCR)": lambda: reader(frames, Span(0, 4)),
        "words of 20 s of speech (Whisper-base)": lambda: whisper(voice.astype(np.float32)),
    }

    def as_row(took: float) -> str:
        return f"{took:.2f} | {took / second / 60:.1f} min"

    for name, job in some.items():
        tell(name, turns, job, lambda took: as_row(took.processor))


@dataclass(frozen=True)
class Took:
    """Seconds that something took."""

    processor: float
    """Of all threads and processes."""
    clock: float


def tell(name: str, turns: int, job: Callable[[], object], as_text: Callable[[Took], str]) -> None:
    """The row of one part, or why there is none."""
    try:
        job()  # what is opened once is opened
        print(f"| {name} | {as_text(best_of(turns, job))} |", flush=True)
    except EarmarkError as error:
        print(f"| {name} | not here: {error} |")


def best_of(turns: int, job: Callable[[], object]) -> Took:
    """The least of several turns."""
    took = []
    for _ in range(turns):
        clock, processor = time.perf_counter(), processor_time()
        job()
        took.append(Took(processor_time() - processor, time.perf_counter() - clock))
    return Took(min(one.processor for one in took), min(one.clock for one in took))


def processor_time() -> float:
    """Of this process and those it has waited for."""
    return time.process_time() + sum(os.times()[2:4])


if __name__ == "__main__":
    main()
