"""Decodes every picture of a recording, small and grey: the costly way to measure motion.

Nothing else in earmark decodes pictures that it does not show. This is for comparison: a visual
frontline must decode everything before it can choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation

from earmark.errors import MediaError
from earmark.media.container import decode_stream, find_video_stream, open_media
from earmark.media.frame import Pixels
from earmark.media.recording import Recording
from earmark.media.recording_part import Part
from earmark.media.storage import Meter

_LEAST_GAP = 0.03
"""Least seconds between pictures: all of 30 a second are returned, half of 50 or 60."""


@dataclass(frozen=True, slots=True, eq=False)
class GreyFrame:
    """A small grey picture and when it is shown."""

    time: float
    """Seconds on the recording's clock, from the container."""
    grey: Pixels
    """Shape `(height, width)`, as stored: not turned upright."""


def scan_video(
    recording: Recording, *, width_pixels: int = 160, meter: Meter | None = None
) -> Iterator[GreyFrame]:
    """The pictures of `recording` in the order they are shown; every one of them is decoded.

    They are at most `width_pixels` wide and keep their aspect ratio. Pictures less than
    `_LEAST_GAP` after the previous one are skipped. Raises `MediaError` if none can be decoded.
    """
    video = recording.video
    if video is None:
        raise MediaError(
            f"{recording.name} has no pictures, so there is no motion to see; listen instead "
            "(`--frontline flux`)"
        )
    recording.check_pictures()
    width = min(width_pixels, video.width_pixels)
    height = max(1, round(video.height_pixels * width / video.width_pixels))
    return _scan(recording, (width, height), meter if meter is not None else Meter())


def _scan(recording: Recording, size: tuple[int, int], meter: Meter) -> Iterator[GreyFrame]:
    last, meter.access = float("-inf"), "demux"
    for part in recording.parts:
        for time, picture in _decode(part, meter):
            if time - last >= _LEAST_GAP - 1e-6:
                last = time
                small = picture.reformat(*size, format="gray", interpolation=Interpolation.AREA)
                yield GreyFrame(time, cast(Pixels, small.to_ndarray()))


def _decode(part: Part, meter: Meter) -> Iterator[tuple[float, VideoFrame]]:
    """Every picture of one file with its time on the recording's clock."""
    with open_media(part.uri, meter, version=part.version) as file:
        stream = find_video_stream(file.container)
        if stream is None or stream.time_base is None:
            return
        tick = float(stream.time_base)
        for picture in decode_stream(file.container, stream, meter):
            if picture.pts is not None:
                yield picture.pts * tick + part.shift, picture
