"""Worker processes keep the contract of a backend; Ray's tests are in test_ray_backend.py."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from earmark.errors import BackendError, InternalError, UnreadableFile
from earmark.settings import Workers
from earmark.workers import worker_pool
from earmark.workers.worker_pool import DecoderProcess, WorkerPool
from scale_work import Dies, DiesWhileItAnswers, Notes, hangs, square, swells, threads, unpicklable

POOLS: list[WorkerPool] = []


def pool(workers: int, **options) -> WorkerPool:
    POOLS.append(WorkerPool(Workers(workers=workers), **options))
    return POOLS[-1]


@pytest.fixture(autouse=True)
def closed_pools():
    yield
    while POOLS:
        POOLS.pop().close()
    assert not multiprocessing.active_children()


ITEMS = [3, -1, 8, 21, -5, 34]


@pytest.mark.parametrize("workers", [1, 2])
def test_each_item_has_one_outcome_and_a_failure_is_one(workers):
    outcomes = dict(pool(workers).map(square, ITEMS))
    assert sorted(outcomes) == sorted(ITEMS)
    assert {item: outcomes[item] for item in ITEMS if item > 0} == {
        item: square(item) for item in ITEMS if item > 0
    }
    assert isinstance(outcomes[-5], UnreadableFile)
    assert str(outcomes[-5]) == "-5 cannot be read"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bug_is_a_row_that_says_so_and_the_others_are_done(workers):
    outcomes = dict(pool(workers).map(square, [1, 13, 2, 3]))
    assert isinstance(outcomes[13], InternalError)
    assert "13: a bug in earmark (KeyError: 'thirteen')" in str(outcomes[13])
    assert "Traceback" in " ".join(outcomes[13].__notes__)
    assert [outcomes[item] for item in (1, 2, 3)] == [square(item) for item in (1, 2, 3)]


def test_an_item_that_hangs_is_ended_and_the_others_are_done():
    outcomes = dict(pool(2, deadline=5.0).map(hangs, [1, 7, 2, 3]))
    assert "7: it was not finished after 5 s" in str(outcomes[7])
    assert [outcomes[item] for item in (1, 2, 3)] == [1, 2, 3]


def test_an_item_that_takes_too_much_memory_is_ended_and_the_others_are_done(monkeypatch):
    monkeypatch.setattr(worker_pool, "_machine_bytes", lambda: 1_000_000_000)
    outcomes = dict(pool(2).map(swells, [1, 7, 2, 3]))
    assert isinstance(outcomes[7], BackendError)
    assert re.fullmatch(r"7: it took 0\.[45] GB of memory", str(outcomes[7]))
    assert [outcomes[item] for item in (1, 2, 3)] == [1, 2, 3]


def test_a_value_that_cannot_travel_is_a_row():
    outcomes = list(pool(2).map(unpicklable, [1, 2]))
    assert all("a bug in earmark" in str(one) for _, one in outcomes)


def test_no_items_no_outcomes():
    assert list(pool(2).map(square, [])) == []


def test_a_killed_workers_item_is_taken_up_again(tmp_path):
    outcomes = list(pool(2).map(Dies(str(tmp_path), times=2), list(range(10))))
    assert sorted(value for _, value in outcomes) == list(range(10))
    assert len(list(tmp_path.glob("death-*"))) == 2


def test_a_worker_killed_while_it_answers_is_replaced(tmp_path):
    outcomes = {}
    for item, outcome in pool(2).map(DiesWhileItAnswers(str(tmp_path)), [0, 1]):
        outcomes[item] = outcome
        if item == 0:  # nobody reads the answer to 1 until it is dead, so it is not sent whole
            (tmp_path / "read").touch()
            while not is_dead(tmp_path / "dying"):
                time.sleep(0.05)
    assert outcomes == {0: b"\0", 1: b"\1"}


def is_dead(path: Path) -> bool:
    """Whether the process whose number is in `path` has ended."""
    number = path.read_text() if path.exists() else ""
    if not number:
        return False
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.slow
def test_an_item_that_kills_every_worker_is_a_failure_and_the_others_are_done(tmp_path):
    outcomes = list(pool(2).map(Dies(str(tmp_path), times=99), list(range(10))))
    failed = [(item, one) for item, one in outcomes if isinstance(one, Exception)]
    assert [item for item, _ in failed] == [7]
    assert isinstance(failed[0][1], BackendError)
    assert "killed by signal 9" in str(failed[0][1])
    assert len(outcomes) == 10


def test_a_slow_reader_holds_the_rest_back(tmp_path):
    outcomes = pool(2).map(Notes(str(tmp_path)), list(range(50)))
    next(outcomes)
    time.sleep(0.5)
    begun = len(list(tmp_path.iterdir()))
    assert begun <= 4, "one given, two at work, one just handed over"
    outcomes.close()
    assert not multiprocessing.active_children()


def test_workers_end_with_the_process_that_gave_the_work(tmp_path):
    code = (
        "from scale_work import Notes; from earmark.workers.worker_pool import WorkerPool\n"
        "from earmark.pipeline.backend import Workers\n"
        f"work, two = Notes({str(tmp_path)!r}, 0.3), Workers(workers=2)\n"
        "if __name__ == '__main__': list(WorkerPool(two).map(work, range(99)))\n"
    )
    script = tmp_path.with_suffix(".py")
    script.write_text(code)
    tests = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    driver = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": tests}
    )
    wait_until(lambda: len(list(tmp_path.iterdir())) >= 3)
    driver.kill()
    driver.wait()
    workers = {int(path.read_text()) for path in tmp_path.iterdir()}
    wait_until(lambda: not any(is_alive(worker) for worker in workers))


def test_a_worker_whose_parent_was_killed_before_it_was_ready_ends_without_a_word():
    code = (
        "from multiprocessing import Pipe\n"
        "from earmark.workers.worker_pool import _worker_main\n"
        "ours, theirs = Pipe()\n"
        "ours.close()\n"
        "_worker_main(theirs)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")


def wait_until(holds) -> None:
    deadline = time.monotonic() + 600
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_work_is_done_in_other_processes(tmp_path):
    list(pool(2).map(Notes(str(tmp_path)), list(range(6))))
    own = multiprocessing.current_process().pid
    assert str(own) not in {path.read_text() for path in Path(tmp_path).iterdir()}


def test_workers_are_kept_from_one_map_to_the_next(tmp_path):
    first, second = Notes(str(tmp_path / "a")), Notes(str(tmp_path / "b"))
    for work in (first, second):
        Path(work.folder).mkdir()
    workers = pool(2)
    for work in (first, second, first):
        assert len(list(workers.map(work, list(range(6))))) == 6
    seen = {path.read_text() for path in tmp_path.glob("*/*")}
    assert len(seen) == 2
    assert {int(one) for one in seen} == {one.pid for one in multiprocessing.active_children()}


def test_a_worker_that_died_while_idle_is_replaced(tmp_path):
    workers = pool(2)
    assert len(list(workers.map(square, [1, 2, 3]))) == 3
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
    assert sorted(value for _, value in workers.map(square, [1, 2, 3])) == [
        square(one) for one in (1, 2, 3)
    ]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are listed by Linux only")
def test_a_worker_keeps_to_its_core(monkeypatch):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert {value for _, value in pool(2).map(threads, [1, 2])} == {1}
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_workers_are_one_or_more():
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Workers(workers=0)


@pytest.mark.parametrize(("workers", "kind"), [(1, None), (2, DecoderProcess)])
def test_windows_of_several_recordings_are_decoded_where_that_can_be_ended(workers, kind):
    assert pool(workers).open_decoder is kind


UNGUARDED = """
import sys
sys.path.insert(0, sys.argv[1])
from scale_work import square
from earmark.workers.worker_pool import WorkerPool
from earmark.settings import Workers
pool = WorkerPool(Workers(workers=2))
print(sorted(value for _, value in pool.map(square, [3, 6])))
pool.close()
"""

INTERRUPTED = """
import multiprocessing, sys, threading, time
sys.path.insert(0, sys.argv[1])
import earmark.cli
from earmark.workers.worker_pool import WorkerProcesses
from scale_work import hangs

def interrupted(*_, **__):
    processes = WorkerProcesses(1, 600.0)
    threading.Thread(target=lambda: list(processes.run(hangs, [7])), daemon=True).start()
    while not (children := multiprocessing.active_children()):
        time.sleep(0.05)
    print(children[0].pid, flush=True)
    raise SystemExit(130)

earmark.cli.app.app = interrupted
earmark.cli.main()
"""


def test_a_script_without_a_guard_is_not_run_again_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    words = [sys.executable, str(script), str(Path(__file__).parents[1])]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "[3.0, 12.0]\n"


def test_where_no_process_can_be_started_no_script_is_blamed(monkeypatch):
    monkeypatch.setattr("multiprocessing.spawn._python_exe", shutil.which("false").encode())
    outcomes = dict(pool(2).map(square, [1, 2]))
    assert all("no process could be started" in str(outcomes[item]) for item in (1, 2))


def test_an_interrupted_command_leaves_no_worker_behind():
    words = [sys.executable, "-c", INTERRUPTED, str(Path(__file__).parents[1])]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 130, ran.stderr
    worker = Path("/proc", ran.stdout.strip())
    while worker.exists() and ") Z " not in (worker / "stat").read_text():
        time.sleep(0.05)
