"""Every run below some folders, kept open for many readers at once.

A run is known by a hash of where it lies: no request names a path. Its connections are lent to one
thread at a time; what takes long to add up is added up once for as long as the run stays the same.
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
"""Seconds for which a list of runs is good."""

SHORT_LISTING_AGE = 0.3
"""The same for somebody who asks for a run that is not on it."""

MOST_CACHED = 500
"""Values remembered of one run at a time: the rows that a query finds are 80 kB of 10,000."""

Value = TypeVar("Value")
RunState = tuple[tuple[int, int, int], ...]


class UnknownRun(LedgerError):
    """There is no run of that name below the folders that are served."""


@dataclass(slots=True, eq=False)
class ServedRun:
    """One run, with connections to it that nobody uses just now."""

    key: str
    folder: Path
    name: str
    """Where it lies below the folder that is served."""
    blur: FaceBlur | None = None
    """What is blurred in pictures that the run keeps without."""
    is_local: bool = True
    """Whether only this machine is served."""
    idle: list[tuple[int, Run]] = field(default_factory=list)
    """Each with the file it reads, by its number."""
    cache: dict[Any, tuple[RunState, float, Any]] = field(default_factory=dict)
    """What was added up: of which edition, and until when it is good anyway."""
    cache_locks: dict[Any, threading.Lock] = field(default_factory=dict)
    """Held by whoever adds up."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self) -> RunState:
        """Another one whenever the run has changed."""
        return tuple(map(_file_state, (self.folder / FILE, self.folder / f"{FILE}-wal")))

    @contextmanager
    def open(self) -> Iterator[Run]:
        """The run as it stands, for one thread."""
        file = self.state()[0][0]
        with self.lock:
            idle = self.idle.pop() if self.idle else None
        if idle is not None and idle[0] != file:  # another file is there now
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
        """Why recordings themselves may not be played from here; empty where they may."""
        if self.is_local or not (self.blur or run.is_blurred):
            return ""
        return "faces are blurred in this run, so its recordings are played on their own machine"

    def cached(self, key: Any, work: Callable[[Run], Value]) -> Value:
        """What `work` gives of the run as it stands.

        While the run is written it changes all the time: what took long is then good for a while,
        ten times as long as it took.
        """
        state = self.state()
        if (entry := self._valid_entry(key, state)) is not None:
            return cast(Value, entry[2])
        if len(self.cache_locks) >= MOST_CACHED:
            self.cache.clear()
            self.cache_locks.clear()
        with self.cache_locks.setdefault(key, threading.Lock()):  # many ask, and one adds up
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
        """Let go of the run."""
        with self.lock:
            while self.idle:
                self.idle.pop()[1].close()


class RunLibrary:
    """The runs below `folders`, found again as they come and go."""

    def __init__(
        self, folders: Sequence[Path], *, blur: FaceBlur | None = None, is_local: bool = True
    ) -> None:
        self._blur, self._is_local = blur, is_local
        self.folders = tuple(folder.resolve() for folder in folders)
        self._runs: dict[str, ServedRun] = {}
        self._scanned_at = -LISTING_AGE
        self._lock = threading.Lock()

    def runs(self, *, max_age: float = LISTING_AGE) -> list[ServedRun]:
        """Every run, by name; as of so many seconds ago at most."""
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
            raise UnknownRun(f"there is no run {key[:40]!r} here")
        return run

    def contains(self, path: Path) -> bool:
        """Whether `path`, links followed, lies in one of the folders."""
        resolved = path.resolve()
        return any(resolved.is_relative_to(folder) for folder in self.folders)

    def close(self) -> None:
        """Let go of all runs."""
        for run in self._runs.values():
            run.close()

    def _scan(self) -> None:
        found: dict[str, ServedRun] = {}
        for root in self.folders:
            for folder in find_runs(root) if root.is_dir() else ():
                if not self.contains(folder / FILE):
                    continue  # a link that leads out
                key = key_of(folder)
                name = root.name if folder == root else folder.relative_to(root).as_posix()
                found[key] = self._runs.get(key) or ServedRun(
                    key, folder, name, self._blur, self._is_local
                )
        for key in self._runs.keys() - found.keys():
            self._runs[key].close()
        self._runs = found
        self._scanned_at = time.monotonic()


def key_of(folder: Path) -> str:
    """What the run in `folder` is called."""
    return hashlib.sha256(str(folder).encode("utf-8", "replace")).hexdigest()[:16]


def _file_state(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size
