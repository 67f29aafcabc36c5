"""A recording's pictures at given times, over all of its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import cast

import av.error
from av.video.frame import VideoFrame

from earmark.errors import MediaError
from earmark.media.container import moving_pictures, open_media
from earmark.media.frame import Frame, convert_frame
from earmark.media.frame_decoder import FrameDecoder, FrameStats
from earmark.media.recording_part import Part
from earmark.media.source import place_of


class FrameReader:
    """Keeps a recording open between calls, for many windows of one recording.

    Not to be shared between threads.
    """

    def __init__(self, name: str, parts: Sequence[Part], stats: FrameStats) -> None:
        self._name = name
        self._parts = parts
        self.stats = stats
        self._stack = ExitStack()
        self._open_uri = ""
        self._decoder: FrameDecoder | None = None

    def __enter__(self) -> FrameReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file that is open."""
        self._decoder = None
        self._stack.close()

    def frames(self, times: Sequence[float]) -> list[Frame]:
        """The picture shown at each of `times`, in the order asked; see `Recording.frames`."""
        found: dict[float, Frame] = {}
        for part in self._parts:
            own = sorted({time for time in times if self._part_at(time) is part})
            for time, (stamp, picture) in zip(own, self._decode(part, own), strict=False):
                found[time] = convert_frame(picture, stamp + part.shift)
        if missing := [time for time in times if time not in found]:
            raise MediaError(
                f"{self._name} has no picture that can be decoded at {missing[0]:.3f} s; "
                "check that it plays there"
            )
        self.stats.returned += len(times)
        return [found[time] for time in times]

    def _decode(self, part: Part, times: Sequence[float]) -> Iterator[tuple[float, VideoFrame]]:
        """The pictures at `times` and their own times on the container's clock."""
        try:
            if times:
                yield from self._open(part).decode([time - part.shift for time in times])
        except av.error.FFmpegError as error:
            raise MediaError(
                f"{place_of(part.uri)} cannot be read near {times[0]:.3f} s ({error.strerror}); "
                "check that it plays there"
            ) from error

    def _part_at(self, time: float) -> Part:
        """The file that is shown at `time`; the first before it all, the last after it all."""
        begun = [part for part in self._parts if part.start <= time]
        return begun[-1] if begun else self._parts[0]

    def _open(self, part: Part) -> FrameDecoder:
        if self._decoder is None or self._open_uri != part.uri:
            self.close()
            opening = open_media(part.uri, self.stats.meter, version=part.version)
            file = self._stack.enter_context(opening)
            stream = moving_pictures(file.container)
            if stream is None or cast(object, stream.codec_context) is None:
                raise MediaError(f"{place_of(part.uri)} has no pictures that libav can decode")
            self._decoder = FrameDecoder(file.container, stream, self.stats)
            self._open_uri = part.uri
        return self._decoder
