"""What looking and asking cost: frames, time, calls a second, memory.

    python benchmarks/caption.py [--minutes 2] [--calls 800]

Makes its own media and starts its own server, measures everything in one run on one machine, and
prints one table a question. The server answers every call after 200 ms and does nothing else, so
what is missing to the ideal was lost on this side.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import av
import numpy as np

from earmark.captioning.dispatch import Failure, dispatch
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.request import Answer, Question, Request
from earmark.media import Frame, Recording, find, open_recording
from earmark.settings import Limits
from earmark.timeline import Span
from earmark_lab.demo import make_scene

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fault_server import MODEL, fault_server

LATENCY = 0.2
IN_FLIGHT = 16
WINDOW = 4.0
TOKENS = 256
SIZE = (1280, 720)


def main() -> None:
    """Make the media, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2.0, help="length of the recording")
    parser.add_argument("--calls", type=int, default=800, help="calls asked of the slow server")
    parser.add_argument("--turns", type=int, default=3, help="times each measurement is taken")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        path, url, count = options.peak
        print(peak_of_asking(Path(path), url, int(count)))
        return
    report_calls(options.calls)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scene.mp4")
        make_scene(path, seed=1, duration=60 * options.minutes, size=SIZE, fps=25)
        report_frames(path, options.turns)
        report_memory(path)


def report_calls(count: int) -> None:
    """Calls a second against what the server's latency allows."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (9, 16, 3), dtype=np.uint8)
    picture = Frame(0.0, noise).resized(640, 352)  # busy enough for a JPEG of ordinary size
    waiting = (request_at(WINDOW * place).showing([picture]) for place in range(count))
    with fault_server(latency=LATENCY) as server:
        captioner = OpenAICaptioner(server.url, MODEL)
        captioner(request_at(0.0).showing([picture]), timeout=10.0)  # loads what is loaded once
        started = time.perf_counter()
        tally = dispatch(waiting, captioner, Limits(concurrency=IN_FLIGHT), NoLog())
        seconds = time.perf_counter() - started
    ideal, rate = IN_FLIGHT / LATENCY, tally.answered / seconds
    print(
        f"## Calls a second ({count} calls, {LATENCY * 1000:.0f} ms each, {IN_FLIGHT} in flight)\n"
    )
    print("| | calls a second | share of the ideal |\n|---|---|---|")
    print(f"| ideal | {ideal:.1f} | 1.00 |\n| earmark | {rate:.1f} | {rate / ideal:.2f} |")
    print("\nTo reach: at least 0.90.\n")


def report_frames(path: Path, turns: int) -> None:
    """Frames decoded beside those needed, and time against plain PyAV."""
    recording = open_recording(find([str(path)])[0])
    instants = picked_instants(recording.duration)
    jobs: dict[str, Callable[[], object]] = {
        "earmark": lambda: look(recording, instants),
        "PyAV, default threads": lambda: seek_and_decode(path, instants, "SLICE"),
        "PyAV, all threads": lambda: seek_and_decode(path, instants, "AUTO"),
    }
    decoded = look(recording, instants)
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(turns):
        for name, job in jobs.items():
            best[name] = min(best[name], timed(job))
    needed = frames_needed(recording, instants)
    floor = min(seconds for name, seconds in best.items() if name != "earmark")
    whole = len(recording.video_packets().times)
    print(f"## Frames ({len(instants)} picks of {whole} frames, {SIZE[0]} x {SIZE[1]} H.264)\n")
    print("| | frames |\n|---|---|")
    print(f"| from the key frame before each pick up to it | {needed} |")
    print(f"| decoded | {decoded} |\n| decoded beside them | {decoded - needed} |")
    print("\nTo reach: 0 beside them.\n")
    print("| | ms a pick | x the faster PyAV |\n|---|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {1000 * seconds / len(instants):.1f} | {seconds / floor:.2f} |")
    print("\nTo reach: at most 1.2.\n")


def report_memory(path: Path) -> None:
    """Peak memory of looking and asking, by the number of picks."""
    print("## Peak memory, decoding and asking\n")
    print("| picks | MB |\n|---|---|")
    with fault_server() as server:
        for count in (25, 100, 400):
            command = [sys.executable, __file__, "--peak", str(path), server.url, str(count)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            print(f"| {count} | {done.stdout.strip()} |")
    print("\nTo reach: flat in the number of picks.\n")


def peak_of_asking(path: Path, url: str, count: int) -> int:
    """Megabytes this process took at most while asking about `count` picks."""
    recording = open_recording(find([str(path)])[0])
    instants = np.linspace(0.0, recording.duration - 1.0, count).tolist()
    captioner = OpenAICaptioner(url, MODEL)
    limits = Limits(concurrency=IN_FLIGHT)
    tally = dispatch(requests_for(recording, instants), captioner, limits, NoLog())
    assert tally.answered == count
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000


def requests_for(recording: Recording, instants: Sequence[float]) -> Iterator[Request]:
    """One request a pick, its frame decoded when it is taken."""
    with recording.frame_reader() as reader:
        for instant in instants:
            yield request_at(instant).showing(reader.frames([instant]))


def request_at(instant: float) -> Request:
    """A request about the window around `instant`."""
    start = WINDOW * (instant // WINDOW)
    window = Span(start, start + WINDOW)
    question = Question(tokens=TOKENS)
    prompt = question.prompt(window, times=[instant], tags=["chopping", "tap water"])
    return Request("scene", window, (instant,), prompt, MODEL, question)


def picked_instants(duration: float, *, every: int = 4, seed: int = 0) -> list[float]:
    """A moment somewhere in every fourth window: a budget of 25 %."""
    rng = np.random.default_rng(seed)
    starts = np.arange(0.0, duration - WINDOW, every * WINDOW)
    return (starts + rng.uniform(0.0, WINDOW, len(starts))).tolist()


def look(recording: Recording, instants: Sequence[float]) -> int:
    """The frame at each instant, one pick after another; returns how many were decoded."""
    with recording.frame_reader() as reader:
        for instant in instants:
            reader.frames([instant])
        return reader.decoded


def seek_and_decode(path: Path, instants: Sequence[float], threads: str) -> None:
    """The same frames with PyAV alone: seek back to a key frame, decode up to the one wanted."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = threads
        for instant in instants:
            container.seek(round(instant / stream.time_base), stream=stream)
            shown = None
            for frame in container.decode(stream):
                if frame.time > instant + 1e-6:
                    break
                shown = frame
            assert shown is not None
            shown.to_ndarray(format="rgb24")


def frames_needed(recording: Recording, instants: Sequence[float]) -> int:
    """Frames from the key frame before each instant up to the one shown then."""
    packets = recording.video_packets()
    total = 0
    for instant in instants:
        key = packets.times[packets.is_key & (packets.times <= instant + 1e-6)].max()
        total += int(((packets.times >= key) & (packets.times <= instant + 1e-6)).sum())
    return total


def timed(job: Callable[[], object]) -> float:
    """Seconds `job` takes."""
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


class NoLog:
    """Keeps nothing; a failure ends the benchmark."""

    def together(self) -> AbstractContextManager[None]:
        """Nothing to write."""
        return nullcontext()

    def begin(self, request: Request) -> None:
        """Not noted."""

    withdraw = lost = begin

    def answered(self, request: Request, answer: Answer) -> None:
        """Not kept."""

    def failed(self, failure: Failure) -> None:
        """Not to be."""
        raise AssertionError(failure.reason)


if __name__ == "__main__":
    main()
