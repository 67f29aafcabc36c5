"""What an archive takes: engines side by side, the driver's memory, one price, the run.

    python benchmarks/archive.py                    # everything, one part after the other
    python benchmarks/archive.py engines memory    # some of it

Engines listen to the same recordings in turns, a batch each, so that whatever else the machine is
doing falls on all of them alike; starting workers is not counted. Linear algebra is done on one
thread everywhere, in the single process too.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from answers import fill, time_answers

from earmark.captioning.dispatch import Tally
from earmark.gate.frontline import everyday
from earmark.gate.listener import SILENCE, Heard
from earmark.grid import ScoredRecording, Windows, scored_recording
from earmark.media import Recording, Source
from earmark.media.recording import AudioTrack, Part, VideoTrack
from earmark.pipeline import backend as backends
from earmark.pipeline.backend import Backend, InProcessBackend
from earmark.pipeline.caption import caption
from earmark.pipeline.listen import listen_unless_known
from earmark.pipeline.session import open_session
from earmark.run.run import Run
from earmark.selection import Budget, Coverage, allocate
from earmark.settings import Workers
from earmark.timeline import Track
from earmark.workers.ray_backend import RayBackend
from earmark.workers.worker_pool import WorkerPool
from making import AudioPlan, make_audio

MEGABYTE = 1 << 20
THREADS = "OPENBLAS_NUM_THREADS"


def engines(recordings: int, minutes: float, batches: int) -> None:
    """Throughput of each engine, in hours of recording a second of the clock."""
    with tempfile.TemporaryDirectory() as scratch:
        first = Path(scratch) / "0.m4a"
        make_audio(
            first, duration=minutes * 60, audio=AudioPlan(clicks=range(1, 600, 7), noise=0.02)
        )
        sources = [Source((str(first),)) for _ in range(recordings)]
        with closing(RayBackend(Workers(engine="ray", workers=2))) as on_ray:
            tried: dict[str, Backend] = {
                "one process": InProcessBackend(),
                "local, 2 processes": WorkerPool(Workers(workers=2)),
                "ray, 2 workers": on_ray,
            }
            turns: dict[str, list[Turn]] = {name: [] for name in tried}
            for _ in range(batches):
                for name, backend in tried.items():
                    share = sources[: recordings // batches]
                    turns[name].append(steady(backend, share, workers=1 + (name != "one process")))
    rates = {
        name: sum(turn.done for turn in taken) / sum(turn.seconds for turn in taken)
        for name, taken in turns.items()
    }
    print(f"{recordings} recordings of {minutes:g} min, in {batches} batches an engine")
    for name, rate in rates.items():
        cpu = sum(turn.cpu for turn in turns[name]) / recordings
        print(f"  {name:<20}{rate:6.2f} recordings a second {rate * minutes / 60:8.3f} h a second"
              f"   {cpu:.2f} s of processor a recording")  # fmt: skip
    one, local, ray = rates.values()
    print(f"  local over one {local / one:.2f} (to reach 1.7), ray over one {ray / one:.2f} (1.7), "
          f"ray over local {ray / local:.2f} (0.85)")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Turn:
    """What one batch took while every worker was at work."""

    done: int
    seconds: float
    cpu: float
    """Of all of the batch."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Listening, with who did it and how much of a processor it took."""

    listen: Callable[[Source], Any]

    def __call__(self, source: Source) -> tuple[int, float]:
        """The worker's process, and seconds of processor."""
        began = time.process_time()
        self.listen(source)
        return os.getpid(), time.process_time() - began


def steady(backend: Backend, sources: Sequence[Source], *, workers: int) -> Turn:
    """A batch, counted from when each worker has delivered until there is no item left to give."""
    seen: set[int] = set()
    began = ended = cpu = 0.0
    done = 0
    plan = open_session(frontline="flux").listening
    work = Measured(partial(listen_unless_known, plan=plan, known={}, progress=None))
    for place, (_, outcome) in enumerate(backend.map(work, sources)):
        assert not isinstance(outcome, Exception), outcome
        process, seconds = outcome
        cpu += seconds
        is_started, seen = len(seen) == workers, seen | {process}
        if is_started and place < len(sources) - workers:
            done, ended = done + 1, time.perf_counter()
        elif len(seen) == workers and not is_started:
            began = time.perf_counter()
    return Turn(done, ended - began, cpu)


@dataclass(frozen=True, slots=True)
class Imagine:
    """Stands in for listening: windows of an hour, drawn at random, as a worker sends them."""

    windows: int

    def __call__(self, source: Source) -> ScoredRecording:
        """What would have been heard."""
        number = int(source.uris[0].rpartition("/")[2].removesuffix(".mp4"))
        rng = np.random.default_rng(number)
        seconds = self.windows * 4.0
        rates = rng.gamma(2.0, 0.5, self.windows)
        middles = (np.arange(self.windows) + 0.5) * 4.0
        windows = Windows(4.0, seconds, rates.copy(), middles, rates, everyday())
        uri = source.uris[0]
        sound = AudioTrack("aac", 48_000, 1, None, 0.0, seconds)
        video = VideoTrack("h264", 1920, 1080, 30.0, 0, 0.0, seconds)
        part = Part(uri, 0.0, seconds, 0.0, True, (sound,), video, 1 << 30)
        recording = Recording(
            source, seconds, "mov,mp4", 0, "index", "", 1 << 30, f"{number:064x}", 9, (part,)
        )
        level = Track(rng.normal(-40, 9, int(seconds * 5)).astype(np.float32), hop=0.2)
        heard = Heard(recording, "flux", SILENCE, level, "index", 9, 1.0)
        return scored_recording(windows, heard.compact())


