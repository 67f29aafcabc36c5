"""One file of a recording, described: its tracks, and its place on the recording's clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AudioTrack:
    """What one audio track is."""

    codec: str
    sample_rate: int
    channels: int
    language: str | None = None
    start: float = 0.0
    """When its first packet is heard, in the container's time."""
    end: float = 0.0
    """When its last one ends."""
    missing_packets: int = 0
    """Packets the index names that lie past the end of the file."""

    @property
    def is_empty(self) -> bool:
        """Whether it holds no sound at all."""
        return self.end <= self.start


@dataclass(frozen=True, slots=True)
class VideoTrack:
    """What the pictures are."""

    codec: str
    width_pixels: int
    height_pixels: int
    mean_fps: float
    """Pictures a second over the whole recording."""
    rotation: int = 0
    """Degrees clockwise, 0, 90, 180 or 270, by which an MP4 or MOV asks to be turned."""
    start: float = 0.0
    """When the first picture is shown, in the container's time."""
    end: float = 0.0
    """When the last one ends."""
    missing_packets: int = 0
    """Packets the index names that lie past the end of the file."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a recording and its place on the recording's clock."""

    uri: str
    start: float
    """When the file begins, on the recording's clock."""
    duration: float
    zero: float
    """The container's own time of that beginning."""
    has_index: bool
    audio_tracks: tuple[AudioTrack, ...]
    video: VideoTrack | None
    size_bytes: int
    version: str = ""
    """Of its content, as its storage told it."""
    promised: float = 0.0
    """Seconds its header says there are, where it says so and no index tells."""
    marks: tuple[float, ...] = ()
    """Seconds from its beginning at which somebody marked a highlight on the camera, in order."""

    def track(self, number: int) -> AudioTrack:
        """One of its audio tracks; an empty one where it has not so many."""
        if number < len(self.audio_tracks):
            return self.audio_tracks[number]
        return AudioTrack("none", 0, 0)

    @property
    def end(self) -> float:
        """When the file ends, on the recording's clock."""
        return self.start + self.duration

    @property
    def shift(self) -> float:
        """Seconds from the container's clock to the recording's."""
        return self.start - self.zero
