from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation
from numpy.typing import NDArray

from earmark.errors import MediaError
from earmark.media.container import decode_stream, find_video_stream, open_media
from earmark.media.frame import Pixels
from earmark.media.mp4_index import Ints, read_packets
from earmark.media.source import place_of
from earmark.media.storage import Meter
from earmark.timeline import FloatArray

if TYPE_CHECKING:
    from earmark.media.recording import Part, Recording

_LEAST_GAP = 0.03
"""Seconds: all pictures of 30 a second are returned, half of 50 or 60."""


@dataclass(frozen=True, slots=True, eq=False)
class GreyFrame:
    time: float
    grey: Pixels


def scan_video(
    recording: Recording, *, width_pixels: int = 160, meter: Meter | None = None
) -> Iterator[GreyFrame]:
    """Every picture is decoded; those less than `_LEAST_GAP` after the previous one are skipped."""
    video = recording.video
    if video is None:
        raise MediaError(
            f"{recording.name} has no pictures, so there is no motion to measure; listen instead "
            "(the frontline `flux`)"
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
    with open_media(part.uri, meter, version=part.version) as file:
        stream = find_video_stream(file.container)
        if stream is None or stream.time_base is None:
            return
        tick = float(stream.time_base)
        for picture in decode_stream(file.container, stream, meter):
            if picture.pts is not None:
                yield picture.pts * tick + part.shift, picture


@dataclass(frozen=True, slots=True, eq=False)
class VideoPackets:
    """In presentation order: `times` never decrease."""

    times: FloatArray
    sizes_bytes: Ints
    is_key: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.times)


def read_video_packets(parts: Sequence[Part], meter: Meter) -> VideoPackets:
    files = [_columns(part, meter) for part in parts if part.video]
    return VideoPackets(*map(np.concatenate, zip(*files, strict=True)))


def _columns(part: Part, meter: Meter) -> tuple[NDArray[Any], ...]:
    with open_media(part.uri, meter, version=part.version, index_only=True) as file:
        stream = find_video_stream(file.container)
        if stream is None:
            raise MediaError(
                f"{place_of(part.uri)} has no pictures any more; it changed while in use"
            )
        index = read_packets(file.storage, file.tracks.traks[stream.id])
        shown = np.flatnonzero(index.is_shown)
        order = shown[np.argsort(index.stamps[shown], kind="stable")]
        times = index.stamps[order] / index.ticks_a_second + part.shift
        return times, index.sizes[order].astype(np.int64), index.is_key[order]
