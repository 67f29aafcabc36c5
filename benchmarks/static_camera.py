"""Frontlines on a camera that stands still, beside the same scenes from a head that moves.

    python benchmarks/static_camera.py [--recordings 6] [--minutes 4] [--silent 0.3]

The paper's comparison of sound with pictures is of body-worn cameras, and says so: a camera that
stands still favours pictures. This films its own scenes (a textured wall, and an arm that moves
during every action), each once with a fixed camera and once as if worn on a head, with the same
sound. Some actions are silent, and there are sounds that belong to no action. It prints coverage
by frontline, mean over the recordings: drawn scenes, so an order, not a size.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from earmark_lab.experiments.coverage_evaluation import evaluate

WIDTH, HEIGHT, MARGIN, RATE, SAMPLE_RATE = 320, 180, 48, 10, 16_000
CAMERAS = ("fixed", "worn")
FRONTLINES = ("packets", "frame-difference", "flow", "flow-compensated", "energy", "auto")
BUDGETS = (0.05, 0.1, 0.25, 0.5)
Pixels = NDArray[np.uint8]


def draw_actions(duration: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Bouts of work between idle stretches."""
    spans, time = [], rng.uniform(5, 20)
    while time < duration - 8:
        for _ in range(rng.integers(2, 6)):
            length = rng.uniform(1, 4)
            spans.append((time, time + length))
            time += length + rng.uniform(0.5, 3)
        time += rng.uniform(15, 60)
    return [(start, end) for start, end in spans if end < duration]


def pictures(
    spans: list[tuple[float, float]], duration: float, *, is_worn: bool, seed: int
) -> Iterator[Pixels]:
    rng = np.random.default_rng(seed)
    height, width = HEIGHT + 2 * MARGIN, WIDTH + 2 * MARGIN
    coarse = rng.integers(40, 215, (height // 12 + 1, width // 12 + 1))
    wall = np.kron(coarse, np.ones((12, 12)))[:height, :width]
    place = velocity = np.zeros(2)
    down, across = np.mgrid[:HEIGHT, :WIDTH]
    for number in range(round(duration * RATE)):
        time = number / RATE
        if is_worn:  # a head drifts, turns and is pulled back
            velocity = 0.8 * velocity + rng.normal(0, 2.0, 2) - 0.02 * place
            place = np.clip(place + velocity, -MARGIN, MARGIN)
        top, left = (MARGIN + place).astype(int)
        picture = wall[top : top + HEIGHT, left : left + WIDTH] + rng.normal(0, 2, (HEIGHT, WIDTH))
        if any(start <= time < end for start, end in spans):
            x, y = WIDTH * (0.5 + 0.2 * np.sin(5 * time)), HEIGHT * (0.7 + 0.1 * np.cos(7 * time))
            picture[((across - x) / 34) ** 2 + ((down - y) / 46) ** 2 < 1] = 150
        yield picture.clip(0, 255).astype(np.uint8)


def sound(
    spans: list[tuple[float, float]], duration: float, silent: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    samples = rng.normal(0, 0.004, round(duration * SAMPLE_RATE))
    strays = [(start, start + 1.0) for start in rng.uniform(0, duration - 1, int(duration / 90))]
    for start, end in [span for span in spans if rng.random() >= silent] + strays:
        for knock in np.arange(start, end, rng.uniform(0.2, 0.6)):
            first, size = int(knock * SAMPLE_RATE), SAMPLE_RATE // 12
            part = samples[first : first + size]
            part += (
                rng.uniform(0.05, 0.3)
                * rng.normal(0, 1, len(part))
                * np.exp(-np.arange(len(part)) / (SAMPLE_RATE / 60))
            )
    return samples.clip(-1, 1).astype(np.float32)


def film(path: Path, frames: Iterator[Pixels], samples: NDArray[np.float32]) -> None:
    with av.open(str(path), "w") as container:
        video = container.add_stream(
            "libx264", rate=RATE, options={"crf": "26", "g": str(4 * RATE)}
        )
        video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        audio = container.add_stream("aac", rate=SAMPLE_RATE, layout="mono")
        for picture in frames:
            frame = av.VideoFrame.from_ndarray(picture, format="gray")
            container.mux(video.encode(frame))
        container.mux(video.encode())
        for first in range(0, len(samples), 1024):
            part = av.AudioFrame.from_ndarray(samples[None, first : first + 1024], "fltp", "mono")
            part.sample_rate, part.pts = SAMPLE_RATE, first
            container.mux(audio.encode(part))
        container.mux(audio.encode())


def make(folder: Path, recordings: int, minutes: float, silent: float) -> None:
    """For each camera a folder of films, with `actions.csv`."""
    for camera in CAMERAS:
        (folder / camera).mkdir(parents=True)
        lines = ["recording,start,end,label"]
        for number in range(recordings):
            rng, name = np.random.default_rng(number), f"C{number:02d}_{camera}"
            spans = draw_actions(60 * minutes, rng)
            samples = sound(spans, 60 * minutes, silent, rng)
            frames = pictures(spans, 60 * minutes, is_worn=camera == "worn", seed=number)
            film(folder / camera / f"{name}.mp4", frames, samples)
            lines += [f"{name},{start:.3f},{end:.3f},work" for start, end in spans]
        (folder / camera / "actions.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--silent", type=float, default=0.3, help="share of silent actions")
    parser.add_argument("--frontlines", default=",".join(FRONTLINES))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make(folder, options.recordings, options.minutes, options.silent)
        for camera in CAMERAS:
            result = evaluate(
                folder / camera / "actions.csv",
                media=folder / camera,
                frontlines=options.frontlines.split(","),
                rules=("phases", "coverage", "oracle"),
                budgets=BUDGETS,
                baseline="phases",
            )
            print(f"\n## A {camera} camera\n\n{result.report.tables[0].to_markdown()}")


if __name__ == "__main__":
    main()