class Imagined(WorkerPool):
    """Hears what is imagined, and asks nobody."""

    def __init__(self, windows: int, note: Callable[[str], None]) -> None:
        super().__init__(Workers(workers=2))
        self.windows, self.note = windows, note

    def map(self, _: Any, items: Sequence[Source]) -> Iterator[tuple[Source, Any]]:
        """Imagined windows."""
        yield from super().map(Imagine(self.windows), items)
        self.note("after listening")

    def ask(self, tasks: Iterator[Any], *_: Any) -> Tally:
        """No calls."""
        self.note("after the price")
        for _task in tasks:
            pass
        return Tally()


def memory(recordings: int, windows: int, budget: str) -> None:
    """How the driver grows over a whole run, listening imagined and no model asked."""
    sources = [Source((f"s3://bucket/{number}.mp4",)) for number in range(recordings)]
    start = resident()

    def note(when: str) -> None:
        print(f"  {when:<23}{resident() - start:6.0f} MB above the start")

    backends.BACKENDS["imagined"] = lambda _: Imagined(windows, note)
    list(WorkerPool(Workers(workers=2)).map(Imagine(windows), sources[:2]))
    print(f"{recordings} recordings of {windows * 4 / 3600:g} h, {budget} of the windows picked")
    with tempfile.TemporaryDirectory() as scratch:
        start, began = resident(), time.perf_counter()
        choices = {"budget": budget, "across": True, "frontline": "flux", "engine": "imagined"}
        done = caption(sources, run=scratch, **choices)
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - start
    print(f"  at the end             {resident() - start:6.0f} MB above the start")
    print(f"  at most                {peak:6.0f} MB above the start (to reach: 100)")
    print(f"  {done.totals.picks} picks of {done.totals.windows} windows in {seconds:.0f} s")


def resident() -> float:
    """Megabytes this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def price(hours: int) -> None:
    """One price over many hours of rates."""
    rng = np.random.default_rng(0)
    middles = (np.arange(900) + 0.5) * 4.0
    many = []
    for _ in range(hours):
        rates = rng.gamma(2.0, 0.5, 900) * rng.gamma(4.0, 0.25)
        many.append(Windows(4.0, 3600.0, rates, middles, rates, everyday()))
    began = time.perf_counter()
    budget = Budget(count=hours * 180)
    calls = sum(len(one.picks) for one in allocate(Coverage(), many, budget, across=True))
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"one price over {hours} h, {hours * 900:,} windows: {calls:,} picks in "
          f"{seconds:.1f} s (to reach: 60), peak {peak:.0f} MB (2,048)")  # fmt: skip


def keeping(calls: int) -> None:
    """How fast a run takes answers, and how fast it opens when it is large."""
    with tempfile.TemporaryDirectory() as scratch:
        rate = time_answers(Path(scratch) / "rate", 10_000)
        fill(Path(scratch) / "large", calls)
        began = time.perf_counter()
        Run(Path(scratch) / "large", {"budget": 1}).close()
        Run(Path(scratch) / "large").close()
        seconds = time.perf_counter() - began
    print(f"a run takes {rate:.0f} answers a second (to reach: 1,000) and opens in "
          f"{seconds:.3f} s with {calls:,} calls (1)")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["engines", "memory", "price", "run"]
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(parts)}; all")
    parser.add_argument("--recordings", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--archive", type=int, default=2000, help="recordings of the memory part")
    parser.add_argument("--windows", type=int, default=900, help="of each of those")
    parser.add_argument("--budget", default="2%")
    parser.add_argument("--hours", type=int, default=10_000)
    options = parser.parse_args()
    if THREADS not in os.environ:  # each part in a process of its own, for its own peak of memory
        print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        for part in options.parts or parts:
            words = [sys.executable, __file__, part, *_others()]
            subprocess.run(words, check=True, env={**os.environ, THREADS: "1"})
        return
    work = {
        "engines": lambda: engines(options.recordings, options.minutes, options.batches),
        "memory": lambda: memory(options.archive, options.windows, options.budget),
        "price": lambda: price(options.hours),
        "run": lambda: keeping(1_000_000),
    }
    work[options.parts[0]]()


def _others() -> list[str]:
    return sys.argv[
        next((n for n, word in enumerate(sys.argv) if word.startswith("--")), len(sys.argv)) :
    ]


if __name__ == "__main__":
    main()
