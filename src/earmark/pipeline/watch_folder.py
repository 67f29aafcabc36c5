"""Captions every recording that lands in a folder, once it is complete.

files ──▶ at rest, or renamed ──▶ chapters joined ──▶ caption, into one run

A file is complete when its size has rested for a while, or when it got its name from another one:
uploads are written beside and moved. Files with other suffixes (`.part`, `.tmp`) are not media.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from earmark.errors import EarmarkError
from earmark.media import Source, find
from earmark.media.live_input import REST
from earmark.media.recording_description import content_key
from earmark.media.source import stored_path
from earmark.pipeline.caption import caption
from earmark.pipeline.outlets import Emit, Outlets
from earmark.run.run import Run
from earmark.run.schema import FILE
from earmark.settings import Settings
from earmark.wall_clock import iso_time

POLL = 2.0
"""Seconds between two looks at the folder."""


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    size_bytes: int
    modified: float
    since: float
    """When it was first seen like this."""
    was_renamed: bool = False


@dataclass(slots=True)
class LandingFolder:
    """Which recordings of a folder are complete; `look` again from time to time."""

    folder: Path
    rest: float = REST
    clock: Callable[[], float] = time.monotonic
    _files: dict[int, _File] = field(default_factory=dict)
    """By inode: a renamed file keeps it."""
    _done: dict[Source, int] = field(default_factory=dict)
    """Size of each recording when it was yielded: one that grows again comes again."""

    def look(self) -> Iterator[Source]:
        """Recordings that became complete since the last look, all their chapters at rest."""
        self._list_files()
        by_path = {file.path: file for file in self._files.values()}
        try:
            sources = find([self.folder])
        except (EarmarkError, ValueError):  # nothing has landed yet
            return
        for source in sources:
            files = [by_path.get(Path(uri)) for uri in source.uris]
            if not all(file and self._is_complete(file) for file in files):
                continue
            size = sum(file.size_bytes for file in files if file)
            if self._done.get(source) != size:
                self._done[source] = size
                yield source

    def _list_files(self) -> None:
        now, files = self.clock(), dict[int, _File]()
        for path in self.folder.rglob("*"):
            try:
                facts = path.stat()
            except OSError:  # it was moved meanwhile
                continue
            if not path.is_file():
                continue
            before = self._files.get(facts.st_ino)
            file = _File(path, facts.st_size, facts.st_mtime, now)
            is_same = before and (before.size_bytes, before.modified) == (
                facts.st_size,
                facts.st_mtime,
            )
            if before and is_same:
                file = replace(before, path=path)
            if before and before.path != path:
                file = replace(file, was_renamed=True)
            files[facts.st_ino] = file
        self._files = files

    def _is_complete(self, file: _File) -> bool:
        return file.was_renamed or self.clock() - file.since >= self.rest


def watch_folder(
    folder: Path,
    *,
    run: Path,
    settings: Settings,
    api_key: str | None = None,
    emit: Emit = lambda _: None,
    stopped: threading.Event | None = None,
) -> None:
    """Caption recordings as they land in `folder`, until `stopped`; one at a time, into one run."""
    stopped = stopped or threading.Event()
    landing = LandingFolder(folder)
    with Outlets.open(settings.watch, run, emit) as outlets:
        outlets({"event": "source", "time": iso_time(time.time()), "source": str(folder),
                 "state": "listening"})  # fmt: skip
        while not stopped.is_set():
            for source in landing.look():
                _caption(source, run, settings, api_key, outlets)
                if stopped.is_set():
                    return
            stopped.wait(POLL)


def _caption(
    source: Source, run: Path, settings: Settings, api_key: str | None, emit: Emit
) -> None:
    """A fault of one recording is an event and a row; the next one is not concerned."""
    about = {"time": iso_time(time.time()), "source": source.name}
    if _is_known(source, run):
        return
    emit({"event": "landed", **about})
    try:
        result = caption(source, run=run, settings=settings, api_key=api_key)
    except EarmarkError as error:
        emit({"event": "failed", **about, "reason": str(error)})
        return
    with Run(run) as stored:
        row = next((r for r in stored.recordings() if r.path == stored_path(source.path)), None)
        picks = stored.picks(row.id) if row else []
    for pick in picks:
        if pick.caption is not None:
            emit({"event": "answer", **about, "start": pick.start, "end": pick.end,
                  "caption": pick.caption})  # fmt: skip
    for reason in result.errors():
        emit({"event": "failed", **about, "reason": reason})


def _is_known(source: Source, run: Path) -> bool:
    """Captioned by an earlier process, every pick of it."""
    if not (run / FILE).is_file():
        return False
    with Run(run) as stored:
        key = content_key(source)
        picks = stored.picks(key) if stored.recording(key) else []
    return bool(picks) and all(pick.is_settled for pick in picks)
