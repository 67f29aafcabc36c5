"""Kills earmark over the whole life of runs, with servers that misbehave, and counts the damage.

    python scripts/soak.py --kills 300

A life is an archive captioned in two shards, the shards merged, audited, reported, exported and
packed; a job of `earmark serve` and a live stream, each into a run of its own; and one recording
forgotten at the end. Every step is started, killed with SIGKILL at a random moment, and started
again until it ends by itself. After every kill and every end the runs must be sound: whole,
answered calls with their answers, no answer gone that was kept before, no call asked that was
answered at an earlier kill, every request that the server saw counted; and what was exported and
the report are whole or not there. At the end no scratch file is left, and nothing of the recording
that was forgotten. The figures are printed at the end; the exit code is 1 if anything did not hold.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from earmark.errors import CallError
from earmark.media import Source
from earmark.media.source_listing import Shard
from earmark.pipeline.audit import audit
from earmark.pipeline.caption import caption
from earmark.pipeline.clips import bundle
from earmark.pipeline.forget import forget
from earmark.pipeline.session import Session, open_session
from earmark.pipeline.watch import watch
from earmark.report.export_formats import export
from earmark.report.run_report import write_report
from earmark.run.merge import merge
from earmark.run.run import Run
from earmark.server.run_jobs import run_order
from earmark.settings import Limits
from fault_server import FaultServer, fault_server
from making import make_video

BEHAVIOURS = {
    "ok": 50,
    "slow:0.3": 10,
    "nousage": 8,
    "length": 4,
    "500": 6,
    "429:0": 6,
    "drop": 4,
    "cut": 4,
    "malformed": 4,
    "html": 2,
    "empty": 2,
}
"""What the server does with a request, and how often."""

PATIENCE = 600.0
"""Seconds after which a step that neither ends nor asks is a fault."""


@dataclass
class Figures:
    """What has happened so far."""

    kills: Counter[str] = field(default_factory=Counter)
    """By step."""

    lives: int = 0
    requests: int = 0
    answers: int = 0
    interrupted: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    """What did not hold."""

    def __str__(self) -> str:
        steps = ", ".join(f"{step} {count}" for step, count in self.kills.items())
        lines = [
            f"kills                                  {self.kills.total()} ({steps})",
            f"lives that came to their end           {self.lives}",
            f"requests the servers saw               {self.requests}",
            f"answers kept                           {self.answers}",
            f"calls in flight at a kill              {self.interrupted}",
            f"faults                                 {dict(self.faults) or 'none'}",
        ]
        return "\n".join(lines)


@dataclass
class Life:
    """The files of one life, the server it asks, and what was kept at the last look."""

    folder: Path
    server: FaultServer
    videos: list[Path]
    kept: dict[str, int] = field(default_factory=dict)
    """How often a call was asked by the time its answer was first seen, by its identity."""

    @property
    def parts(self) -> list[Path]:
        """The runs of one shard each."""
        return [self.folder / "part-1", self.folder / "part-2"]

    @property
    def whole(self) -> Path:
        """The run they are merged in."""
        return self.folder / "whole"

    @property
    def asking(self) -> list[Path]:
        """The runs whose calls are made here."""
        return [*self.parts, self.whole, self.folder / "job", self.folder / "watch"]

    def session(self, **choices: Any) -> Session:
        return open_session(
            frontline="flux",
            model=f"{self.server.url}#scripted",
            limits=Limits(concurrency=3, retries=1, timeout=20.0, most_failures=None),
            sounds=False,
            pictures=False,
            cache=None,
            **choices,
        )

    def caption(self, shard: str, run: Path) -> None:
        """Caption one shard of the archive."""
        plan = self.session(paths=self.videos, budget="50%", shard=shard)
        try:
            caption(settings=plan, run=run)
        except CallError as error:  # all that was left failed: rows, and a sentence
            sys.stderr.write(f"\n{error}\n")

    def audit(self) -> None:
        """Ask about windows drawn at random; a failed call is asked again by the next."""
        audit(self.whole, calls=4, settings=self.session())

    def job(self) -> None:
        """Do what a job of `earmark serve` does."""
        # Another question, so that no call is one of the shards.
        plan = self.session(paths=self.videos[:1], budget="3", prompt="What is done? $tags")
        order = {
            "paths": [asdict(source) for source in plan.sources()],
            "settings": plan.settings.model_dump(mode="json"),
            "api_key": None,
            "run": str(self.folder / "job"),
        }
        run_order(order, io.StringIO())

    def watch(self) -> None:
        """Listen to a stream that ends."""
        film, plan = str(self.videos[0].with_suffix(".ts")), self.session().settings
        watch([film], run=self.folder / "watch", settings=plan, latency=2.0, calls_per_hour=3600)

    def pack(self) -> None:
        """Write the archive to share."""
        bundle(self.whole, self.folder / "shared.zip")

    def forget(self) -> None:
        """Delete what is stored about the first recording."""
        with Run(self.whole) as run:
            known = [row.path for row in run.recordings()]
        if str(self.videos[0]) in known or run_notes(self.whole):
            forget(str(self.videos[0]), [self.whole])

    def report(self) -> None:
        """Write the page of all."""
        with Run(self.whole) as run:
            write_report(run, self.whole / "report.html")

    def export(self) -> None:
        """Write the table of all."""
        with Run(self.whole) as run:
            export(run, self.folder / "picks.csv", format="csv")

    def steps(self) -> list[tuple[str, Callable[[], object]]]:
        """What is done, in order."""
        shards = [
            ("shard", partial(self.caption, f"{number}/2", part))
            for number, part in enumerate(self.parts, start=1)
        ]
        return [
            *shards,
            ("merge", partial(merge, self.parts, self.whole)),
            ("audit", self.audit),
            ("report", self.report),
            ("export", self.export),
            ("bundle", self.pack),
            ("serve job", self.job),
            ("watch", self.watch),
            ("forget", self.forget),
        ]

    def check(self, faults: Counter[str]) -> None:
        """Hold the runs and the files to their promises, and note what is kept by now."""
        asked = Counter(str(entry["id"]) for entry in self.server.asked())
        calls = {run: calls_of(run, faults) for run in self.asking}
        counted = sum(map(requests_of, self.parts))  # merging copies them
        counted += sum(requests_of(run) for run in self.asking[3:])
        counted += max(0, requests_of(self.whole) - sum(map(requests_of, self.parts)))
        faults["a request is not counted"] += self.server.count() > counted
        now = {one for part in self.parts for one, is_answered in calls[part] if is_answered}
        faults["an answer is gone"] += len(self.kept.keys() - now)
        faults["asked though it was answered"] += sum(
            asked[identity] != count for identity, count in self.kept.items()
        )
        self.kept |= {identity: asked[identity] for identity in now - self.kept.keys()}
        page, table = self.whole / "report.html", self.folder / "picks.csv"
        if page.exists() and not page.read_text(encoding="utf-8").endswith("</html>\n"):
            faults["half a page"] += 1
        if table.exists():
            counts = [_rows(part, "SELECT count(*) FROM picks")[0][0] for part in self.parts]
            picks = sum(counts)  # some of the whole may be forgotten by now
            faults["half a table"] += len(list(csv.DictReader(table.open()))) != picks

    def check_end(self, faults: Counter[str]) -> None:
        """Nothing is left of what was forgotten, and no scratch file anywhere."""
        page = (self.whole / "report.html").read_text(encoding="utf-8")
        data = (self.whole / "run.db").read_bytes()
        name = self.videos[0].name
        faults["forgotten, and still there"] += name in page or name.encode() in data
        faults["scratch is left"] += len(list(self.folder.rglob(".*.scratch*")))
        for path in (self.whole / "report.html", self.folder / "picks.csv"):
            faults[f"no {path.name}"] += not path.exists()

    def interrupted(self) -> int:
        """Calls that were in flight when a process was killed, as the runs count them."""
        return sum(
            _rows(run, "SELECT coalesce(sum(interrupted), 0) FROM calls")[0][0]
            for run in self.asking
            if run != self.whole and (run / "run.db").exists()
        )


def calls_of(run: Path, faults: Counter[str]) -> list[tuple[str, bool]]:
    """The identity of every call of a run, and if it is answered."""
    if not (run / "run.db").exists() or not _rows(run, "SELECT name FROM sqlite_schema"):
        return []
    faults["a run is damaged"] += _rows(run, "PRAGMA integrity_check") != [("ok",)]
    rows = _rows(
        run, "SELECT identity, state = 'answered', text FROM calls LEFT JOIN answers ON call = id"
    )
    faults["answered, and no answer"] += sum(
        bool(is_answered) != (text is not None) for _, is_answered, text in rows
    )
    return [(identity, bool(is_answered)) for identity, is_answered, _ in rows]


def requests_of(run: Path) -> int:
    """How many requests a run has counted, whatever they were about."""
    if not (run / "run.db").exists() or not _rows(run, "SELECT name FROM sqlite_schema"):
        return 0
    with Run(run) as opened:
        return opened.spent().calls_before


def run_notes(run: Path) -> list[tuple]:
    """The note of a deletion that has begun."""
    return _rows(run, "SELECT value FROM notes WHERE name = 'forgetting'")


def _rows(run: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(run / "run.db")) as database:
        return database.execute(query).fetchall()


def start(work: Callable[[], object]) -> int:
    """The id of a process that does the work; forked, so that it need not import anything."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        work()
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def killing_moment(
    rng: random.Random, step: str, life: float, server: FaultServer
) -> Callable[[], bool]:
    """Whether the moment to kill has come: any of the step's life, or soon after a question."""
    if step not in ("shard", "audit", "serve job", "watch") or rng.random() < 0.4:
        until = time.monotonic() + rng.uniform(0.0, 1.2 * life)
        return lambda: time.monotonic() > until
    asked, more = server.count(), rng.randint(1, 8)
    return lambda: server.count() >= asked + more


