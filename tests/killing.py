"""A whole `earmark caption` killed over and over, and what must be true of it every time."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from earmark.run.run import Run
from fault_server import FaultServer

PATIENCE = 600.0
"""Seconds within which a started command asks something, however busy the machine is."""


def kill_and_resume(
    words: list[str], run: Path, server: FaultServer, *, kills: int, windows: int
) -> None:
    """Kill the command `kills` times with SIGKILL, let it finish, and hold it to its promises.

    The server must hold its answers, so that the command cannot end before it is killed: at most
    one answer is released between two kills. Every third kill comes at any moment of the run, the
    others a random moment after something was asked.
    """
    assert kills < windows, "the command could come to its end"
    command = [sys.executable, "-m", "earmark", *words, "--run", str(run)]
    rng = random.Random(7)
    kept: dict[str, int] = {}
    for number in range(kills):
        before = server.count()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if number % 3 == 2:
            time.sleep(rng.uniform(0.0, 1.5))
        else:
            _await_questions(server, child, before + 1)
            server.release(rng.randint(0, 1))
            time.sleep(rng.uniform(0.0, 0.1))
        assert child.poll() is None, "there was nothing to kill"
        child.kill()
        child.wait()
        now, asked = _answered(run), _asked(server)
        assert set(kept) <= now, "an answer that was kept is gone"
        kept |= {identity: asked[identity] for identity in now - set(kept)}
    server.release(1000)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    _check(run, server, kept, windows)


def kill_when_asked(words: list[str], server: FaultServer, calls: int) -> None:
    """Start the command, and kill it while the server holds the last of so many calls."""
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _await_questions(server, child, calls)
    child.kill()
    child.wait()


def asked_again(server: FaultServer) -> int:
    """How often the server was asked what it had been asked before."""
    asked = _asked(server)
    return asked.total() - len(asked)


def _check(run: Path, server: FaultServer, kept: dict[str, int], windows: int) -> None:
    asked = _asked(server)
    with Run(run) as finished:
        totals = finished.totals()
    assert (totals.picks, totals.answered, totals.failed) == (windows, windows, 0)
    assert len(asked) == windows
    assert _answered(run) == set(asked)
    again = {identity for identity, count in kept.items() if asked[identity] != count}
    assert not again, "an answer that was kept was asked for again"
    assert asked.total() - windows <= totals.interrupted, "more was asked twice than is counted"


def _await_questions(server: FaultServer, child: subprocess.Popen[bytes], count: int) -> None:
    """Until the server has been asked so often in all."""
    deadline = time.monotonic() + PATIENCE
    while server.count() < count:
        assert child.poll() is None, "the command ended by itself"
        assert time.monotonic() < deadline, "the command asked nothing"
        time.sleep(0.01)


def _asked(server: FaultServer) -> Counter[str]:
    return Counter(str(entry["id"]) for entry in server.asked())


def _answered(run: Path) -> set[str]:
    """The identities of the calls whose answer is kept."""
    if not (run / "run.db").exists():
        return set()
    with closing(sqlite3.connect(f"file:{run / 'run.db'}?mode=ro", uri=True)) as database:
        if not database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            return set()
        rows = database.execute("SELECT identity FROM calls WHERE state = 'answered'")
        return {identity for (identity,) in rows}
