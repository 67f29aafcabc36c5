"""Opens what `earmark watch` listens to: streams, files that still grow, capture devices.

    rtsp:// rtsps:// rtmp:// rtmps:// udp:// http:// https://     libav, with the formats of each
    srt://                                                        the `ffmpeg` command, as MPEG-TS
    recording.mkv                                                 a file that somebody writes
    alsa:default, v4l2:/dev/video0, lavfi:GRAPH                   a device of libavdevice

Nothing here is reached from the name of a file inside a recording: only from what a user typed.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import av
import av.error
from av.container import InputContainer

from earmark.errors import MediaError, UnreadableFile, summarise
from earmark.media.container import FILE_OPTIONS, unreadable_file
from earmark.media.source import is_remote, name_of, place_of
from earmark.redaction import SecretFilter

OPEN_TIMEOUT = 20.0
"""Seconds; a camera with a key frame every 10 s needs more than that to be described."""

READ_TIMEOUT = 15.0
"""Seconds without a packet after which a stream counts as stalled."""

REST = 10.0
"""Seconds without a new byte after which a growing file counts as complete."""

_POLL = 0.2

_SCHEMES = {
    "rtsp": ("rtsp,sdp,rtp", "rtsp,rtp,srtp,udp,tcp,tls"),
    "rtsps": ("rtsp,sdp,rtp", "rtsp,rtp,srtp,udp,tcp,tls"),
    "rtmp": ("flv,live_flv", "rtmp,rtmpt,ffrtmphttp,http,tcp"),
    "rtmps": ("flv,live_flv", "rtmps,rtmpts,ffrtmphttp,https,tls,tcp"),
    "udp": ("mpegts", "udp"),
    "http": ("hls,mpegts,flv,matroska,mov,aac,mp3,webvtt", "http,https,tcp,tls,crypto"),
    "https": ("hls,mpegts,flv,matroska,mov,aac,mp3,webvtt", "https,http,tcp,tls,crypto"),
}
"""Formats and protocols by scheme: no stream can make libav open a file of this machine."""

_FORMATS = {"rtsp": "rtsp", "rtsps": "rtsp", "udp": "mpegts", "srt": "mpegts"}

_DEVICES = {"v4l2": "video4linux2,v4l2"}
"""Names that libav spells differently."""

DEVICES = ("alsa", "v4l2", "lavfi", "avfoundation", "dshow", "gdigrab", "x11grab", "pulse")


@dataclass(frozen=True, slots=True)
class LiveInput:
    """What a user named; `open` may be called again after the connection is lost."""

    address: str

    def __post_init__(self) -> None:
        if self.scheme not in ("", "srt", *_SCHEMES, *DEVICES):
            known = ", ".join(f"{name}://" for name in ("srt", *_SCHEMES))
            raise ValueError(f"{place_of(self.address)} cannot be watched; there are {known}")

    def __str__(self) -> str:
        return place_of(self.address)

    @property
    def scheme(self) -> str:
        """Empty for a file."""
        if is_remote(self.address):
            return self.address.partition("://")[0].lower()
        kind, colon, _ = self.address.partition(":")
        return kind if colon and kind in DEVICES else ""

    @property
    def is_file(self) -> bool:
        return not self.scheme

    @property
    def name(self) -> str:
        """Short, without secrets: for the titles of its parts."""
        if self.is_file:
            return Path(self.address).stem
        if self.scheme in DEVICES:
            return self.address.partition(":")[0]
        return name_of(self.address)

    @contextmanager
    def open(self, is_stopped: Callable[[], bool] = lambda: False) -> Iterator[InputContainer]:
        """`MediaError` in one line, without secrets, if that is impossible."""
        try:
            with self._open(is_stopped) as container:
                yield container
        except (av.error.FFmpegError, ValueError) as error:
            if self.is_file:
                raise unreadable_file(self.address, error) from None
            hide = SecretFilter(self.address)
            reason = getattr(error, "strerror", None) or hide(summarise(error))
            if isinstance(error, av.error.ExitError):  # by our timeout
                reason = f"nothing received for {READ_TIMEOUT:.0f} s"
            raise MediaError(f"{self} is lost ({reason})") from None

    @contextmanager
    def _open(self, is_stopped: Callable[[], bool]) -> Iterator[InputContainer]:
        if self.is_file:
            with GrowingFile(Path(self.address), is_stopped) as file:
                yield from _open_file(file)
        elif self.scheme == "srt":
            with SrtPipe(self.address, is_stopped) as pipe:
                yield from _open_file(pipe)
        elif self.scheme in DEVICES:
            kind, _, device = self.address.partition(":")
            with _open_av(device, format=_DEVICES.get(kind, kind)) as container:
                yield container
        else:
            formats, protocols = _SCHEMES[self.scheme]
            options = {"format_whitelist": formats, "protocol_whitelist": protocols}
            if self.scheme.startswith("rtsp"):
                options["rtsp_transport"] = "tcp"  # loses no packets
            chosen = _FORMATS.get(self.scheme)
            with _open_av(self.address, format=chosen, options=options) as container:
                yield container


def _open_av(name: str, **choices: Any) -> InputContainer:
    timeout = (OPEN_TIMEOUT, READ_TIMEOUT)
    opened = av.open(name, mode="r", timeout=timeout, metadata_errors="replace", **choices)
    return cast(InputContainer, opened)


def _open_file(file: GrowingFile | SrtPipe) -> Iterator[InputContainer]:
    options = dict(FILE_OPTIONS)
    with av.open(file, mode="r", metadata_errors="replace", options=options) as container:
        yield container


class GrowingFile:
    """Reads a file as it is written; its end is where it has rested for `REST` seconds.

    Without `seek`, so that libav reads it like a pipe.
    """

    def __init__(self, path: Path, is_stopped: Callable[[], bool], *, waits: bool = True) -> None:
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise UnreadableFile(f"cannot read {path}: {error.strerror}") from error
        self._is_stopped, self._waits = is_stopped, waits

    def __enter__(self) -> GrowingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        deadline = time.monotonic() + REST
        while not (data := self._file.read(size)):
            if not self._waits or self._is_stopped() or time.monotonic() > deadline:
                break
            time.sleep(_POLL)
        return data


class SrtPipe:
    """An SRT stream through the `ffmpeg` command: the libav in PyAV's wheels has no SRT."""

    def __init__(self, address: str, is_stopped: Callable[[], bool]) -> None:
        command = shutil.which("ffmpeg")
        if command is None:
            raise MediaError(
                f"{place_of(address)} needs the `ffmpeg` command, built with SRT; install FFmpeg"
            )
        quiet = ("-hide_banner", "-loglevel", "error", "-nostdin")
        copied = ("-map", "0:v?", "-map", "0:a?", "-c", "copy", "-f", "mpegts", "pipe:1")
        safe = ("-protocol_whitelist", "srt,pipe", "-i", address)
        self._process = subprocess.Popen(  # noqa: S603 - an address, and no shell
            [command, *quiet, *safe, *copied],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it quotes the address with its secrets
        )
        self._is_stopped = is_stopped

    def __enter__(self) -> SrtPipe:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            assert self._process.stdout
            self._process.stdout.close()

    def read(self, size: int) -> bytes:
        """Empty at the end of the stream, and if nothing came for `READ_TIMEOUT` seconds."""
        assert self._process.stdout
        pipe = self._process.stdout.fileno()
        deadline = time.monotonic() + READ_TIMEOUT
        while time.monotonic() < deadline and not self._is_stopped():
            if sys.platform == "win32" or select.select([pipe], [], [], _POLL)[0]:
                return os.read(pipe, size)
        return b""


def file_clock(path: Path) -> float:
    """Seconds to add to the container time of a growing file for wall-clock time.

    What is written now was recorded now: one quick pass finds the last time stamp in the file.
    """
    last = 0.0
    with GrowingFile(path, lambda: True, waits=False) as file, suppress(av.error.FFmpegError):
        written = path.stat().st_mtime
        for container in _open_file(file):
            for packet in container.demux():
                if packet.pts is not None and packet.time_base is not None:
                    end = packet.pts + (packet.duration or 0)
                    last = max(last, float(end * packet.time_base))
    return written - last
