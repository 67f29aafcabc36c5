"""One file of a recording, described: its tracks, and its place on the recording's clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AudioTrack:
    """The description of one audio track."""

    codec: str
    sample_rate: int
    channels: int
    language: str | None = None
    start: float = 0.0
    """Start of its first packet, in container time."""
    end: float = 0.0
    """When its last one ends."""
    missing_packets: int = 0
    """Packets in the index that lie past the end of the file."""

    @property
    def is_empty(self) -> bool:
        """Whether it holds no sound at all."""
        return self.end <= self.start


@dataclass(frozen=True, slots=True)
class VideoTrack:
    """The description of a video track."""

    codec: str
    width_pixels: int
    height_pixels: int
    mean_fps: float
    """Pictures a second over the whole recording."""
    rotation: int = 0
    """Rotation for display in degrees clockwise, 0, 90, 180 or 270; MP4 and MOV only."""
    start: float = 0.0
    """When the first picture is shown, in the container's time."""
    end: float = 0.0
    """When the last one ends."""
    missing_packets: int = 0
    """Packets in the index that lie past the end of the file."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a recording and its place on the recording's clock."""

    uri: str
    start: float
    """When the file begins, on the recording's clock."""
    duration: float
    zero: float
    """Container time of that beginning."""
    has_index: bool
    audio_tracks: tuple[AudioTrack, ...]
    video: VideoTrack | None
    size_bytes: int
    version: str = ""
    """Version of its content, from its storage."""
    promised: float = 0.0
    """Duration in the header; 0 if there is an index, or the header has none."""
    marks: tuple[float, ...] = ()
    """Highlights marked on the camera, in seconds from its beginning, in order."""

    def track(self, number: int) -> AudioTrack:
        """Audio track `number`; an empty one if it does not exist."""
        if number < len(self.audio_tracks):
            return self.audio_tracks[number]
        return AudioTrack("none", 0, 0)

    @property
    def end(self) -> float:
        """When the file ends, on the recording's clock."""
        return self.start + self.duration

    @property
    def shift(self) -> float:
        """Seconds to add to container time for recording time."""
        return self.start - self.zero
