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

LOOK_AGAIN = 2.0
"""Seconds for which a list of runs is good."""

LOOK_FOR = 0.3
"""The same for somebody who asks for a run that is not on it."""

MOST_KEPT = 500
"""Values remembered of one run at a time: the rows that a query finds are 80 kB of 10,000."""

Value = TypeVar("Value")
Edition = tuple[tuple[int, int, int], ...]


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
    free: list[tuple[int, Run]] = field(default_factory=list)
    """Each with the file it reads, by its number."""
    known: dict[Any, tuple[Edition, float, Any]] = field(default_factory=dict)
    """What was added up: of which edition, and until when it is good anyway."""
    working: dict[Any, threading.Lock] = field(default_factory=dict)
    """Held by whoever adds up."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def edition(self) -> Edition:
        """Another one whenever the run has changed."""
        return tuple(map(_state_of, (self.folder / FILE, self.folder / f"{FILE}-wal")))

    @contextmanager
    def open(self) -> Iterator[Run]:
        """The run as it stands, for one thread."""
        file = self.edition()[0][0]
        with self.lock:
            free = self.free.pop() if self.free else None
        if free is not None and free[0] != file:  # another file is there now
            free[1].close()
            free = None
        run = free[1] if free else Run(self.folder, blur=self.blur)
        try:
            run.refresh()
            yield run
        except BaseException:
            run.close()
            raise
        with self.lock:
            self.free.append((file, run))

    def hidden(self, run: Run) -> str:
        """Why recordings themselves may not be played from here; empty where they may."""
        if self.is_local or not (self.blur or run.is_blurred):
            return ""
        return "faces are blurred in this run, so its recordings are played on their own machine"

    def remember(self, key: Any, work: Callable[[Run], Value]) -> Value:
        """What `work` gives of the run as it stands.

        While the run is written it changes all the time: what took long is then good for a while,
        ten times as long as it took.
        """
        edition = self.edition()
        if (kept := self._kept(key, edition)) is not None:
            return cast(Value, kept[2])
        if len(self.working) >= MOST_KEPT:
            self.known.clear()
            self.working.clear()
        with self.working.setdefault(key, threading.Lock()):  # many ask, and one adds up
            if (kept := self._kept(key, edition)) is not None:
                return cast(Value, kept[2])
            began = time.monotonic()
            with self.open() as run:
                value = work(run)
            took = time.monotonic() - began
            self.known[key] = (edition, began + 11 * took, value)
        return value

    def _kept(self, key: Any, edition: Edition) -> tuple[Edition, float, Any] | None:
        kept = self.known.get(key)
        is_good = kept is not None and (kept[0] == edition or time.monotonic() < kept[1])
        return kept if is_good else None

    def close(self) -> None:
        """Let go of the run."""
        with self.lock:
            while self.free:
                self.free.pop()[1].close()


class RunLibrary:
    """The runs below `folders`, found again as they come and go."""

    def __init__(
        self, folders: Sequence[Path], *, blur: FaceBlur | None = None, is_local: bool = True
    ) -> None:
        self._blur, self._is_local = blur, is_local
        self.folders = tuple(folder.resolve() for folder in folders)
        self._runs: dict[str, ServedRun] = {}
        self._looked = -LOOK_AGAIN
        self._lock = threading.Lock()

    def runs(self, *, good_for: float = LOOK_AGAIN) -> list[ServedRun]:
        """Every run, by name; as of so many seconds ago at most."""
        with self._lock:
            if time.monotonic() - self._looked > good_for:
                self._look()
            return sorted(self._runs.values(), key=lambda run: run.name)

    def __getitem__(self, key: str) -> ServedRun:
        run = self._runs.get(key)
        if run is None or not (run.folder / FILE).is_file():
            self.runs(good_for=LOOK_FOR)
            run = self._runs.get(key)
        if run is None:
            raise UnknownRun(f"there is no run {key[:40]!r} here")
        return run

    def holds(self, path: Path) -> bool:
        """Whether `path`, links followed, lies in one of the folders."""
        whole = path.resolve()
        return any(whole.is_relative_to(folder) for folder in self.folders)

    def close(self) -> None:
        """Let go of all runs."""
        for run in self._runs.values():
            run.close()

    def _look(self) -> None:
        found: dict[str, ServedRun] = {}
        for root in self.folders:
            for folder in find_runs(root) if root.is_dir() else ():
                if not self.holds(folder / FILE):
                    continue  # a link that leads out
                key = key_of(folder)
                name = root.name if folder == root else folder.relative_to(root).as_posix()
                found[key] = self._runs.get(key) or ServedRun(
                    key, folder, name, self._blur, self._is_local
                )
        for key in self._runs.keys() - found.keys():
            self._runs[key].close()
        self._runs = found
        self._looked = time.monotonic()


def key_of(folder: Path) -> str:
    """What the run in `folder` is called."""
    return hashlib.sha256(str(folder).encode("utf-8", "replace")).hexdigest()[:16]


def _state_of(path: Path) -> tuple[int, int, int]:
    try:
        state = path.stat()
    except OSError:
        return 0, 0, 0
    return state.st_ino, state.st_mtime_ns, state.st_size
