"""Work for the engines' tests; a module of its own, so that workers can import it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from earmark import Recording, Span
from earmark.captioning.request import Answer, Request
from earmark.errors import ModelMissing, UnreadableFile
from earmark.media.prefetch import DecodedFrames


def square(number: int) -> float:
    """Fails for what is negative, as a recording would; a bug for 13."""
    if number < 0:
        raise UnreadableFile(f"{number} cannot be read")
    if number == 13:
        raise KeyError("thirteen")
    return number**2 / 3


def hangs(number: int) -> int:
    """Never comes back from 7."""
    while number == 7:
        time.sleep(60)
    return number


def swells(number: int) -> int:
    """Takes 420 MB at 7, and never comes back from there."""
    if number == 7:
        held = [bytes([1]) * 420_000_000]
        while held:
            time.sleep(60)
    return number


def unpicklable(_: int) -> object:
    """Something that cannot be sent to another process."""
    return lambda: None


@dataclass(frozen=True)
class Dies:
    """Kills its own process at 7, the first `times` times."""

    folder: str
    times: int

    def __call__(self, number: int) -> int:
        marks = list(Path(self.folder).glob("death-*"))
        if number == 7 and len(marks) < self.times:
            (Path(self.folder) / f"death-{len(marks)}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number


@dataclass(frozen=True)
class Notes:
    """Notes when each item was begun and by whom; takes a moment."""

    folder: str
    seconds: float = 0.02

    def __call__(self, number: int) -> int:
        (Path(self.folder) / f"{number}").write_text(str(os.getpid()))
        time.sleep(self.seconds)
        return number


def threads(_: int) -> int:
    """Threads this process has once linear algebra was done in it."""
    import numpy as np

    square = np.ones((300, 300))
    assert (square @ square)[0, 0] == 300
    return len(list(Path("/proc/self/task").iterdir()))


def heavy(number: int) -> bytes:
    """A result far larger than any recording's: 12 MB of one value."""
    return bytes([number]) * 12_000_000


@dataclass(frozen=True)
class Listens:
    """Names a sound after when it begins, and notes who listened to what."""

    folder: str

    def tags(self, recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
        """One name a span."""
        name = f"{os.getpid()}-{Path(recording.source.uris[0]).stem}-{time.monotonic_ns()}"
        (Path(self.folder) / name).touch()
        return [(f"sound at {span.start:g}",) for span in spans]


@dataclass(frozen=True)
class StumblesAt:
    """Names sounds as `Listens` does, but for one recording."""

    stem: str
    folder: str

    def tags(self, recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
        """One name a span; a bug in the one recording."""
        if Path(recording.source.uris[0]).stem == self.stem:
            raise RecursionError("too deep")
        return Listens(self.folder).tags(recording, spans)


def count_frames(found: DecodedFrames) -> tuple[int, int]:
    """How many there are, and in which process they were decoded."""
    return len(found.frames), os.getpid()


def never_ends(_: DecodedFrames) -> None:
    """Hangs, as a codec might."""
    while True:
        time.sleep(60)


def crashes(_: DecodedFrames) -> None:
    """Takes its process with it, as a hole in a codec might."""
    os.kill(os.getpid(), signal.SIGKILL)


def stumbles(_: DecodedFrames) -> None:
    """Has a bug."""
    raise RecursionError("too deep")


def lacks_model(_: DecodedFrames) -> None:
    """Cannot work for any window."""
    raise ModelMissing("centerface is not here")


@dataclass(frozen=True)
class DiesWhileItAnswers:
    """Kills its worker in the middle of a large answer to 1, the first time.

    It waits for `read`, made once the answer to 0 was taken, and leaves its process in `dying`.
    """

    folder: str

    def __call__(self, item: int) -> bytes:
        """A few bytes; millions in the answer that is broken off."""
        path = Path(self.folder, "dying")
        if item != 1 or path.exists():
            return bytes([item])
        while not Path(self.folder, "read").exists():
            time.sleep(0.01)
        path.write_text(str(os.getpid()))
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return bytes(1 << 24)


@dataclass(frozen=True)
class LosesFirstCall:
    """Never answers the first call; notes in which process each was made."""

    folder: str
    model: str = "forgetful"
    at_once: int | None = None

    def check(self) -> None:
        """Nothing is needed."""

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        calls = len(list(Path(self.folder).glob("call-*")))
        Path(self.folder, f"call-{calls}").write_text(str(os.getpid()))
        while calls == 0:
            time.sleep(60 * timeout)
        return Answer(f"a hand at {request.times[0]:g} s", self.model)
