"""A recording: its description, and methods that read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from earmark.errors import MediaError, NoAudioStream, NoVideoIndex
from earmark.media.audio_decoder import decode_runs
from earmark.media.audio_timeline import Sound, place_runs
from earmark.media.frame import Frame
from earmark.media.frame_reader import FrameReader, FrameStats
from earmark.media.read_ahead import read_ahead
from earmark.media.recording_part import AudioTrack, Part, VideoTrack
from earmark.media.sound_process import decode_in_process, is_worth_a_process
from earmark.media.source import Source
from earmark.media.storage import Meter

if TYPE_CHECKING:
    from earmark.media.video_packets import VideoPackets

_NOTHING_TO_HEAR = (
    "so there is nothing to listen to; choose windows by motion with `--frontline packets` "
    "or by time with `--rule uniform`"
)

_WORTH_A_THREAD = 60.0
"""Least seconds of sound for which decoding in a separate thread pays."""

_BLOCKS_AHEAD = 2
"""Blocks of sound decoded ahead. Whole blocks are handed over, not packets: two threads that wake
each other at every packet take twice the CPU time."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One continuous recording, in one file or in chapters: described, not decoded.

    Cheap to copy, hash, print and send to a worker; reading is a method. Time 0 is when the
    container begins to be shown, for sound and pictures alike.
    """

    source: Source
    duration: float
    """Seconds, from the packets; the header is not trusted. Chapters are summed."""
    container: str
    """libav's name of the format."""
    audio_track: int
    """Which of `audio_tracks` is listened to, from 0."""
    access: str
    """How sound is read: `index` (only audio packets) or `demux` (the whole file)."""
    access_reason: str
    """Why that way."""
    size_bytes: int
    key: str
    """A hash of the content: the same under another name, another when the file changed."""
    bytes_read: int
    """Bytes that describing it took."""
    parts: tuple[Part, ...]
    began: str = ""
    """Start time from the container, in ISO 8601; empty if it has none."""

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.source.name

    @property
    def audio_tracks(self) -> tuple[AudioTrack, ...]:
        """The audio tracks; of chapters, those of the chapter with the most."""
        return max((part.audio_tracks for part in self.parts), key=len)

    @property
    def video(self) -> VideoTrack | None:
        """The video track; None if there is none."""
        return next((part.video for part in self.parts if part.video), None)

    @property
    def marks(self) -> tuple[float, ...]:
        """The seconds at which somebody marked a highlight on the camera, in order."""
        return tuple(part.start + mark for part in self.parts for mark in part.marks)

    @property
    def has_audio(self) -> bool:
        """Whether there is sound to listen to."""
        return bool(self.audio_tracks)

    @property
    def has_video(self) -> bool:
        """Whether there are pictures to look at."""
        return self.video is not None

    def sound(self, *, sample_rate: int = 16_000, meter: Meter | None = None) -> Iterator[Sound]:
        """The sound as mono blocks of 30 s that cover `[0, duration)` without a gap.

        Channels are mixed equally. Where there is no sound (before it starts, after it ends, in
        gaps) there are zeros, so that later sound keeps its time. Raises `NoAudioStream` without
        a track.
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
        """Time and size of every video packet, from the index: no byte of video is read.

        Raises `NoVideoIndex` if the container has no such index, or there is no video.
        """
        if not self.has_video or not all(part.has_index for part in self.parts):
            why = "keeps no index of its video packets" if self.has_video else "has no pictures"
            raise NoVideoIndex(
                f"{self.name} {why}, so motion cannot be read from it; listen instead "
                "(`--frontline energy`), or remux it to MP4"
            )
        from earmark.media.video_packets import read_video_packets

        return read_video_packets(self.parts, meter if meter is not None else Meter())

    def frames(self, times: Sequence[float], *, stats: FrameStats | None = None) -> list[Frame]:
        """The picture shown at each of `times`, in the order asked; `MediaError` without pictures.

        Decoding goes from the key frame before a time up to it and no further; times that share a
        key frame are decoded in one pass. Times before the first picture give the first, after
        the last the last.
        """
        with self.frame_reader(stats=stats) as reader:
            return reader.frames(times)

    def frame_reader(self, *, stats: FrameStats | None = None) -> FrameReader:
        """A reader that keeps the recording open for many calls; a context manager."""
        self.check_pictures()
        parts = [part for part in self.parts if part.video]
        if not parts:
            raise MediaError(f"{self.name} has no pictures; name a video file")
        return FrameReader(self.source.name, parts, stats if stats is not None else FrameStats())

    def check_pictures(self) -> None:
        """Raise `MediaError` if libav cannot decode the video."""
        if any(part.video and part.video.codec == "unknown" for part in self.parts):
            raise MediaError(f"{self.name} has pictures that libav cannot decode; convert it first")

    def to_json(self) -> dict[str, Any]:
        """Plain values for `from_json`, without paths."""
        plain = asdict(self)
        parts = [{**part, "uri": ""} for part in plain["parts"]]
        return {**plain, "source": None, "parts": parts}

    @classmethod
    def from_json(cls, plain: dict[str, Any], source: Source) -> Recording:
        """The recording from `to_json`, now at `source`."""
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
