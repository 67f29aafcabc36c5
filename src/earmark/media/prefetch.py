"""Pictures of many windows, decoded a few ahead of whoever wants them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from earmark.errors import MediaError
from earmark.media.frame import Frame
from earmark.media.frame_decoder import FrameStats
from earmark.media.frame_reader import Viewer
from earmark.media.recording import Recording

THREADS = 2
"""Windows decoded side by side; as many again wait decoded."""


@dataclass(frozen=True, slots=True)
class Window:
    """The moments of one recording to look at."""

    recording: Recording
    times: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """The pictures of one window, and what they cost."""

    frames: list[Frame]
    """One a time asked for; empty where they could not be decoded."""
    frames_decoded: int = 0
    bytes_read: int = 0
    failure: str = ""
    """Why there are no frames, in a line."""


def prefetch(windows: Iterable[Window]) -> Generator[Seen, None, None]:
    """What is seen in each of `windows`, in order, with bounded memory however many there are.

    Each thread keeps the recording it is at open, so windows of one recording should come
    together.
    """
    with Decoders() as decoders:
        ahead: deque[Future[Seen]] = deque()
        for window in windows:
            ahead.append(decoders.submit(window))
            if len(ahead) > 2 * THREADS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


class Decoders:
    """A few threads, each with one recording open."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS)
        self._own = threading.local()
        self._open: list[ExitStack] = []

    def __enter__(self) -> Decoders:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for stack in self._open:
            stack.close()

    def submit(self, window: Window) -> Future[Seen]:
        """What is seen in `window`, once a thread has come to it."""
        return self._pool.submit(self._see, window)

    def _see(self, window: Window) -> Seen:
        try:
            viewer, stats = self._viewer(window.recording)
            decoded, read = stats.decoded, stats.meter.bytes_read
            frames = viewer.frames(window.times)
        except MediaError as error:
            return Seen([], failure=str(error))
        return Seen(frames, stats.decoded - decoded, stats.meter.bytes_read - read)

    def _viewer(self, recording: Recording) -> tuple[Viewer, FrameStats]:
        own = self._own
        if getattr(own, "recording", None) != recording:
            if not hasattr(own, "stack"):
                own.stack = ExitStack()
                self._open.append(own.stack)
            own.recording = None
            own.stack.close()
            own.stats = FrameStats()
            own.viewer = own.stack.enter_context(recording.viewer(stats=own.stats))
            own.recording = recording
        return own.viewer, own.stats
