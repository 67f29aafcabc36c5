"""Writes copies of whole recordings with chapters, without re-encoding."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.packet import Packet

from earmark.errors import MediaError, summarise
from earmark.media.container import demux_packets, open_media
from earmark.media.recording_description import open_recording
from earmark.media.source import name_of
from earmark.media.storage import Meter

MILLISECONDS = Fraction(1, 1000)

Chapter = tuple[int, int, str]
"""First millisecond, last, and title."""

_KEPT = ("video", "audio", "subtitle")
"""Stream types that both containers support; a camera's telemetry is dropped."""


def chapter_entries(chapters: Iterable[Chapter]) -> list[Any]:
    """Chapters in the form that PyAV takes."""
    return [
        {
            "id": number,
            "start": start,
            "end": end,
            "time_base": MILLISECONDS,
            "metadata": {"title": title},
        }
        for number, (start, end, title) in enumerate(chapters, start=1)
    ]


class StreamCopy:
    """A new stream of `output_file` for copied packets of `stream`."""

    def __init__(self, output_file: Any, stream: Any) -> None:
        # Opaque: a copy needs no encoder, and for some codecs (AV1) there is none.
        self._copy = output_file.add_stream_from_template(stream, opaque=True)
        self._output_file = output_file
        self._last: Fraction | None = None
        """Decode time of the last packet, in seconds: the next may come from another file."""
        if stream.language not in (None, "und"):
            self._copy.metadata["language"] = stream.language
        if stream.type == "video" and stream.average_rate:
            self._copy.codec_context.framerate = stream.average_rate

    def write(self, packet: Packet[Any], shift: float) -> None:
        """Write `packet`, which is not empty, `shift` seconds later than it was.

        The first packets of Matroska have no decode time: the writer of the container finds one.
        That of others must increase, which MPEG-PS does not guarantee after a jump.
        """
        assert packet.time_base is not None, "it comes from a file"
        tick = packet.time_base
        steps = round(shift / tick)
        packet.pts = None if packet.pts is None else packet.pts + steps
        if packet.dts is not None:
            packet.dts += steps
            if self._last is not None and packet.dts * tick <= self._last:
                packet.dts = int(self._last // tick) + 1
                packet.pts = max(packet.dts, packet.pts or packet.dts)
            self._last = packet.dts * tick
        packet.stream = self._copy
        self._output_file.mux(packet)


def open_output(path: Path, kind: str | None = None) -> Any:
    """A container to be written to `path`; its suffix is its format if `kind` is not."""
    # An absolute path: libav takes what precedes a colon for a protocol.
    return av.open(str(path.absolute()), "w", format=kind)


def copy_with_chapters(file: str, chapters: Iterable[Chapter], path: Path, kind: str) -> None:
    """Write a copy of the recording in `file` with `chapters`, without re-encoding.

    `file` is a path or an address; `kind` is libav's name of the container, `mp4` or `matroska`.
    The copy begins at 0, as the clock of the recording does. Raises `MediaError` if a stream cannot
    be read, or not be stored in that container.
    """
    try:
        (part,) = open_recording(file).parts
        with (
            open_media(part.uri, Meter(), version=part.version) as media,
            open_output(path, kind) as output_file,
        ):
            kept = [one for one in media.container.streams if one.type in _KEPT]
            copies = {one.index: StreamCopy(output_file, one) for one in kept}
            output_file.set_chapters(chapter_entries(chapters))
            for packet in demux_packets(media.container, *kept):
                if packet.size:
                    copies[packet.stream.index].write(packet, -part.zero)
    except (av.FFmpegError, MediaError, OSError, ValueError) as error:
        raise MediaError(
            f"{name_of(file)} cannot be copied with chapters ({summarise(error)})"
        ) from error
