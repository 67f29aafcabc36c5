"""Runs that are served while they come, change and go."""

from __future__ import annotations

from pathlib import Path

from earmark.run.schema import FILE
from earmark.server.run_library import RunLibrary
from small_runs import open_run, row


def test_a_run_that_is_replaced_while_it_is_read_is_read_anew(tmp_path: Path):
    for name, recordings in (("served", "a"), ("other", "ab")):
        with open_run(tmp_path / name) as ledger:
            for each in recordings:
                ledger.add(row(each))
    library = RunLibrary([tmp_path / "served"])
    (served,) = library.runs()
    with served.open() as run:
        (tmp_path / "other" / FILE).replace(tmp_path / "served" / FILE)
        assert len(run.recordings()) == 1
    with served.open() as run:
        assert len(run.recordings()) == 2
