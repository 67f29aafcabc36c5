"""What each frontline costs: time, bytes, and both against decoding the sound alone.

    python benchmarks/frontlines.py [--minutes 2] [--height 1080]

Films its own recording, in the 1080 lines of a body-worn camera, measures every frontline that is
ready here in one run on one machine, and prints one table. The floor is decoding the same sound to
16 kHz mono and throwing it away. Compute is processor time over all threads, the best of several
turns, so that a noisy neighbour does not count.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from listen import decode_audio

from earmark.cli.frontlines import READY, SYSTEMS
from earmark.gate.listen import listen
from earmark.gate.registry import FRONTLINES, frontline_named
from earmark.media import Recording, open_recording
from earmark.models import Shelf

LEAST_SLOWDOWN = 15.0
"""How much slower than `log-mel` a visual frontline is at least; the paper has 21."""


@dataclass
class Row:
    """What one frontline cost."""

    name: str
    seconds: float = float("inf")
    bytes_read: int = 0

    def take(self, recording: Recording) -> None:
        """Measure once more and keep the better time."""
        frontline = frontline_named(self.name)
        heard = None

        def job() -> None:
            nonlocal heard
            heard = listen(recording, frontline)

        self.seconds = min(self.seconds, computed(job))
        self.bytes_read = heard.bytes_read


def main() -> None:
    """Film, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2.0, help="length of the recording")
    parser.add_argument("--height", type=int, default=1080, help="lines of the pictures")
    parser.add_argument("--turns", type=int, default=3, help="times each measurement is taken")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "film.mp4")
        film(path, seconds=round(options.minutes * 60), height=options.height)
        measure(path, options.turns)


def measure(path: Path, turns: int) -> None:
    """Measure every frontline that is ready, in turns, and print the table."""
    recording, floor = open_recording(path), float("inf")
    states = {
        system.name: system.state(Shelf()) for system in SYSTEMS if system.kind == "frontline"
    }
    rows = [Row(name) for name in FRONTLINES if states.get(name, READY) == READY]
    for _ in range(turns):
        floor = min(floor, computed(lambda: decode_audio(path)))
        for row in rows:
            row.take(recording)
    show(recording, rows, floor)
    for name, state in states.items():
        if state != READY:
            print(f"not measured: {name} ({state})")


def film(path: Path, *, seconds: int, height: int) -> None:
    """A room that sways by as a head does, something that moves in it, and sound: H.264 and AAC."""
    rng, width = np.random.default_rng(0), height * 16 // 9
    small = rng.integers(0, 255, (height // 8 + 16, width // 8 + 64, 3), dtype=np.uint8)
    room = small.repeat(8, axis=0).repeat(8, axis=1)
    with av.open(str(path), "w") as out:
        video = out.add_stream("libx264", rate=30, options={"preset": "veryfast", "crf": "26"})
        video.width, video.height, video.pix_fmt = width, height, "yuv420p"
        audio = out.add_stream("aac", rate=48_000, layout="stereo")
        for second in range(seconds):
            for frame in range(30):
                moment = second + frame / 30
                down = round(48 + 40 * np.sin(2.1 * moment))
                right = round(200 + 190 * np.sin(1.3 * moment))
                picture = room[down : down + height, right : right + width].copy()
                hand = round((0.5 + 0.4 * np.sin(3 * moment)) * (width - height // 4))
                picture[height // 2 : height * 3 // 4, hand : hand + height // 4] = 200
                out.mux(video.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
            noise = rng.standard_normal((2, 48_000)).astype(np.float32) * 0.05
            sound = av.AudioFrame.from_ndarray(noise, "fltp", "stereo")
            sound.sample_rate, sound.pts = 48_000, second * 48_000
            out.mux(audio.encode(sound))
        out.mux(video.encode(None))
        out.mux(audio.encode(None))


def computed(job: Callable[[], object]) -> float:
    """Seconds of processor time, over all threads."""
    began = time.process_time()
    job()
    return time.process_time() - began


def show(recording: Recording, rows: list[Row], floor: float) -> None:
    length, video = recording.duration, recording.video
    print(
        f"{length / 60:.0f} min of {video.codec} {video.width_pixels}x{video.height_pixels} at "
        f"{video.mean_fps:.0f} a second + {recording.audio_tracks[0].codec}, "
        f"{recording.size_bytes:,} bytes; the sound alone decodes in {floor:.2f} s of compute\n"
    )
    print(
        "| frontline | s an hour | x real time | bytes read | of the file | x floor | x log-mel |"
    )
    print("|---|---|---|---|---|---|---|")
    log_mel = next(row.seconds for row in rows if row.name == "log-mel")
    for row in rows:
        share = row.bytes_read / recording.size_bytes
        print(
            f"| {row.name} | {row.seconds / length * 3600:.3g} | {length / row.seconds:.0f} "
            f"| {row.bytes_read:,} | {share:.1%} | {row.seconds / floor:.2f} "
            f"| {row.seconds / log_mel:.1f} |"
        )
    visual = [row for row in rows if row.name in ("frame-difference", "flow", "flow-compensated")]
    least = min((row.seconds / log_mel for row in visual), default=float("nan"))
    print(f"\nVisual ones: at least {least:.1f} x the time of log-mel; to reach: {LEAST_SLOWDOWN}.")


if __name__ == "__main__":
    main()
