"""What each frontline costs: time, bytes, and both against decoding the sound alone.

    python benchmarks/frontlines.py [--minutes 1] [--height 1080] [--frontlines log-mel,flow]
    EARMARK_CHECKPOINTS=FOLDER python benchmarks/frontlines.py          # published encoders too

Films its own recording, in the 1080 lines of a body-worn camera, measures every frontline that is
ready here in one run on one machine, and prints one table. The floor is decoding the same sound to
16 kHz mono and throwing it away. Compute is processor time over all threads and processes, the best
of several turns, so that a noisy neighbour does not count; opening a model's weights is no part of
it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from listen import decode_audio, timed

from earmark.gate.frontline import FRONTLINES, frontline_named, with_checkpoints
from earmark.gate.listener import listen
from earmark.media import Recording, open_recording
from earmark.models.model_store import checkpoint_folder, model_store
from earmark_lab.experiments.paper import READY, systems

VISUAL = ("frame-difference", "flow", "flow-compensated")

LEAST_SLOWDOWN = 15.0
"""How much slower than `log-mel` a visual frontline is at least; the paper has 21."""


@dataclass
class Row:
    """What one frontline cost."""

    name: str
    words: str
    """What `frontline_named` takes: the name, and where its checkpoint lies."""
    seconds: float = float("inf")
    bytes_read: int = 0

    def take(self, recording: Recording, moment: Recording) -> None:
        """Measure once more and keep the better time; `moment` is heard first, to be ready."""
        frontline = frontline_named(self.words)
        listen(moment, frontline)
        heard = None

        def job() -> None:
            nonlocal heard
            heard = listen(recording, frontline)

        self.seconds = min(self.seconds, timed(job))
        self.bytes_read = heard.bytes_read


def main() -> None:
    """Film, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="length of the recording")
    parser.add_argument("--height", type=int, default=1080, help="lines of the pictures")
    parser.add_argument("--turns", type=int, default=2, help="times each measurement is taken")
    parser.add_argument("--frontlines", default="", help="these alone, with commas, and log-mel")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # PyTorch's idle threads would count as compute
    rows = ready(set(filter(None, options.frontlines.split(","))))
    with tempfile.TemporaryDirectory() as folder:
        path, moment = Path(folder, "film.mp4"), Path(folder, "moment.mp4")
        film(path, seconds=round(options.minutes * 60), height=options.height)
        film(moment, seconds=1, height=options.height)
        measure(path, open_recording(moment), rows, options.turns)


def ready(wanted: set[str]) -> list[Row]:
    """The frontlines that can be measured here, `wanted` alone if any are named."""
    store, folder = model_store(), checkpoint_folder()
    frontlines = [each for each in systems() if each.kind == "frontline"]
    states = {each.name: each.state(store, folder) for each in frontlines}
    unknown = sorted(wanted - states.keys())
    if unknown:
        raise SystemExit(f"there is no frontline {unknown[0]!r}; there are {', '.join(states)}")
    names = [name for name in FRONTLINES if not wanted or name in wanted | {"log-mel"}]
    for name in names:
        if states[name] != READY:
            print(f"not measured: {name} ({states[name]})")
    return [Row(name, with_checkpoints(name)) for name in names if states[name] == READY]


def measure(path: Path, moment: Recording, rows: list[Row], turns: int) -> None:
    """Measure every one of `rows` in turns, and print the table."""
    recording, floor = open_recording(path), float("inf")
    for _ in range(turns):
        floor = min(floor, timed(lambda: decode_audio(path)))
        for row in rows:
            row.take(recording, moment)
    show(recording, rows, floor)


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
    visual = [row for row in rows if row.name in VISUAL]
    if visual:
        least = min(row.seconds / log_mel for row in visual)
        print(f"\nVisual: at least {least:.1f} x the time of log-mel; to reach: {LEAST_SLOWDOWN}.")


if __name__ == "__main__":
    main()
