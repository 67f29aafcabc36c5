"""Merges runs of one plan, such as the shards of an archive, into one run."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earmark.errors import RunError
from earmark.run.database import lock_run, remember_plan
from earmark.run.records import differences
from earmark.run.run import Run
from earmark.run.schema import FILE, connect, explain_errors, read_sql, transaction


@dataclass(frozen=True, slots=True)
class MergeResult:
    runs: int
    recordings: int
    missed: int
    answers: int


def merge(runs: Sequence[Path], into: Path) -> MergeResult:
    """Bring `runs` together in the run `into`, which may be new; they are only read.

    No call that is answered in any of them is asked again, and a recording that was done in one is
    done. Nothing is merged if a `RunError` says that plans differ, that one path is two recordings,
    or that a run is in use, damaged or of another version.
    """
    if not runs:
        raise ValueError("nothing to merge: name the folders of one run or more")
    folders = [run.resolve() for run in runs]
    for number, folder in enumerate(runs):
        if folders[number] in folders[:number]:
            raise ValueError(f"{folder} is given twice; name each run once")
    if into.resolve() in folders:
        raise RunError(f"{into} cannot be merged into itself; choose another folder")
    plan = _common_plan([*runs, *([into] if _has_plan(into) else [])])
    with ExitStack() as stack:
        for folder in (*runs, into):
            stack.callback(lock_run(folder).close)
        with closing(connect(into, to_write=True)) as database, explain_errors(into):
            for folder in runs:
                _take(database, folder, plan)
    with Run(into) as run:
        totals, missed = run.totals(), len(run.failed_recordings())
    return MergeResult(len(runs), totals.recordings, missed, totals.answered)


def _common_plan(runs: Sequence[Path]) -> dict[str, Any]:
    plans, recordings = {}, dict[str, tuple[str, Path]]()
    for folder in runs:
        with Run(folder) as run:
            plans[folder], rows = run.plan(), run.recordings()
        plan, theirs = plans[runs[0]], plans[folder]
        if name := next(differences(plan, theirs), None):
            raise RunError(
                f"the runs do not fit: {name} is {plan.get(name)!r} in {runs[0]} and "
                f"{theirs.get(name)!r} in {folder}; merge runs of one command and one version"
            )
        for row in rows:
            key, first = recordings.setdefault(row.path, (row.id, folder))
            if key != row.id:
                raise RunError(
                    f"the runs do not fit: {row.path} changed between {first} and {folder}; "
                    "run the command on it again in one of them"
                )
    return plans[runs[0]]


def _has_plan(folder: Path) -> bool:
    try:
        with Run(folder) as run:
            return bool(run.plan())
    except RunError:  # it is new, or opening it to write says what is wrong
        return False


def _take(database: sqlite3.Connection, folder: Path, plan: dict[str, Any]) -> None:
    connect(folder, to_write=False).close()  # refuses what is no run of this version
    database.execute("ATTACH DATABASE ? AS other", (str(folder / FILE),))
    try:
        with transaction(database):
            ours = remember_plan(database, plan)
            database.execute("CREATE TEMP TABLE plan_of (ours INTEGER, theirs INTEGER)")
            database.execute(
                "INSERT INTO plan_of SELECT ?, value FROM other.notes WHERE name = 'plan'", (ours,)
            )
            for statement in read_sql("merge.sql").split(";\n"):
                database.execute(statement)
    finally:
        database.execute("DETACH DATABASE other")
