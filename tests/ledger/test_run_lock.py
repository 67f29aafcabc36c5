"""Who holds a run, and who may look."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from earmark.ledger.run_lock import RunLock, is_at_work


def test_a_run_is_at_work_while_it_is_held(tmp_path: Path):
    assert not is_at_work(tmp_path), "nobody ever held it"
    with closing(RunLock(tmp_path)):
        assert is_at_work(tmp_path)
        assert is_at_work(tmp_path), "looking takes nothing away"
    assert not is_at_work(tmp_path)


def test_looking_leaves_no_file(tmp_path: Path):
    is_at_work(tmp_path)
    assert list(tmp_path.iterdir()) == []