def end_of(process: int, is_time: Callable[[], bool]) -> int | None:
    """The exit code of a process; None if it was killed, as its time had come."""
    until = time.monotonic() + PATIENCE
    while not (done := os.waitpid(process, os.WNOHANG))[0]:
        if is_time() or time.monotonic() > until:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return None if is_time() else 1
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(done[1])


def warm_up(videos: list[Path], folder: Path) -> dict[str, float]:
    """How long each step takes, done once in this process: so its forks need import nothing."""
    lasting = {}
    with fault_server(latency=0.05) as server:
        for step, work in Life(folder, server, videos).steps():
            began = time.monotonic()
            work()
            lasting[step] = time.monotonic() - began
    return lasting


def soak(videos: list[Path], folder: Path, kills: int, seed: int) -> Figures:
    """The figures after so many kills, the life they end in lived to its end."""
    rng, figures = random.Random(seed), Figures()
    lasting = warm_up(videos, folder / "first")
    while figures.kills.total() < kills:
        script = rng.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()), k=400)
        with fault_server(*script, latency=0.05) as server:
            life = Life(folder / str(figures.lives), server, videos)
            for step, work in life.steps():
                code = None
                while code is None:
                    is_time = killing_moment(rng, step, lasting[step], server)
                    if figures.kills.total() >= kills:
                        is_time = bool  # never
                    process, began = start(work), time.monotonic()
                    code = end_of(process, is_time)
                    if code is None:
                        figures.kills[step] += 1
                        lasting[step] *= 1.1  # it may take longer than was thought
                    else:
                        lasting[step] = time.monotonic() - began
                        figures.faults[f"{step} failed"] += code != 0
                    life.check(figures.faults)
                    sys.stderr.write(f"\r{figures.kills.total()} of {kills} kills ")
            life.check_end(figures.faults)
            figures.requests += server.count()
        figures.lives += 1
        figures.answers += len(life.kept)
        figures.interrupted += life.interrupted()
        figures.faults += Counter()  # without what did not happen
    return figures


def main() -> None:
    """Soak, and print the figures; exit code 1 if anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        names = [folder / f"film-{number}.mp4" for number in range(40)]
        videos = [  # one in each shard
            next(path for path in names if Shard(number, 2).holds(Source((str(path),))))
            for number in (1, 2)
        ]
        for path, clicks in zip(videos, ([9.0, 25.0], [21.3, 43.0]), strict=True):
            make_video(path, duration=60.0, clicks=clicks, fps=10, group=20)
        live = videos[0].with_suffix(".ts")
        remux = ["ffmpeg", "-v", "error", "-t", "8", "-i", str(videos[0]), "-c", "copy", str(live)]
        subprocess.run(remux, check=True)
        figures = soak(videos, folder, arguments.kills, arguments.seed)
    print(figures)
    sys.exit(bool(figures.faults))


if __name__ == "__main__":
    main()
