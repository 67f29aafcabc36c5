"""How fast a run takes answers, and how fast a run of a million calls opens.

    python benchmarks/answers.py [--calls 1000000]

Each answer is what a captioning run writes for it: one commit when it is asked, one when the answer
is kept, indexed for search and synced to the disk. The million calls are written through the same
tables in bulk.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
import time
from dataclasses import astuple
from pathlib import Path

import numpy as np

from earmark.captioning.request import Answer, Question, Request
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.selection.pick import explain
from earmark.timeline import Span

TEXT = (
    "the wearer holds a cordless drill in the right hand and drives a long screw into the left "
    "end of a pine board that lies clamped on the workbench next to a jar of screws"
)


def windows(count: int) -> Windows:
    rng = np.random.default_rng(0)
    scores = rng.random(count)
    middles = (np.arange(count) + 0.5) * 4.0
    survival = Survival.lognormal(median=2.0, sigma=1.0)
    return Windows(4.0, count * 4.0, scores, middles, scores / 4, survival)


def span_of(window: int) -> Span:
    return Span(window * 4.0, window * 4.0 + 4.0)


def open_run(folder: Path, count: int) -> Run:
    run = Run(folder, {"budget": count})
    run.add(RecordingRow("a", "a.mp4", count * 4.0, 1_000_000_000))
    run.hear("a", windows(count), key="bench")
    run.choose("a", explain(windows(count), np.arange(count), "window {} gains {:.2f}".format))
    return run


def answer(number: int) -> Answer:
    return Answer(
        f"{number}: {TEXT}", "model", prompt_tokens=300, completion_tokens=40, latency=0.7
    )


def time_answers(folder: Path, count: int) -> float:
    """Answers a second through `begin` and `keep`."""
    calls = [Request("a", span_of(number), (), "", "model", Question()) for number in range(count)]
    with open_run(folder, count) as run:
        run.unanswered(calls)
        began = time.perf_counter()
        for number, call in enumerate(calls):
            run.begin(call)
            run.keep(call, answer(number), spend=0.0001)
        return count / (time.perf_counter() - began)


def time_groups(folder: Path, count: int, size: int) -> float:
    """Answers a second where `size` of them have arrived together, as from a busy server."""
    calls = [Request("a", span_of(number), (), "", "model", Question()) for number in range(count)]
    with open_run(folder, count) as run:
        run.unanswered(calls)
        began = time.perf_counter()
        for first in range(0, count, size):
            for call in calls[first : first + size]:
                run.begin(call)
            with run.together():
                for number, call in enumerate(calls[first : first + size], first):
                    run.keep(call, answer(number), spend=0.0001)
        return count / (time.perf_counter() - began)


def time_syncs(folder: Path, count: int) -> float:
    """Syncs a second of a small file: what the disk allows whoever syncs one at a time."""
    with (folder / "synced").open("wb") as file:
        began = time.perf_counter()
        for _ in range(count):
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())
        return count / (time.perf_counter() - began)


def fill(folder: Path, count: int) -> None:
    """Write `count` answered calls in one transaction."""
    open_run(folder, count).close()
    database = sqlite3.connect(folder / "run.db")
    numbers = range(1, count + 1)
    with database:
        database.executemany(
            "INSERT INTO calls VALUES (?, ?, 1, ?, ?, 'model', 'waiting', 1, 0, 0, 0)",
            ((number, f"{number:032x}", *astuple(span_of(number - 1))) for number in numbers),
        )
        database.execute("UPDATE picks SET call = window + 1")
        texts = ((number, answer(number).text) for number in numbers)
        kept = "INSERT INTO answers VALUES (?, ?, 'model', 'caption', NULL, 300, 40, 0.7,"
        for number, text in texts:
            database.execute(kept + " 'images', 'stop', '', 0.0001, '')", (number, text))
    database.close()


def timed(what: str, work: object) -> None:
    began = time.perf_counter()
    result = work() if callable(work) else None
    print(f"  {what:<42} {time.perf_counter() - began:8.3f} s   {result or ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--answers", type=int, default=20_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rate = time_answers(Path(scratch) / "rate", arguments.answers)
        print(f"answers a second, each committed and indexed   {rate:8.0f}   (to reach: 1,000)")
        for size in (4, 16):
            rate = time_groups(Path(scratch) / f"by {size}", arguments.answers, size)
            print(f"the same, {size:>2} that arrived together            {rate:8.0f}")
        print(
            f"syncs a second the disk allows                 {time_syncs(Path(scratch), 500):8.0f}"
        )
        folder = Path(scratch) / "large"
        fill(folder, arguments.calls)
        size = (folder / "run.db").stat().st_size
        print(f"a run of {arguments.calls:,} calls, {size / 1e6:,.0f} MB   (to open: under 1 s)")
        timed("open to write", lambda: Run(folder, {"budget": 1}).close())
        timed("open to read", lambda: Run(folder).close())
        with Run(folder, {"budget": arguments.calls}) as writer, Run(folder) as run:
            some = [
                Request("a", span_of(number), (), "", "model", Question())
                for number in range(1, 10_001)
            ]
            timed("which of 10,000 calls are unanswered", lambda: len(writer.unanswered(some)))
            timed("totals", lambda: run.totals().answered)
            timed("search, every caption matches", lambda: len(run.search("drill")))
            timed("search, none matches", lambda: len(run.search("zebra")))


if __name__ == "__main__":
    main()
