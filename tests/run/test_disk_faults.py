"""A disk that fails at every write in turn, and power that goes at any moment."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from earmark.run.run import Run
from small_runs import PLAN, answer, call

TESTS = Path(__file__).parents[1]

FAILING = """
import ctypes, json, shutil, sys
from pathlib import Path
from earmark.errors import RunError
from earmark.run.run import Run
from small_runs import PLAN, answer, call, open_run

faults = ctypes.CDLL(None)
faults.disarm.restype = ctypes.c_long
top, error = Path(sys.argv[1]), int(sys.argv[2])
open_run(top / "new").close()
calls = [call(1, prompt=str(n)) for n in range(2)]
number = 0
while True:
    number += 1
    folder = shutil.copytree(top / "new", top / str(number))
    asked, kept, lost = [], [], []
    faults.arm(str(folder).encode(), ctypes.c_long(number), error)
    try:
        with Run(folder, PLAN) as ledger:
            for one in ledger.unanswered(calls):
                ledger.begin(one, reserve=(100, 0.5))
                asked.append(one.identity)
                ledger.keep(one, answer("what " + one.identity), spend=0.25)
                kept.append(one.identity)
    except RunError as error_met:
        lost.append(str(error_met))
    writes = faults.disarm()
    print(json.dumps([str(folder), asked, kept, lost]), flush=True)
    if writes < number:
        break
"""

CUT_OFF = """
import ctypes, os, signal, sys
from pathlib import Path
from small_runs import answer, call, open_run

faults = ctypes.CDLL(None)
faults.synced.restype = ctypes.c_long
folder = Path(sys.argv[1])
faults.arm(str(folder).encode(), ctypes.c_long(-1), 0)
ledger = open_run(folder)
for number in range(int(sys.argv[2])):
    one = call(1, prompt=str(number))
    ledger.begin(one)
    ledger.keep(one, answer("what " + one.identity))
ledger.begin(call(3))
print(faults.synced(str(folder / "run.db-wal").encode()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory) -> dict[str, str]:
    """The environment of a process whose disk can be made to fail."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("failing writes need Linux and a C compiler")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    source = str(TESTS / "disk_faults.c")
    command = [compiler, "-shared", "-fPIC", "-w", "-o", str(library), source, "-ldl"]
    subprocess.run(command, check=True)
    return os.environ | {
        "LD_PRELOAD": str(library),
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    }


def check_promise(folder: Path) -> set[str]:
    """The identities answered; each has its answer, and each answer its call."""
    with closing(sqlite3.connect(folder / "run.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = database.execute(
            "SELECT identity, state = 'answered', call IS NOT NULL"
            " FROM calls LEFT JOIN answers ON call = id"
        ).fetchall()
    assert all(is_answered == has_answer for _, is_answered, has_answer in rows)
    return {identity for identity, is_answered, _ in rows if is_answered}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_write_that_fails_loses_no_answer_that_was_kept(preloaded, tmp_path: Path, error: int):
    done = subprocess.run(
        [sys.executable, "-c", FAILING, str(tmp_path), str(error)],
        env=preloaded,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rounds) > 10
    assert any(lost for *_, lost in rounds), "no write failed"
    for folder, asked, kept, _ in rounds:
        now = check_promise(Path(folder))
        assert set(kept) <= now, "an answer that was kept is gone"
        assert len(asked) - len(kept) <= 1
        # A single failed write is tried again: an answer that has arrived is always kept.
        assert set(asked) == now
        with Run(Path(folder), PLAN) as ledger:
            every = [call(1, prompt=str(number)) for number in range(2)]
            left = ledger.unanswered(every)
            assert {one.identity for one in left} == {one.identity for one in every} - now
            for one in left:
                ledger.begin(one)
                ledger.keep(one, answer("at last"))
        assert len(check_promise(Path(folder))) == 2


@pytest.mark.parametrize("answers", [1, 7, 40])
def test_a_power_cut_loses_no_answer_that_was_kept(preloaded, tmp_path: Path, answers: int):
    """What was not synced is gone: the log is cut where it was last."""
    child = subprocess.run(
        [sys.executable, "-c", CUT_OFF, str(tmp_path), str(answers)],
        env=preloaded,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    synced, log = int(child.stdout), tmp_path / "run.db-wal"
    assert 0 < synced < log.stat().st_size, "something is synced, the last call is not"
    os.truncate(log, synced)
    (tmp_path / "run.db-shm").unlink()
    assert len(check_promise(tmp_path)) == answers
    with Run(tmp_path, PLAN) as ledger:
        calls = [call(1, prompt=str(number)) for number in range(answers)]
        assert ledger.unanswered(calls) == []
