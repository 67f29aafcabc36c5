"""Times and sizes of video packets, from the index of a recording's files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import MediaError
from earmark.media.container import find_video_stream, open_media
from earmark.media.packet_index import Ints, read_packets
from earmark.media.recording_part import Part
from earmark.media.source import place_of
from earmark.media.storage import Meter
from earmark.timeline import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class VideoPackets:
    """Sizes of a recording's video packets, read from the index without a byte of video.

    In presentation order: `times` never decrease.
    """

    times: FloatArray
    """When each picture is shown, in seconds on the recording's clock."""
    sizes_bytes: Ints
    is_key: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.times)


def read_video_packets(parts: Sequence[Part], meter: Meter) -> VideoPackets:
    """The video packets of files that all have an index, at least one with video."""
    files = [_columns(part, meter) for part in parts if part.video]
    return VideoPackets(*map(np.concatenate, zip(*files, strict=True)))


def _columns(part: Part, meter: Meter) -> tuple[NDArray[Any], ...]:
    """Times, sizes and key flags of the video packets of one file, in presentation order."""
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
