"""Cuts clips out of recordings: packets as they are, nothing decoded, from a key frame on."""

from __future__ import annotations

from pathlib import Path

import av

from earmark.errors import MediaError, summarise
from earmark.media.atomic_file import replacing
from earmark.media.recording import Recording
from earmark.timeline import Span


def write_clip(recording: Recording, span: Span, path: Path, *, has_sound: bool = True) -> Path:
    """Write `span` of `recording` to `path`; it begins at the key frame before.

    Of several chapters it is cut from the one that shows its beginning. Where voices are not to
    leave, it `has_sound` no more: what was said cannot be told from the rest without decoding.

    Raises:
        MediaError: The recording is no local file, or cannot be cut.
    """
    starts = [part.start for part in recording.parts]
    place = max(n for n, start in enumerate(starts) if start <= span.start or n == 0)
    file = recording.source.paths[place]
    if "://" in file:
        raise MediaError(f"{recording.source.name} is no local file, so no clip is cut from it")
    begin, end = span.start - starts[place], span.end - starts[place]
    try:
        with replacing(path) as scratch, av.open(file) as given, av.open(str(scratch), "w") as made:
            streams = {
                one.index: made.add_stream_from_template(one)
                for one in (*given.streams.video[:1], *given.streams.audio[: int(has_sound)])
            }
            given.seek(max(0, int(begin * 1_000_000)))
            for packet in given.demux([given.streams[index] for index in streams]):
                if packet.dts is None or packet.time_base is None:
                    continue
                if packet.dts * packet.time_base > end:
                    break
                packet.stream = streams[packet.stream.index]
                made.mux(packet)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise MediaError(
            f"no clip can be cut from {recording.source.name} ({summarise(error)})"
        ) from error
    return path
