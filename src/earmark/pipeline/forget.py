"""Deletes all that runs and the cache store about a recording.

    noted in the run ──▶ pages, cached files ──▶ rows, vacuum ──▶ a new page ──▶ checked

The note stays until all is done: the next `forget` completes a deletion that was interrupted.
"""

from __future__ import annotations

import json
import mmap
import shutil
from collections.abc import Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from earmark.captioning.spool import SPOOL, spooled_about
from earmark.errors import EarmarkError, RunError
from earmark.media.atomic_file import write_whole
from earmark.media.source import name_of, stored_path
from earmark.pipeline.listen import cached_files
from earmark.pipeline.resume import PAGE
from earmark.report.report_page import PAGES, pictures_of
from earmark.report.run_report import write_report
from earmark.run.erasure import WRITTEN, Deletion, all_recordings, delete_recordings, files_written
from earmark.run.live_rows import clip_folder
from earmark.run.records import RecordingRow
from earmark.run.run import Run, find_runs
from earmark.run.schema import FILE
from earmark.search.archive_search import VECTORS
from earmark.text_format import counted

SOURCES = "sources.json"


@dataclass(frozen=True, slots=True)
class ForgetResult:
    recordings: tuple[str, ...]
    """As stored in the runs; the files are not deleted."""
    runs: tuple[Path, ...]
    empty: tuple[Path, ...]
    files: tuple[Path, ...]
    exports: tuple[Path, ...]
    """Written from the runs by earlier commands; not deleted."""

    def lines(self) -> Iterator[str]:
        names = ", ".join(self.recordings) or "the rest of an interrupted deletion"
        yield (
            f"forgotten in {counted(len(self.runs), 'run')}: {names} "
            f"({counted(len(self.files), 'file')} deleted; the recording itself is not touched)"
        )
        for path in self.files:
            yield f"  {path}"
        if self.exports:
            yield "earmark wrote these files from the same runs: delete those that show it."
        for path in self.exports:
            yield f"  {path}"
        yield "earmark does not know of other copies."


def find_recording(recording: str, runs: Sequence[Path]) -> dict[Path, list[RecordingRow]]:
    """The recordings that `recording` (an id, a path or a name) names, by run.

    Recordings with the same content are included whatever their name, and those whose deletion was
    interrupted. `EarmarkError` if there is none, or it is the file name of several.
    """
    known, unfinished = {}, dict[Path, Deletion]()
    for folder in runs:
        with Run(folder) as run:
            known[folder], unfinished[folder] = all_recordings(run), Deletion.of(run)
    every = [row for rows in known.values() for row in rows]
    path = stored_path(recording)
    exact = [row for row in every if recording in (row.id, row.name) or path in _files(row)]
    matches = exact or [row for row in every if recording in map(name_of, _files(row))]
    if not matches and not any(deletion.is_noted for deletion in unfinished.values()):
        raise EarmarkError(
            f"no recording is called {recording} in the {len(runs)} run{'s' * (len(runs) != 1)} "
            "here; give its path as `earmark export` shows it, and the folders its runs are in"
        )
    paths = sorted({row.path for row in matches})
    if not exact and len(paths) > 1:
        raise EarmarkError(
            f"{recording} is the name of several recordings: say which by its path, "
            f"{' or '.join(paths[:3])}"
        )
    ids = {row.id for row in matches}
    return {
        folder: [row for row in known[folder] if row.id in ids | unfinished[folder].ids]
        for folder in runs
        if unfinished[folder].is_noted or ids.intersection(row.id for row in known[folder])
    }


def forget(
    recording: str, folders: Sequence[Path] = (Path(),), *, cache: Path | None = None
) -> ForgetResult:
    """Delete all that the runs below `folders` and the cache store about `recording`.

    The recording itself stays, and so do exports and copies that were written elsewhere. The cost
    of its calls still counts against the caps. `RunError` if a run is in use or being read; the
    runs after it are unchanged.
    """
    runs = sorted({run.resolve() for folder in folders for run in find_runs(folder)})
    meant = find_recording(recording, runs)
    files: list[Path] = []
    empty, exports = [], dict[Path, None]()
    with ExitStack() as stack:
        opened = {folder: stack.enter_context(Run.resume(folder)) for folder in meant}
        for folder, run in opened.items():
            exports |= dict.fromkeys(files_written(run))
            files += forget_recordings(run, meant[folder], cache)
            if not all_recordings(run):
                empty.append(folder)
    for folder, rows in meant.items():
        _check(folder / FILE, rows)
    paths = {path for rows in meant.values() for row in rows for path in _files(row)}
    return ForgetResult(
        tuple(sorted(paths)), tuple(meant), tuple(empty), tuple(files), tuple(exports)
    )


def forget_recordings(
    run: Run, rows: Sequence[RecordingRow], cache: Path | None = None
) -> list[Path]:
    """Delete `rows` and what belongs to them from a run that is open to write; returns the files.

    `RunError` if another process reads the run.
    """
    page = run.folder / PAGE
    deletion = Deletion.begin(run, {row.id for row in rows}, has_page=page.exists())
    keys = deletion.ids | {row.content for row in rows}
    files = [path for path in _files_about(run, keys, cache) if path.is_file()]
    for path in files:
        path.unlink()
        if path.suffix == ".html":
            shutil.rmtree(pictures_of(path), ignore_errors=True)
    _clean_sources(run.folder / SOURCES, {path for row in rows for path in _files(row)})
    stems = {Path(name_of(path)).stem for row in rows for path in _files(row)}
    exports = [path for path in files_written(run) if not any(map(str(path).__contains__, stems))]
    run.set_note(WRITTEN, json.dumps(list(map(str, exports))))  # the others reveal the name
    delete_recordings(run, deletion.ids)
    if deletion.has_page:
        write_report(run, page)
    deletion.end(run)
    return files


def _files_about(run: Run, ids: Set[str], cache: Path | None) -> Iterator[Path]:
    yield from (run.folder / name for name in (PAGE, VECTORS, f"{PAGES}/written.json"))
    for key in ids:
        yield from (run.folder / PAGES).glob(f"*-{key[:10]}.html")
        yield from clip_folder(run.folder, key).glob("*.mp4")
        yield from spooled_about(run.folder / SPOOL, key)
        yield from cached_files(cache, key) if cache else ()


def _files(recording: RecordingRow) -> list[str]:
    return [recording.path, *(path for path, _ in recording.chapters)]


def _check(database: Path, rows: Sequence[RecordingRow]) -> None:
    with database.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if any(data.find(row.id.encode()) >= 0 for row in rows):
            raise RunError(f"{database} still contains the recording: forget it again")


def _clean_sources(path: Path, files: Set[str]) -> None:
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        sources = [(source, list(map(stored_path, source["uris"]))) for source in listed]
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} does not list recordings: delete it, then forget again") from error
    paths = [source for source, stored in sources if files.isdisjoint(stored)]
    if not paths:
        path.unlink()
    elif len(paths) < len(sources):
        write_whole(path, json.dumps(paths))
