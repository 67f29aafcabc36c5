from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from earmark.errors import MediaError, NoAudioStream, NoVideoIndex
from earmark.media.audio_decoder import Sound, decode_runs, place_runs
from earmark.media.child_process import decode_in_process, is_worth_a_process
from earmark.media.frame import Frame
from earmark.media.frame_reader import FrameReader, FrameStats, VideoPackets, read_video_packets
from earmark.media.prefetch import read_ahead
from earmark.media.source import Source
from earmark.media.storage import Meter

_NOTHING_TO_HEAR = (
    "so there is nothing to listen to; choose windows by motion with the frontline `packets` "
    "or by time with the rule `uniform`"
)

_WORTH_A_THREAD = 60.0
"""Seconds of sound."""

_BLOCKS_AHEAD = 2
"""Two threads that wake each other at every packet take twice the CPU time."""


@dataclass(frozen=True, slots=True)
class AudioTrack:
    codec: str
    sample_rate: int
    channels: int
    language: str | None = None
    start: float = 0.0
    """Of its first packet, in container time."""
    end: float = 0.0
    missing_packets: int = 0

    @property
    def is_empty(self) -> bool:
        return self.end <= self.start


@dataclass(frozen=True, slots=True)
class VideoTrack:
    codec: str
    width_pixels: int
    height_pixels: int
    mean_fps: float
    rotation: int = 0
    """Degrees clockwise, 0, 90, 180 or 270; MP4 and MOV only."""
    start: float = 0.0
    """Container time of the first picture."""
    end: float = 0.0
    missing_packets: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    uri: str
    start: float
    """Seconds on the recording's clock."""
    duration: float
    zero: float
    """Container time of that beginning."""
    has_index: bool
    audio_tracks: tuple[AudioTrack, ...]
    video: VideoTrack | None
    size_bytes: int
    version: str = ""
    promised: float = 0.0
    """Duration in the header; 0 if there is an index, or the header has none."""
    marks: tuple[float, ...] = ()
    """Highlights marked on the camera, in seconds from the beginning of the file."""

    def track(self, number: int) -> AudioTrack:
        if number < len(self.audio_tracks):
            return self.audio_tracks[number]
        return AudioTrack("none", 0, 0)

    @property
    def end(self) -> float:
        return self.start + self.duration

    @property
    def shift(self) -> float:
        """Seconds to add to container time for recording time."""
        return self.start - self.zero


@dataclass(frozen=True, slots=True)
class Recording:
    """One continuous recording, in one file or in chapters: described, not decoded.

    Time 0 is when the container begins to be shown, for sound and pictures alike.
    """

    source: Source
    duration: float
    """Seconds, from the packets; the header is not trusted."""
    container: str
    """libav's name of the format."""
    audio_track: int
    """The one listened to, from 0."""
    access: str
    """`index` (only audio packets are read) or `demux` (the whole file)."""
    access_reason: str
    size_bytes: int
    key: str
    """A hash of the content, whatever the name."""
    bytes_read: int
    parts: tuple[Part, ...]
    began: str = ""
    """ISO 8601, from the container; empty if it has none."""

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def audio_tracks(self) -> tuple[AudioTrack, ...]:
        return max((part.audio_tracks for part in self.parts), key=len)

    @property
    def video(self) -> VideoTrack | None:
        return next((part.video for part in self.parts if part.video), None)

    @property
    def marks(self) -> tuple[float, ...]:
        return tuple(part.start + mark for part in self.parts for mark in part.marks)

    @property
    def has_audio(self) -> bool:
        return bool(self.audio_tracks)

    @property
    def has_video(self) -> bool:
        return self.video is not None

    def sound(self, *, sample_rate: int = 16_000, meter: Meter | None = None) -> Iterator[Sound]:
        """Mono blocks of 30 s that cover `[0, duration)`, channels mixed equally.

        Gaps are silence, so that later sound keeps its time. Raises `NoAudioStream` without a
        track.
        """
        if all(part.track(self.audio_track).is_empty for part in self.parts):
            what = "an audio track of zero length" if self.has_audio else "no audio stream"
            raise NoAudioStream(f"{self.name} has {what}, {_NOTHING_TO_HEAR}")
        meter = meter if meter is not None else Meter()
        meter.access = self.access
        is_short = self.duration < _WORTH_A_THREAD
        is_apart = not is_short and is_worth_a_process(self.parts)
        decode = decode_in_process if is_apart else decode_runs
        pieces = decode(self.parts, self.audio_track, meter)
        blocks = place_runs(pieces, self.parts, sample_rate, meter)
        return blocks if is_short or is_apart else read_ahead(blocks, _BLOCKS_AHEAD)

    def video_packets(self, *, meter: Meter | None = None) -> VideoPackets:
        """From the index, without reading video; `NoVideoIndex` if there is none."""
        if not self.has_video or not all(part.has_index for part in self.parts):
            why = "keeps no index of its video packets" if self.has_video else "has no pictures"
            raise NoVideoIndex(
                f"{self.name} {why}, so motion cannot be read from it; listen instead "
                "(the frontline `energy`), or remux it to MP4"
            )
        return read_video_packets(self.parts, meter if meter is not None else Meter())

    def frames(self, times: Sequence[float], *, stats: FrameStats | None = None) -> list[Frame]:
        """The picture shown at each of `times`, in the order asked; `MediaError` without pictures.

        Times that share a key frame are decoded in one pass.
        """
        with self.frame_reader(stats=stats) as reader:
            return reader.frames(times)

    def frame_reader(self, *, stats: FrameStats | None = None) -> FrameReader:
        self.check_pictures()
        parts = [part for part in self.parts if part.video]
        if not parts:
            raise MediaError(f"{self.name} has no pictures; name a video file")
        return FrameReader(self.source.name, parts, stats if stats is not None else FrameStats())

    def check_pictures(self) -> None:
        if any(part.video and part.video.codec == "unknown" for part in self.parts):
            raise MediaError(f"{self.name} has pictures that libav cannot decode; convert it first")

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        parts = [{**part, "uri": ""} for part in plain["parts"]]
        return {**plain, "source": None, "parts": parts}

    @classmethod
    def from_json(cls, plain: dict[str, Any], source: Source) -> Recording:
        parts = [
            Part(
                **{
                    **part,
                    "uri": uri,
                    "audio_tracks": tuple(AudioTrack(**track) for track in part["audio_tracks"]),
                    "marks": tuple(part.get("marks", ())),
                    "video": VideoTrack(**part["video"]) if part["video"] else None,
                }
            )
            for part, uri in zip(plain["parts"], source.uris, strict=True)
        ]
        return cls(**{**plain, "source": source, "parts": tuple(parts)})
