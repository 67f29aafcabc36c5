"""Who holds a run, and who may look."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from earmark.errors import RunError
from earmark.run.database import is_at_work, lock_run
from earmark.run.schema import FILE
from small_runs import open_run


def test_a_run_is_at_work_while_it_is_held(tmp_path: Path):
    assert not is_at_work(tmp_path), "nobody ever held it"
    with closing(lock_run(tmp_path)):
        assert is_at_work(tmp_path)
        assert is_at_work(tmp_path), "looking takes nothing away"
    assert not is_at_work(tmp_path)


def test_who_comes_second_is_told_who_holds_the_run(tmp_path: Path):
    folder = tmp_path / "runs" / "first"
    with closing(lock_run(folder)), pytest.raises(RunError, match="in use by another process:"):
        lock_run(folder)
    with open_run(folder):
        holder = re.escape(f"in use by process {os.getpid()} on {platform.node()}: wait")
        with pytest.raises(RunError, match=holder):
            lock_run(folder)
    with closing(sqlite3.connect(folder / FILE)) as database, database:
        database.execute("DELETE FROM notes")
    with closing(lock_run(folder)), pytest.raises(RunError, match="in use by another process:"):
        lock_run(folder)


def test_any_thread_may_let_go(tmp_path: Path):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lock_run(tmp_path).close).result()
    assert not is_at_work(tmp_path)


def test_looking_leaves_no_file(tmp_path: Path):
    is_at_work(tmp_path)
    assert list(tmp_path.iterdir()) == []
