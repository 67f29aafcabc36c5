"""Prefetches the frames of many windows: a few are decoded ahead of whoever wants them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any

from earmark.errors import MediaError
from earmark.media.frame import Frame
from earmark.media.frame_reader import FrameReader
from earmark.media.recording import Recording

THREADS = 2
"""Requests decoded side by side; as many again wait decoded."""


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """The frames wanted of one recording, by their times."""

    recording: Recording
    times: tuple[float, ...]
    then: Callable[[DecodedFrames], Any] | None = None
    """What to make of them, in the thread that decoded them: pictures take as long again."""


@dataclass(frozen=True, slots=True)
class DecodedFrames:
    """The frames of one request, and what they cost."""

    frames: list[Frame]
    """One a time asked for; empty where they could not be decoded."""
    frames_decoded: int = 0
    bytes_read: int = 0
    failure: str = ""
    """Why there are no frames, in a line."""
    made: Any = None
    """What the request's `then` made of them."""


def prefetch(requests: Iterable[FrameRequest]) -> Generator[DecodedFrames, None, None]:
    """The frames of each of `requests`, in order, with bounded memory however many there are.

    Each thread keeps the recording it is at open, so requests of one recording should come
    together.
    """
    with DecoderPool() as pool:
        ahead: deque[Future[DecodedFrames]] = deque()
        for request in requests:
            ahead.append(pool.submit(request))
            if len(ahead) > 2 * THREADS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


class DecoderPool:
    """A few threads that decode frames, each with one recording open.

    Whoever is interrupted does not wait for what they are at, not even when the process ends.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=_decode_all, args=(self._queue,), daemon=True)
            for _ in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> DecoderPool:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        for _thread in self._threads:
            self._queue.put(None)
        if error is None:
            for thread in self._threads:
                thread.join()

    def submit(self, request: FrameRequest) -> Future[DecodedFrames]:
        """What `request` asks for, once a thread has come to it."""
        future: Future[DecodedFrames] = Future()
        self._queue.put((request, future))
        return future


_Item = tuple[FrameRequest, Future[DecodedFrames]]


def _decode_all(queue: SimpleQueue[_Item | None]) -> None:
    """Decode what is in the queue until there is to be no more."""
    recording: Recording | None = None
    with ExitStack() as stack:
        while (item := queue.get()) is not None:
            request, future = item
            try:
                if request.recording != recording:
                    stack.close()
                    recording = None
                    reader = stack.enter_context(request.recording.frame_reader())
                    recording = request.recording
                future.set_result(_decode(reader, request))
            except MediaError as error:
                future.set_result(DecodedFrames([], failure=str(error)))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
                future.set_exception(error)


def _decode(reader: FrameReader, request: FrameRequest) -> DecodedFrames:
    decoded, read = reader.stats.decoded, reader.stats.meter.bytes_read
    frames = reader.frames(request.times)
    stats = reader.stats
    found = DecodedFrames(frames, stats.decoded - decoded, stats.meter.bytes_read - read)
    return replace(found, made=request.then(found)) if request.then else found
