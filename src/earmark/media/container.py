"""libav containers over counted bytes, opened one way everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import av
import av.error
from av.container import InputContainer
from av.stream import Discard, Disposition, Stream
from av.video.stream import VideoStream

from earmark.errors import MediaError, UnreadableFile
from earmark.media.boxes import Layout, read_layout, show_index
from earmark.media.source import name_of
from earmark.media.storage import ByteFile, Meter, Storage, open_storage


@dataclass(frozen=True, slots=True)
class Opened:
    """An open container and the bytes beneath it."""

    container: InputContainer
    storage: Storage
    layout: Layout | None
    """Of an MP4 or MOV file."""

    @property
    def has_index(self) -> bool:
        """Whether the container holds one whole index of its packets."""
        return self.layout is not None and not self.layout.is_fragmented


@contextmanager
def opened(uri: str, meter: Meter, *, index_only: bool = False) -> Iterator[Opened]:
    """The container at `uri`; closed at the end.

    Args:
        uri: A path or an address.
        meter: Counts every byte.
        index_only: Show libav no more than the index of a file that has one.

    Raises:
        UnreadableFile: missing, empty, cut off or not media.
        RemoteError: the server stands in the way.
    """
    storage = open_storage(uri, meter)
    try:
        if storage.size_bytes == 0:
            raise UnreadableFile(f"{name_of(uri)} is empty (0 bytes); copy it again")
        layout = read_layout(storage)
        if layout is not None and not layout.is_fragmented and index_only:
            file = show_index(storage, layout)
        else:
            file = ByteFile(storage)
        with _open_container(file, uri) as container:
            yield Opened(container, storage, layout)
    finally:
        storage.close()


def _open_container(file: ByteFile, uri: str) -> InputContainer:
    try:
        return av.open(file, mode="r", metadata_errors="replace")
    except MediaError:
        raise
    except (av.error.FFmpegError, ValueError) as error:
        raise UnreadableFile(
            f"{name_of(uri)} is not a media file libav can read "
            f"({getattr(error, 'strerror', None) or error}); check that it plays"
        ) from error


def discard_all_but(container: InputContainer, *wanted: Stream) -> None:
    """Have the demuxer skip every stream that is not wanted."""
    for stream in container.streams:
        stream.discard = Discard.default if stream in wanted else Discard.all


def moving_pictures(container: InputContainer) -> VideoStream | None:
    """The first stream of moving pictures; the cover of an album is not one."""
    still = Disposition.attached_pic
    moving = (stream for stream in container.streams.video if not stream.disposition & still)
    return next(moving, None)
