"""Runs that the tests of the server share: made once, and copied by whoever writes to them."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from served import SECRET


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scene with a video, an archive without, and a run that names files it should not."""
    from archive_runs import PLAN, tell_archive
    from earmark import Span
    from earmark.evidence.evidence_entry import EvidenceEntry
    from earmark.run.records import RecordingRow
    from earmark.run.run import Run
    from report_runs import tell_scene

    folder = tmp_path_factory.mktemp("made")
    (folder / "bench").mkdir()
    tell_scene(folder / "bench", duration=60.0, share=0.6)
    with Run(folder / "bench" / "run", {"model": "tiny-vl", "budget": "35%"}) as ledger:
        said = EvidenceEntry(Span(3.0, 5.5), "said", "pass me the <b>hammer</b>", 0.8, "whisper")
        ledger.keep_evidence("one", [said], kinds=["said"])
    _name_by_content(shutil.copytree(folder / "bench" / "run", folder / "real"), folder / "bench")
    tell_archive(folder / "archive", recordings=120)
    with Run(folder / "archive", PLAN) as ledger:
        for number, name in ((3, "Hammer"), (4, "Hammer"), (5, "Water tap")):
            heard = EvidenceEntry(Span(8.0, 9.0), "heard", name, 0.9, "yamnet")
            ledger.keep_evidence(f"{number:064x}", [heard], kinds=["heard"])
    (folder / "notes.txt").write_text(SECRET)
    with Run(folder / "hostile", {"model": "m"}) as ledger:
        for name, path in (("a", folder / "notes.txt"), ("b", "/etc/passwd")):
            ledger.add(RecordingRow(name, str(path), 10.0, 100))
    return folder


def _name_by_content(run: Path, folder: Path) -> None:
    """Give the recording of `run` the id that its file in `folder` has."""
    from earmark import open_recording

    (video,) = folder.glob("*.mp4")
    with closing(sqlite3.connect(run / "run.db")) as database, database:
        key = open_recording(video).key
        database.execute("UPDATE recordings SET id = ?, content = ?", (key, key))


@pytest.fixture(scope="module")
def runs(made_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of them for one file of tests; the secret stays outside."""
    folder = tmp_path_factory.mktemp("served") / "runs"
    shutil.copytree(made_runs, folder, ignore=shutil.ignore_patterns("notes.txt"))
    for run in (folder / "bench" / "run", folder / "real"):  # only what is served is played
        with closing(sqlite3.connect(run / "run.db")) as database, database:
            move = "UPDATE recordings SET path = replace(path, ?, ?)"
            database.execute(move, (str(made_runs), str(folder)))
    return folder
