"""Every engine keeps the contract; the cluster's tests are in test_cluster.py."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from earmark.distributed.worker_pool import WorkerPool
from earmark.errors import BackendError, UnreadableFile
from scale_work import Dies, Notes, square, threads

ITEMS = [3, -1, 8, 21, -5, 34]


@pytest.mark.parametrize("workers", [1, 2])
def test_each_item_has_one_outcome_and_a_failure_is_one(workers):
    outcomes = {outcome.item: outcome for outcome in WorkerPool(workers).run(square, ITEMS)}
    assert sorted(outcomes) == sorted(ITEMS)
    assert {item: outcomes[item].value for item in ITEMS if item > 0} == {
        item: square(item) for item in ITEMS if item > 0
    }
    assert isinstance(outcomes[-5].failure, UnreadableFile)
    assert str(outcomes[-5].failure) == "-5 cannot be read"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bug_is_raised_with_a_note_and_leaves_no_process(workers):
    with pytest.raises(KeyError, match="thirteen") as bug:
        list(WorkerPool(workers).run(square, [1, 13, 2, 3]))
    assert "while working on 13" in " ".join(bug.value.__notes__)
    assert not multiprocessing.active_children()


def test_no_items_no_outcomes():
    assert list(WorkerPool(2).run(square, [])) == []


def test_a_killed_workers_item_is_taken_up_again(tmp_path):
    outcomes = list(WorkerPool(2).run(Dies(str(tmp_path), times=2), list(range(10))))
    assert sorted(outcome.value for outcome in outcomes) == list(range(10))
    assert len(list(tmp_path.glob("death-*"))) == 2


@pytest.mark.slow
def test_an_item_that_kills_every_worker_is_a_failure_and_the_others_are_done(tmp_path):
    outcomes = list(WorkerPool(2).run(Dies(str(tmp_path), times=99), list(range(10))))
    failed = [outcome for outcome in outcomes if outcome.failure]
    assert [outcome.item for outcome in failed] == [7]
    assert isinstance(failed[0].failure, BackendError)
    assert "killed by signal 9" in str(failed[0].failure)
    assert len(outcomes) == 10


def test_a_slow_reader_holds_the_rest_back(tmp_path):
    outcomes = WorkerPool(2).run(Notes(str(tmp_path)), list(range(50)))
    next(outcomes)
    time.sleep(0.5)
    begun = len(list(tmp_path.iterdir()))
    assert begun <= 4, "one given, two at work, one just handed over"
    outcomes.close()
    assert not multiprocessing.active_children()


def test_workers_end_with_the_process_that_gave_the_work(tmp_path):
    code = (
        "from scale_work import Notes; from earmark.distributed.worker_pool import WorkerPool\n"
        f"work = Notes({str(tmp_path)!r}, 0.3)\n"
        "if __name__ == '__main__': list(WorkerPool(2).run(work, range(99)))\n"
    )
    script = tmp_path.with_suffix(".py")
    script.write_text(code)
    tests = str(Path(__file__).parents[1])
    driver = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": tests}
    )
    wait_until(lambda: len(list(tmp_path.iterdir())) >= 3)
    driver.kill()
    driver.wait()
    workers = {int(path.read_text()) for path in tmp_path.iterdir()}
    wait_until(lambda: not any(is_alive(worker) for worker in workers))


def wait_until(holds) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_work_is_done_in_other_processes(tmp_path):
    list(WorkerPool(2).run(Notes(str(tmp_path)), list(range(6))))
    own = multiprocessing.current_process().pid
    assert str(own) not in {path.read_text() for path in Path(tmp_path).iterdir()}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed by Linux only")
def test_a_worker_keeps_to_its_core(monkeypatch):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert {outcome.value for outcome in WorkerPool(2).run(threads, [1, 2])} == {1}
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_workers_are_one_or_more():
    with pytest.raises(ValueError, match="1 or more, not 0"):
        WorkerPool(0)
