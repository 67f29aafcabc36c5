"""Cuts clips out of recordings: packets as they are, nothing decoded, from a key frame on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
from av.packet import Packet

from earmark.errors import MediaError, summarise
from earmark.media.atomic_file import replacing
from earmark.media.recording import Recording
from earmark.timeline import Span


def write_clip(
    recording: Recording, span: Span, path: Path, *, muted: Sequence[Span] | None = ()
) -> Path:
    """Write `span` of `recording` to `path`, as `cut_clip` does; the path."""
    cut_clip(recording, span, path, muted=muted)
    return path


def cut_clip(
    recording: Recording, span: Span, path: Path, *, muted: Sequence[Span] | None = ()
) -> float:
    """Write `span` of `recording` to `path`; it begins at the key frame before.

    The second of the recording at which it begins is given back; its own time begins at 0. Of
    several chapters it is cut from the one that shows its beginning. Sound that lies in one of the
    spans `muted` is left out, packet by packet; None leaves out all of it.

    Raises:
        MediaError: The recording is no local file, or cannot be cut.
    """
    starts = [part.start for part in recording.parts]
    place = max(n for n, start in enumerate(starts) if start <= span.start or n == 0)
    file = recording.source.paths[place]
    if "://" in file:
        raise MediaError(f"{recording.source.name} is no local file, so no clip is cut from it")
    begin, end = span.start - starts[place], span.end - starts[place]
    zero: float | None = None
    try:
        with replacing(path) as scratch, av.open(file) as given, av.open(str(scratch), "w") as made:
            wanted = (*given.streams.video[:1], *given.streams.audio[: muted is not None])
            streams = {one.index: made.add_stream_from_template(one) for one in wanted}
            quiet = [(one.start - starts[place], one.end - starts[place]) for one in muted or ()]
            given.seek(max(0, int(begin * 1_000_000)))
            for packet in given.demux([given.streams[index] for index in streams]):
                if packet.dts is None or packet.time_base is None:
                    continue
                time = float(packet.dts * packet.time_base)
                if time > end:
                    break
                zero = time if zero is None else zero
                if packet.stream.type == "audio" and _is_within(packet, time, quiet):
                    continue
                move(packet, -zero)
                packet.stream = streams[packet.stream.index]
                made.mux(packet)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise MediaError(
            f"no clip can be cut from {recording.source.name} ({summarise(error)})"
        ) from error
    return starts[place] + (zero or 0.0)


def move(packet: Packet[Any], seconds: float) -> None:
    """Show a packet so many seconds later."""
    assert packet.time_base is not None, "it comes from a file"
    steps = round(seconds / packet.time_base)
    packet.dts = None if packet.dts is None else packet.dts + steps
    packet.pts = None if packet.pts is None else packet.pts + steps


def _is_within(packet: Packet[Any], time: float, spans: Sequence[tuple[float, float]]) -> bool:
    """Whether any of the sound in `packet`, which begins at `time`, lies in one of `spans`."""
    length = float((packet.duration or 0) * packet.time_base) if packet.time_base else 0.0
    return any(time < end and time + length >= start for start, end in spans)
