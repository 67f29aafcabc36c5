"""A process that writes a run is killed, again and again, at moments nobody chose."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from earmark.run.run import Run
from small_runs import PLAN, call, cell

ROUNDS = 12
CALLS = 4000

WRITER = """
import sys
from pathlib import Path
from small_runs import answer, call, open_run

with open_run(Path(sys.argv[1])) as ledger:
    calls = [call(1, prompt=str(number)) for number in range(int(sys.argv[2]))]
    for one in ledger.unanswered(calls):
        ledger.begin(one)
        sys.stdout.write(f"asked {one.identity}\\n")
        sys.stdout.flush()
        ledger.keep(one, answer("what " + one.identity))
        sys.stdout.write(f"kept {one.identity}\\n")
        sys.stdout.flush()
"""


def write_until_killed(folder: Path, lines: int) -> tuple[list[str], bool]:
    """What a writer said before it was killed after about `lines` lines, and if it was."""
    command = [sys.executable, "-c", WRITER, str(folder), str(CALLS)]
    places = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    paths = os.environ | {"PYTHONPATH": places}
    said = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=paths) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            said.append(line)
            if len(said) == lines:
                writer.send_signal(signal.SIGKILL)  # and it runs on until this reaches it
    whole = [line for line in said if line.endswith("\n")]
    return whole, writer.returncode == -signal.SIGKILL


def test_killing_the_writer_loses_nothing_it_had_kept(tmp_path: Path):
    chance = random.Random(7)
    asked: Counter[str] = Counter()
    kept: set[str] = set()
    kills = 0
    for _ in range(ROUNDS):
        said, was_killed = write_until_killed(tmp_path, chance.randrange(1, 400))
        kills += was_killed
        for line in said:
            word, identity = line.rstrip("\n").split(" ", 1)
            if word == "asked":
                assert identity not in kept, "an answer that was kept is asked for again"
                asked[identity] += 1
            else:
                kept.add(identity)
    assert kills == ROUNDS
    with Run(tmp_path, PLAN) as ledger, Run(ledger.folder) as run:
        texts = {kept.text for kept in run.answers("a", cell(1))}
        assert {"what " + identity for identity in kept} <= texts
        left = ledger.unanswered([call(1, prompt=str(number)) for number in range(CALLS)])
        # At most the last answer of each round was committed and not yet spoken of.
        assert len(kept) <= CALLS - len(left) <= len(kept) + ROUNDS
        repeats = sum(times - 1 for times in asked.values())
        assert repeats <= run.totals().interrupted <= ROUNDS
        assert 0 <= run.totals().asked - asked.total() <= ROUNDS


def test_a_dead_process_gives_its_lock_back(tmp_path: Path):
    _, was_killed = write_until_killed(tmp_path, 3)
    assert was_killed
    with Run(tmp_path, PLAN) as ledger:
        assert ledger.interrupted in (0, 1)


def test_a_run_can_be_read_while_it_is_written(tmp_path: Path):
    with Run(tmp_path, PLAN), Run(tmp_path) as run:
        assert run.plan() == PLAN
