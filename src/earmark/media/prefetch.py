from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from earmark.errors import EarmarkError, MediaError, internal_error
from earmark.media.frame import Frame
from earmark.media.frame_reader import FrameReader

if TYPE_CHECKING:
    from earmark.media.recording import Recording

THREADS = 2


@dataclass(frozen=True, slots=True)
class FrameRequest:
    recording: Recording
    times: tuple[float, ...]
    then: Callable[[DecodedFrames], Any] | None = None
    """Applied in the decoding thread or process: JPEG encoding takes as long again."""

    def __str__(self) -> str:
        return self.recording.name


@dataclass(frozen=True, slots=True)
class DecodedFrames:
    frames: list[Frame]
    """Empty if they could not be decoded, or if the request has a `then`."""
    frames_decoded: int = 0
    bytes_read: int = 0
    failure: str = ""
    output: Any = None
    """What `then` returned."""


class Decoder(Protocol):
    def __call__(self, request: FrameRequest) -> DecodedFrames: ...

    def close(self) -> None: ...


class HeldRecordingDecoder:
    """Decodes in the calling thread and keeps the current recording open; pickled closed."""

    _recording: Recording | None = None
    _reader: FrameReader | None = None

    def __reduce__(self) -> tuple[type[HeldRecordingDecoder], tuple[()]]:
        return HeldRecordingDecoder, ()

    def __call__(self, request: FrameRequest) -> DecodedFrames:
        try:
            if self._reader is None or request.recording != self._recording:
                self.close()
                self._reader, self._recording = request.recording.frame_reader(), request.recording
            reader = self._reader
            decoded, bytes_read = reader.decoded, reader.meter.bytes_read
            frames = reader.frames(request.times)
            result = DecodedFrames(
                frames, reader.decoded - decoded, reader.meter.bytes_read - bytes_read
            )
            return (
                replace(result, frames=[], output=request.then(result)) if request.then else result
            )
        except MediaError as error:
            return DecodedFrames([], failure=str(error))
        except EarmarkError:
            raise
        except Exception as error:  # noqa: BLE001 - one window fails by it, and the rest go on
            return DecodedFrames([], failure=str(internal_error(request, error)))

    def close(self) -> None:
        if self._reader:
            self._reader.close()
        self._recording = self._reader = None


def prefetch(
    requests: Iterable[FrameRequest], open_decoder: Callable[[], Decoder] = HeldRecordingDecoder
) -> Generator[DecodedFrames, None, None]:
    """Requests of one recording should be adjacent.

    If the consumer is interrupted, nobody waits for the threads, not even the process at exit.
    """
    queue: SimpleQueue[_Item | None] = SimpleQueue()
    args = queue, open_decoder
    threads = [
        threading.Thread(name=f"prefetch {number}", target=_decode_all, args=args, daemon=True)
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
    with closing(open_decoder()) as decode:
        while (item := queue.get()) is not None:
            request, future = item
            try:
                future.set_result(decode(request))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
                future.set_exception(error)


Item = TypeVar("Item")


def read_ahead(items: Generator[Item, None, None], most: int) -> Generator[Item, None, None]:
    """If reading ends early, nobody waits for the thread, not even the process at exit."""
    sent: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()
    room = threading.Semaphore(most)
    is_over = threading.Event()

    def send_all() -> None:
        end = None
        try:
            with closing(items):
                for item in items:
                    room.acquire()
                    if is_over.is_set():
                        break
                    sent.put((item,))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that reads
            end = error
        sent.put(end)

    thread = threading.Thread(target=send_all, daemon=True)
    thread.start()
    try:
        while isinstance(message := sent.get(), tuple):
            yield message[0]
            room.release()
    finally:
        is_over.set()
        room.release()
    thread.join()
    if message is not None:
        raise message
