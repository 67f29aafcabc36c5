"""The runs below some folders, with a pool of connections and a cache for each.

A run is named by a hash of its path, so that no request contains a path. Each connection is used by
one thread at a time; costly values are cached until the run changes.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from earmark.errors import LedgerError
from earmark.evidence.face_blur import FaceBlur
from earmark.ledger.run_reader import Run, find_runs
from earmark.ledger.schema import FILE

LISTING_AGE = 2.0
"""Seconds for which the list of runs is reused."""

SHORT_LISTING_AGE = 0.3
"""The same if a run is requested that is not on the list."""

MOST_CACHED = 500
"""Values cached for one run; the rows of one query take 80 kB for 10,000 recordings."""

Value = TypeVar("Value")
RunState = tuple[tuple[int, int, int], ...]


class UnknownRun(LedgerError):
    """There is no run with that id below the folders that are served."""


@dataclass(slots=True, eq=False)
class ServedRun:
    """One run, with its idle connections and its cache."""

    key: str
    folder: Path
    name: str
    """Its path below the folder that is served."""
    blur: FaceBlur | None = None
    """Blurs faces in pictures that the run stored unblurred."""
    is_local: bool = True
    """Whether the server is reachable only from this machine."""
    idle: list[tuple[int, Run]] = field(default_factory=list)
    """Idle connections, each with the inode of its file."""
    cache: dict[Any, tuple[RunState, float, Any]] = field(default_factory=dict)
    """By key: the state a value belongs to, until when it is valid anyway, and the value."""
    cache_locks: dict[Any, threading.Lock] = field(default_factory=dict)
    """Locks by key, held while a value is computed."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self) -> RunState:
        """The state of the run's files; it differs whenever the run has changed."""
        return tuple(map(_file_state, (self.folder / FILE, self.folder / f"{FILE}-wal")))

    @contextmanager
    def open(self) -> Iterator[Run]:
        """A connection to the run in its current state, for one thread."""
        file = self.state()[0][0]
        with self.lock:
            idle = self.idle.pop() if self.idle else None
        if idle is not None and idle[0] != file:  # the file was replaced
            idle[1].close()
            idle = None
        run = idle[1] if idle else Run(self.folder, blur=self.blur)
        try:
            run.refresh()
            yield run
        except BaseException:
            run.close()
            raise
        with self.lock:
            self.idle.append((file, run))

    def hidden(self, run: Run) -> str:
        """Why recordings may not be played from this server; empty if they may."""
        if self.is_local or not (self.blur or run.is_blurred):
            return ""
        return "faces are blurred in this run, so its recordings are played on their own machine"

    def cached(self, key: Any, work: Callable[[Run], Value]) -> Value:
        """The value of `work` for the run in its current state, cached under `key`.

        A run that is being written changes all the time, so a value stays valid for at least ten
        times as long as it took to compute.
        """
        state = self.state()
        if (entry := self._valid_entry(key, state)) is not None:
            return cast(Value, entry[2])
        if len(self.cache_locks) >= MOST_CACHED:
            self.cache.clear()
            self.cache_locks.clear()
        with self.cache_locks.setdefault(
            key, threading.Lock()
        ):  # one thread computes, the others wait
            if (entry := self._valid_entry(key, state)) is not None:
                return cast(Value, entry[2])
            began = time.monotonic()
            with self.open() as run:
                value = work(run)
            took = time.monotonic() - began
            self.cache[key] = (state, began + 11 * took, value)
        return value

    def _valid_entry(self, key: Any, state: RunState) -> tuple[RunState, float, Any] | None:
        entry = self.cache.get(key)
        is_good = entry is not None and (entry[0] == state or time.monotonic() < entry[1])
        return entry if is_good else None

    def close(self) -> None:
        """Close the idle connections."""
        with self.lock:
            while self.idle:
                self.idle.pop()[1].close()


class RunLibrary:
    """The runs below `folders`; the list is refreshed as runs come and go."""

    def __init__(
        self, folders: Sequence[Path], *, blur: FaceBlur | None = None, is_local: bool = True
    ) -> None:
        self._blur, self._is_local = blur, is_local
        self.folders = tuple(folder.resolve() for folder in folders)
        self._runs: dict[str, ServedRun] = {}
        self._scanned_at = -LISTING_AGE
        self._lock = threading.Lock()

    def runs(self, *, max_age: float = LISTING_AGE) -> list[ServedRun]:
        """All runs by name; the list is at most `max_age` seconds old."""
        with self._lock:
            if time.monotonic() - self._scanned_at > max_age:
                self._scan()
            return sorted(self._runs.values(), key=lambda run: run.name)

    def __getitem__(self, key: str) -> ServedRun:
        run = self._runs.get(key)
        if run is None or not (run.folder / FILE).is_file():
            self.runs(max_age=SHORT_LISTING_AGE)
            run = self._runs.get(key)
        if run is None:
            raise UnknownRun(f"there is no run {key[:40]!r} here; a run is named by its id")
        return run

    def contains(self, path: Path) -> bool:
        """Whether `path`, with symbolic links resolved, lies in one of the folders."""
        resolved = path.resolve()
        return any(resolved.is_relative_to(folder) for folder in self.folders)

    def close(self) -> None:
        """Close all runs."""
        for run in self._runs.values():
            run.close()

    def _scan(self) -> None:
        found: dict[str, ServedRun] = {}
        for root in self.folders:
            for folder in find_runs(root) if root.is_dir() else ():
                if not self.contains(folder / FILE):
                    continue  # a link out of the folders
                key = key_of(folder)
                name = root.name if folder == root else folder.relative_to(root).as_posix()
                found[key] = self._runs.get(key) or ServedRun(
                    key, folder, name, self._blur, self._is_local
                )
        for key in self._runs.keys() - found.keys():
            self._runs[key].close()
        self._runs = found
        self._scanned_at = time.monotonic()


def key_of(place: str | Path) -> str:
    """The id of a run or a recording by its place, so that no request contains a path."""
    return hashlib.sha256(str(place).encode("utf-8", "replace")).hexdigest()[:16]


def _file_state(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size
