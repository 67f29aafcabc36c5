"""Kills captioning runs over their whole life, with servers that misbehave, and counts the damage.

    python scripts/soak.py --kills 300

A run is started, killed with SIGKILL at a random moment, and started again until it ends by itself;
then another is begun. After every kill the ledger must be sound: whole, answered calls with their
answers, no answer gone that was kept before, and no call asked that was answered at an earlier
kill. The figures are printed at the end, and whenever something did not hold.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from earmark.captioning.limits import Limits
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.errors import EarmarkError
from earmark.pipeline.caption import caption
from earmark.pipeline.run_plan import make_plan
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


@dataclass
class Figures:
    """What has happened so far."""

    kills: int = 0
    runs: int = 0
    requests: int = 0
    answers: int = 0
    interrupted: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    """What did not hold."""

    def __str__(self) -> str:
        lines = [
            f"kills                                  {self.kills}",
            f"runs that came to their end            {self.runs}",
            f"requests the servers saw               {self.requests}",
            f"answers kept                           {self.answers}",
            f"calls in flight at a kill, asked again {self.interrupted}",
            f"faults                                 {dict(self.faults) or 'none'}",
        ]
        return "\n".join(lines)


def start(video: Path, run: Path, url: str) -> int:
    """The id of a process that captions `video`; forked, so that it need not import anything."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        limits = Limits(concurrency=3, retries=1, timeout=20.0, most_failures=None)
        server = OpenAICaptioner(url, "scripted")
        plan = make_plan(
            frontline="flux",
            captioner=server,
            limits=limits,
            budget="50%",
            sounds=False,
            cache=None,
        )
        caption([video], plan=plan, run=run)
        code = 0
    except EarmarkError as error:
        sys.stderr.write(f"{error}\n")
    finally:
        os._exit(code)


def check(run: Path, kept: dict[str, int], server: FaultServer, figures: Figures) -> None:
    """Hold the ledger to its promises, and take down what it has kept by now."""
    asked = Counter(str(entry["id"]) for entry in server.asked())
    if not (run / "run.db").exists():
        return
    with closing(sqlite3.connect(run / "run.db")) as database:
        if database.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            figures.faults["a ledger is damaged"] += 1
        if not database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            return
        rows = database.execute(
            "SELECT identity, state = 'answered', text FROM calls LEFT JOIN answers ON call = id"
        ).fetchall()
    now = {identity for identity, is_answered, _ in rows if is_answered}
    figures.faults["answered, and no answer"] += sum(
        bool(is_answered) != (text is not None) for _, is_answered, text in rows
    )
    figures.faults["an answer is gone"] += len(kept.keys() - now)
    figures.faults["asked though it was answered"] += sum(
        asked[identity] != count for identity, count in kept.items()
    )
    figures.faults += Counter()  # without what did not happen
    kept |= {identity: asked[identity] for identity in now - kept.keys()}


def killing_moment(
    rng: random.Random, life: float, began: float, server: FaultServer
) -> Callable[[], bool]:
    """Whether the moment to kill has come: any of the run's life, or soon after a question."""
    if rng.random() < 0.4:
        until = began + rng.uniform(0.0, life)
        return lambda: time.monotonic() > until
    asked, more = server.count(), rng.randint(1, 8)
    return lambda: server.count() >= asked + more


def outlives(process: int, is_time: Callable[[], bool]) -> bool:
    """Whether a process comes to its end before it is time; else it is killed."""
    while not os.waitpid(process, os.WNOHANG)[0]:
        if is_time():
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return False
        time.sleep(0.005)
    return True


def soak(video: Path, folder: Path, kills: int, seed: int) -> Figures:
    """The figures after so many kills."""
    rng, figures, life = random.Random(seed), Figures(), 3.0
    while figures.kills < kills:
        script = rng.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()), k=400)
        run, kept = folder / str(figures.runs), dict[str, int]()
        with fault_server(*script, latency=0.05) as server:
            is_over = False
            while not is_over and figures.kills < kills:
                process, began = start(video, run, server.url), time.monotonic()
                is_over = outlives(process, killing_moment(rng, life, began, server))
                figures.kills += not is_over
                if is_over:
                    life = time.monotonic() - began
                check(run, kept, server, figures)
                sys.stderr.write(f"\r{figures.kills} of {kills} kills ")
            figures.requests += server.count()
        figures.runs += is_over
        figures.answers += len(kept)
        with closing(sqlite3.connect(run / "run.db")) as database:
            figures.interrupted += database.execute(
                "SELECT coalesce(sum(interrupted), 0) FROM calls"
            ).fetchone()[0]
    return figures


def main() -> None:
    """Soak, and print the figures; exit code 1 if anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        video = folder / "shift.mp4"
        clicks = [9.0, 25.0, 41.3, 57.0]
        make_video(video, duration=240.0, clicks=clicks, fps=10, group=20)
        figures = soak(video, folder, arguments.kills, arguments.seed)
    print(figures)
    sys.exit(bool(figures.faults))


if __name__ == "__main__":
    main()
