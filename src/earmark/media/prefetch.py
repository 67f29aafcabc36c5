"""Prefetches the frames of many windows: a few are decoded ahead of the consumer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from earmark.errors import EarmarkError, MediaError, internal_error
from earmark.media.frame import Frame
from earmark.media.frame_reader import FrameReader
from earmark.media.recording import Recording

THREADS = 2
"""Requests decoded in parallel; as many again wait decoded."""


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """The frames wanted of one recording, by their times."""

    recording: Recording
    times: tuple[float, ...]
    then: Callable[[DecodedFrames], Any] | None = None
    """Applied to them in the decoding thread or process: JPEG encoding takes as long again."""

    def __str__(self) -> str:
        return self.recording.name


@dataclass(frozen=True, slots=True)
class DecodedFrames:
    """The frames of one request, and the cost of decoding."""

    frames: list[Frame]
    """One a time asked for; empty where they could not be decoded, or `made` holds what was
    made of them."""
    frames_decoded: int = 0
    bytes_read: int = 0
    failure: str = ""
    """Why there are no frames, in a line."""
    made: Any = None
    """The result of the request's `then`."""


class Decoder(Protocol):
    """Decodes one request after the other, in one thread."""

    def __call__(self, request: FrameRequest) -> DecodedFrames:
        """The frames of `request`, or why there are none."""
        ...

    def close(self) -> None:
        """Close open files."""
        ...


class HeldRecordingDecoder:
    """Decodes in the calling thread and keeps the current recording open; pickled closed."""

    _recording: Recording | None = None
    _reader: FrameReader | None = None

    def __reduce__(self) -> tuple[type[HeldRecordingDecoder], tuple[()]]:
        return HeldRecordingDecoder, ()

    def __call__(self, request: FrameRequest) -> DecodedFrames:
        """The frames of `request`, or why there are none; a bug in earmark is a failure too."""
        try:
            if self._reader is None or request.recording != self._recording:
                self.close()
                self._reader, self._recording = request.recording.frame_reader(), request.recording
            stats = self._reader.stats
            decoded, read = stats.decoded, stats.meter.bytes_read
            frames = self._reader.frames(request.times)
            found = DecodedFrames(frames, stats.decoded - decoded, stats.meter.bytes_read - read)
            return replace(found, frames=[], made=request.then(found)) if request.then else found
        except MediaError as error:
            return DecodedFrames([], failure=str(error))
        except EarmarkError:
            raise
        except Exception as error:  # noqa: BLE001 - one window fails by it, and the rest go on
            return DecodedFrames([], failure=str(internal_error(request, error)))

    def close(self) -> None:
        """Close the recording that is open."""
        if self._reader:
            self._reader.close()
        self._recording = self._reader = None


def prefetch(
    requests: Iterable[FrameRequest], open_decoder: Callable[[], Decoder] = HeldRecordingDecoder
) -> Generator[DecodedFrames, None, None]:
    """The frames of each of `requests`, in order, with bounded memory however many there are.

    A few threads decode them, each with its own decoder, which keeps its current recording open:
    requests of one recording should be adjacent. If the consumer is interrupted, nobody waits for
    the threads, not even the process at exit.
    """
    queue: SimpleQueue[_Item | None] = SimpleQueue()
    given = queue, open_decoder
    threads = [
        threading.Thread(name=f"prefetch {number}", target=_decode_all, args=given, daemon=True)
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    ahead: deque[Future[DecodedFrames]] = deque()
    try:
        for request in requests:
            ahead.append(Future())
            queue.put((request, ahead[-1]))
            if len(ahead) > 2 * THREADS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        with suppress(Empty):
            while True:
                queue.get_nowait()
        for _thread in threads:
            queue.put(None)
    for thread in threads:
        thread.join()


_Item = tuple[FrameRequest, Future[DecodedFrames]]


def _decode_all(queue: SimpleQueue[_Item | None], open_decoder: Callable[[], Decoder]) -> None:
    """Decode the requests in the queue until None comes."""
    with closing(open_decoder()) as decode:
        while (item := queue.get()) is not None:
            request, future = item
            try:
                future.set_result(decode(request))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
                future.set_exception(error)
