"""What every part of the evidence costs, beside decoding the sound alone.

    python benchmarks/evidence.py [--minutes 5]

Makes its own scene and measures in processor seconds on one thread, the best of several. What runs
over everything is held against the floor: decoding the same sound and throwing it away. What runs
on speech, or on the frames of a pick, is told by the second of speech and by the frame. A model
that is not here is left out, and said to be.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from earmark.errors import EarmarkError
from earmark.evidence.object_detector import ObjectTagger
from earmark.evidence.text_reader import TextReader
from earmark.evidence.voice_activity import VoiceActivity
from earmark.evidence.whisper_model import WhisperModel
from earmark.features.yamnet import YAMNet
from earmark.media import Meter, Recording, open_recording
from earmark.media.demo_scene import Script, film
from earmark.media.demo_workshop import WORKSHOP_NOISES
from earmark.timeline import Span

RATE = 16_000


def main() -> None:
    """Make the scene, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="length of the scene")
    parser.add_argument("--turns", type=int, default=3, help="times each measurement is taken")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = Script.compose(duration=60 * options.minutes, is_vivid=True)
        film(Path(folder, "scene.mp4"), script, size=(640, 352), fps=2)
        recording = open_recording(Path(folder, "scene.mp4"))
        report(recording, options.turns)


def report(recording: Recording, turns: int) -> None:
    """One row a part."""
    floor = best_of(turns, lambda: sum(len(block) for block in recording.sound()))
    print(f"| over everything, {recording.duration / 60:.0f} min | s an hour | x floor |")
    print("|---|---|---|")
    whole = {
        "floor: the sound decoded": lambda: sum(len(block) for block in recording.sound()),
        "voice activity (Silero)": lambda: list(VoiceActivity()(recording.sound())),
        "named sounds (YAMNet)": lambda: list(YAMNet()(recording, meter=Meter())),
    }
    hours = recording.duration / 3600
    for name, job in whole.items():
        tell(name, turns, job, lambda took: f"{took / hours:.1f} | {took / floor:.2f}")
    print("\n| where there is something | processor seconds |\n|---|---|")
    frames = recording.frames([recording.duration / 2])
    tagger, reader, whisper = ObjectTagger(), TextReader(), WhisperModel()
    voice = 0.3 * WORKSHOP_NOISES["voice"](np.random.default_rng(0), 20 * RATE, RATE)
    some = {
        "objects of a frame (EfficientDet-Lite0)": lambda: tagger(frames),
        "text of a frame (PP-OCR)": lambda: reader(frames, Span(0, 4)),
        "words of 20 s of speech (Whisper-base)": lambda: whisper(voice.astype(np.float32)),
    }
    for name, job in some.items():
        tell(name, turns, job, lambda took: f"{took:.2f}")


def tell(name: str, turns: int, job: Callable[[], object], as_text: Callable[[float], str]) -> None:
    """The row of one part, or why there is none."""
    try:
        job()  # what is opened once is opened
        print(f"| {name} | {as_text(best_of(turns, job))} |")
    except EarmarkError as error:
        print(f"| {name} | not here: {error} |")


def best_of(turns: int, job: Callable[[], object]) -> float:
    """The least processor seconds of several turns."""
    took = []
    for _ in range(turns):
        began = time.process_time()
        job()
        took.append(time.process_time() - began)
    return min(took)


if __name__ == "__main__":
    main()
