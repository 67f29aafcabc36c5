"""The runs below some folders, the model and the jobs that the server shares.

A request opens the run, which takes half a millisecond; costly values are cached until it changes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from earmark.captioning.captioner import Captioner, TagsCaptioner
from earmark.errors import EarmarkError, RunError
from earmark.evidence.face_blur import FaceBlur
from earmark.media import Source
from earmark.media.source import is_below, is_remote, name_of, suffix_of
from earmark.media.source_listing import SUFFIXES
from earmark.pipeline.session import Session
from earmark.redaction import is_redacted
from earmark.run.run import Run, find_runs
from earmark.run.schema import FILE
from earmark.server.run_jobs import RunJobs, key_of

LISTING_AGE = 2.0

SHORT_LISTING_AGE = 0.3
"""Seconds, if a run is requested that is not on the list."""

MOST_CACHED = 500
"""Of one run; the rows of one query take 80 kB for 10,000 recordings."""

Value = TypeVar("Value")
RunState = tuple[tuple[int, int, int], ...]


class UnknownRun(RunError): ...


@dataclass(slots=True, eq=False)
class ServedRun:
    key: str
    folder: Path
    name: str
    library: RunLibrary
    blur: FaceBlur | None = None
    is_local: bool = True
    """Reachable only from this machine."""
    cache: dict[Any, tuple[RunState, float, Any]] = field(default_factory=dict)
    """The state a value belongs to, until when it is valid anyway, and the value."""
    cache_locks: dict[Any, threading.Lock] = field(default_factory=dict)

    def open(self) -> Run:
        return Run(self.folder, blur=self.blur)

    def why_unplayable(self, path: str) -> str:
        if suffix_of(path) not in SUFFIXES:
            return f"{name_of(path)} is not a known media file"
        if is_redacted(path):
            return "its address was stored without its key"
        return self.library.why_not_served(path)

    def hidden(self, run: Run) -> str:
        if self.is_local or not (self.blur or run.is_blurred):
            return ""
        return "faces are blurred in this run, so its recordings play only on their own machine"

    def cached(self, key: Any, work: Callable[[Run], Value]) -> Value:
        """A value stays valid for at least ten times as long as it took to compute."""
        state = tuple(map(_file_state, (self.folder / FILE, self.folder / f"{FILE}-wal")))
        if len(self.cache_locks) >= MOST_CACHED:
            self.cache.clear()
            self.cache_locks.clear()
        # One thread computes, the others wait.
        with self.cache_locks.setdefault(key, threading.Lock()):
            began = time.monotonic()
            entry = self.cache.get(key)
            if entry is None or (entry[0] != state and began >= entry[1]):
                with self.open() as run:
                    value = work(run)
                took = time.monotonic() - began
                entry = self.cache[key] = (state, began + 11 * took, value)
        return cast(Value, entry[2])


class RunLibrary:
    def __init__(
        self,
        folders: Sequence[Path],
        *,
        blur: FaceBlur | None = None,
        is_local: bool = True,
        addresses: str = "",
    ) -> None:
        """`addresses` are those that a run may name beside the files in `folders`."""
        self._blur, self._is_local, self._addresses = blur, is_local, addresses
        self.folders = tuple(folder.resolve() for folder in folders)
        self._runs: dict[str, ServedRun] = {}
        self._scanned_at = -LISTING_AGE
        self._lock = threading.Lock()

    def runs(self, *, max_age: float = LISTING_AGE) -> list[ServedRun]:
        """By name; the list is at most `max_age` seconds old."""
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
            named = [each for each in self._runs.values() if key in (each.name, each.folder.name)]
            if len(named) != 1:
                why = "several runs have that name: use an id" if named else "see list of runs"
                raise UnknownRun(f"there is no run {key[:40]!r} here; {why}")
            run = named[0]
        return run

    def contains(self, path: Path) -> bool:
        """Wherever its links lead."""
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, or a zero byte
            return False
        return any(resolved.is_relative_to(folder) for folder in self.folders)

    def why_not_served(self, uri: str) -> str:
        """Why a file or an address that a run names is not opened; empty if it is.

        A run may come from anybody, and name any file of this machine.
        """
        is_allowed = is_below(uri, self._addresses) if is_remote(uri) else self.contains(Path(uri))
        return "" if is_allowed else f"{name_of(uri)} is not in the served folders"

    def holds(self, source: Source) -> bool:
        return not any(map(self.why_not_served, source.uris))

    def _scan(self) -> None:
        runs: dict[str, ServedRun] = {}
        for root in self.folders:
            for folder in find_runs(root) if root.is_dir() else ():
                if not self.contains(folder / FILE):
                    continue  # a link out of the folders
                key = key_of(folder)
                name = root.name if folder == root else folder.relative_to(root).as_posix()
                runs[key] = self._runs.get(key) or ServedRun(
                    key, folder, name, self, self._blur, self._is_local
                )
        self._runs = runs
        self._scanned_at = time.monotonic()


@dataclass(eq=False)
class Service:
    library: RunLibrary
    plan: Session
    api_key: str | None = None
    jobs: RunJobs = field(init=False)
    ask_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.jobs = RunJobs(self.api_key)

    @cached_property
    def sources(self) -> dict[str, Source]:
        return self.list_sources()

    def list_sources(self) -> dict[str, Source]:
        self.sources = {
            key_of("\n".join(source.uris)): source
            for source in self.plan.sources(allow_none=True)
            if not Path(source.uris[0]).is_dir()
        }
        return self.sources

    @cached_property
    def captioner(self) -> Captioner:
        captioner = self.plan.open_captioner(api_key=self.api_key)
        captioner.check()
        return captioner

    def model(self) -> tuple[str, str]:
        """The name, or an empty one and why there is no model."""
        try:
            captioner = self.captioner
        except EarmarkError as error:
            return "", str(error)
        if isinstance(captioner, TagsCaptioner):
            return "", "no model: start the server with one"
        return captioner.model, ""

    def require_model(self) -> str:
        model, reason = self.model()
        if not model:
            raise RunError(reason)
        return model


def _file_state(path: Path) -> tuple[int, int, int]:
    """Zeros for a missing file, and for an empty log: a reader creates one."""
    with suppress(OSError):
        status = path.stat()
        if status.st_size:
            return status.st_ino, status.st_mtime_ns, status.st_size
    return 0, 0, 0
