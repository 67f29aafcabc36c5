"""Prefetches the frames of many windows: a few are decoded ahead of whoever wants them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class DecodedFrames:
    """The frames of one request, and what they cost."""

    frames: list[Frame]
    """One a time asked for; empty where they could not be decoded."""
    frames_decoded: int = 0
    bytes_read: int = 0
    failure: str = ""
    """Why there are no frames, in a line."""


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
    """A few threads that decode frames, each with one recording open."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS)
        self._open: dict[int, tuple[Recording, FrameReader]] = {}
        """What each thread has open, by the thread's number."""

    def __enter__(self) -> DecoderPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for held in self._open.values():
            held[1].close()

    def submit(self, request: FrameRequest) -> Future[DecodedFrames]:
        """What `request` asks for, once a thread has come to it."""
        return self._pool.submit(self._decode, request)

    def _decode(self, request: FrameRequest) -> DecodedFrames:
        try:
            reader = self._reader(request.recording)
            decoded, read = reader.stats.decoded, reader.stats.meter.bytes_read
            frames = reader.frames(request.times)
        except MediaError as error:
            return DecodedFrames([], failure=str(error))
        stats = reader.stats
        return DecodedFrames(frames, stats.decoded - decoded, stats.meter.bytes_read - read)

    def _reader(self, recording: Recording) -> FrameReader:
        thread = threading.get_ident()
        held = self._open.get(thread)
        if held is None or held[0] != recording:
            if held is not None:
                held[1].close()
            held = self._open[thread] = recording, recording.frame_reader()
        return held[1]
