"""Writes copies of whole recordings with chapters, without re-encoding."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from earmark.errors import MediaError, summarise
from earmark.media.source import name_of

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


def add_copy(output_file: Any, stream: Any) -> Any:
    """A new stream of `output_file` for copied packets of `stream`."""
    # Opaque: a copy needs no encoder, and for some codecs (AV1) there is none.
    copy = output_file.add_stream_from_template(stream, opaque=True)
    if stream.language not in (None, "und"):
        copy.metadata["language"] = stream.language
    if stream.type == "video" and stream.average_rate:
        copy.codec_context.framerate = stream.average_rate
    return copy


def copy_with_chapters(file: str, chapters: Iterable[Chapter], path: Path, kind: str) -> None:
    """Write a copy of the recording in `file` with `chapters`, without re-encoding.

    `file` is a path or a URL that libav reads; `kind` is libav's name of the container, `mp4` or
    `matroska`. Raises `MediaError` if a stream cannot be read, or not be stored in that container.
    """
    try:
        with av.open(file) as input_file, av.open(str(path), "w", format=kind) as output_file:
            kept = [one for one in input_file.streams if one.type in _KEPT]
            streams = {one.index: add_copy(output_file, one) for one in kept}
            output_file.set_chapters(chapter_entries(chapters))
            for packet in input_file.demux(kept):
                if packet.dts is not None:
                    packet.stream = streams[packet.stream.index]
                    output_file.mux(packet)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise MediaError(
            f"{name_of(file)} cannot be copied with chapters ({summarise(error)})"
        ) from error
