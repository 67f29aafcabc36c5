"""A recording's pictures at given times, over all of its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, cast

import av.error
from av.video.frame import VideoFrame

from earmark.errors import MediaError
from earmark.media.container import moving_pictures, opened
from earmark.media.frame import Frame, upright
from earmark.media.frame_decoder import FrameStats, Looker
from earmark.media.source import place_of


class Reel(Protocol):
    """One file of a recording: where its pictures lie on the recording's clock."""

    @property
    def uri(self) -> str: ...  # noqa: D102
    @property
    def start(self) -> float: ...  # noqa: D102
    @property
    def zero(self) -> float: ...  # noqa: D102


class Viewer:
    """Keeps a recording open between calls, for many windows of one recording.

    Not to be shared between threads.
    """

    def __init__(self, name: str, reels: Sequence[Reel], stats: FrameStats) -> None:
        self._name = name
        self._reels = reels
        self._stats = stats
        self._stack = ExitStack()
        self._open_uri = ""
        self._looker: Looker | None = None

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._looker = None
        self._stack.close()

    def frames(self, times: Sequence[float]) -> list[Frame]:
        """The picture shown at each of `times`, in the order asked; see `Recording.frames`."""
        found: dict[float, Frame] = {}
        for reel in self._reels:
            own = sorted({time for time in times if self._reel_at(time) is reel})
            shift = reel.start - reel.zero
            for time, (stamp, picture) in zip(own, self._shown(reel, own), strict=False):
                found[time] = upright(picture, stamp + shift)
        if missing := [time for time in times if time not in found]:
            raise MediaError(
                f"{self._name} has no picture that can be decoded at {missing[0]:.3f} s; "
                "check that it plays there"
            )
        self._stats.returned += len(times)
        return [found[time] for time in times]

    def _shown(self, reel: Reel, times: Sequence[float]) -> Iterator[tuple[float, VideoFrame]]:
        """The pictures at `times` and their own times on the container's clock."""
        shift = reel.start - reel.zero
        try:
            if times:
                yield from self._look(reel).look([time - shift for time in times])
        except av.error.FFmpegError as error:
            raise MediaError(
                f"{place_of(reel.uri)} cannot be read near {times[0]:.3f} s ({error.strerror}); "
                "check that it plays there"
            ) from error

    def _reel_at(self, time: float) -> Reel:
        """The file that is shown at `time`; the first before it all, the last after it all."""
        begun = [reel for reel in self._reels if reel.start <= time]
        return begun[-1] if begun else self._reels[0]

    def _look(self, reel: Reel) -> Looker:
        if self._looker is None or self._open_uri != reel.uri:
            self._looker = None
            self._stack.close()
            file = self._stack.enter_context(opened(reel.uri, self._stats.meter))
            stream = moving_pictures(file.container)
            if stream is None or cast(object, stream.codec_context) is None:
                raise MediaError(f"{place_of(reel.uri)} has no pictures that libav can decode")
            self._looker, self._open_uri = Looker(file, stream, self._stats), reel.uri
        return self._looker
