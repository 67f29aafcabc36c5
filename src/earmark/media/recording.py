from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from earmark.errors import MediaError, NoAudioStream, NoVideoIndex
from earmark.media.audio_decoder import JITTER, Sound, decode_runs, place_runs
from earmark.media.child_process import decode_in_process, is_worth_a_process
from earmark.media.container import open_media
from earmark.media.frame import Frame
from earmark.media.frame_reader import FrameReader, VideoPackets, read_video_packets
from earmark.media.mp4_index import PacketIndex, read_packets
from earmark.media.prefetch import read_ahead
from earmark.media.source import Source, is_remote, name_of
from earmark.media.source_listing import missing_chapters
from earmark.media.storage import Meter
from earmark.text_format import Heading, counted, format_bytes
from earmark.timeline import format_clock

_NOTHING_TO_HEAR = (
    "so there is nothing to listen to; choose windows by motion with the frontline `packets` "
    "or by time with the rule `uniform`"
)

_WORTH_A_THREAD = 60.0  # seconds of sound
_BLOCKS_AHEAD = 2  # two threads that wake each other at every packet take twice the CPU time
_MOST_MARKS = 20  # highlights printed; JSON lists all
_LEAST_SILENCE = 0.5  # seconds of missing sound at either end
_HEADER_TOLERANCE = 2.0  # seconds by which a file may end before its header says so


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
    first_key: str = ""
    """The key under which a run knows it, if it has grown since."""

    @property
    def id(self) -> str:
        """Names it in a run."""
        return self.first_key or self.key

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(part.version for part in self.parts)

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
        meter = meter or Meter()
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
        return read_video_packets(self.parts, meter or Meter())

    def frames(self, times: Sequence[float]) -> list[Frame]:
        """The picture shown at each of `times`, in their order; `MediaError` without pictures.

        Times that share a key frame are decoded in one pass.
        """
        with self.frame_reader() as reader:
            return reader.frames(times)

    def frame_reader(self) -> FrameReader:
        self.check_pictures()
        parts = [part for part in self.parts if part.video]
        if not parts:
            raise MediaError(f"{self.name} has no pictures; name a video file")
        return FrameReader(self.name, parts)

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


@dataclass(frozen=True, slots=True)
class Inspection:
    recording: Recording
    audio_pass_bytes: int
    """Of the index and the audio packets, or of the whole file; 0 without sound."""
    audio_packet_bytes: int | None
    """None without an index."""
    index_bytes: int
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        recording = self.recording
        names = ("duration", "size_bytes", "container", "access", "access_reason")
        own_names = ("audio_pass_bytes", "audio_packet_bytes", "index_bytes", "warnings")
        return {
            "path": recording.source.path,
            "chapters": list(recording.source.paths),
            **{name: getattr(recording, name) for name in names},
            "video": asdict(recording.video) if recording.video else None,
            "audio_tracks": [asdict(track) for track in recording.audio_tracks],
            "audio_track": recording.audio_track,
            "marks": list(recording.marks),
            **{name: getattr(self, name) for name in own_names},
        }

    def lines(self) -> Iterator[str]:
        """What the recording contains, and how much of it listening reads."""
        recording = self.recording
        yield Heading(recording.name)
        size = format_bytes(recording.size_bytes)
        yield f"  {format_clock(recording.duration)}, {size}, {recording.container}"
        for path in recording.source.paths if len(recording.parts) > 1 else ():
            yield f"  chapter {path}"
        if video := recording.video:
            turned = f", turned {video.rotation}°" if video.rotation else ""
            # With some codecs (MPEG-4 Part 2) only the first frame has the size, and it is not
            # decoded.
            size = f" {video.width_pixels}x{video.height_pixels}" if video.width_pixels else ""
            yield f"  video: {video.codec}{size}, {video.mean_fps:.2f} frames a second{turned}"
        for number, track in enumerate(recording.audio_tracks):
            chosen = " (listened to)" if number == recording.audio_track else ""
            language = f", {track.language}" if track.language else ""
            # Reading the start of the container may not reach a track that begins late.
            shape = f" {track.sample_rate} Hz, {counted(track.channels, 'channel')}"
            shape = shape if track.sample_rate else ""
            yield f"  audio {number}: {track.codec}{shape}{language}{chosen}"
        if recording.marks:
            times = ", ".join(map(format_clock, recording.marks[:_MOST_MARKS]))
            rest = ", …" if len(recording.marks) > _MOST_MARKS else ""
            yield f"  {counted(len(recording.marks), 'highlight')} marked: {times}{rest}"
        if recording.has_audio:
            share = self.audio_pass_bytes / max(1, recording.size_bytes)
            yield (
                f"  listening reads {format_bytes(self.audio_pass_bytes)} ({100 * share:.1f} %) "
                f"of the file: {recording.access_reason}"
            )


def inspect(recording: Recording) -> Inspection:
    """Media data is not read."""
    pass_bytes = packet_bytes = index_bytes = 0
    warnings: list[list[str]] = []
    for part in recording.parts:
        warnings.append([])
        if not part.has_index:
            pass_bytes += part.size_bytes
            if part.video:
                warnings[-1].append(
                    "no index of the sound, so the whole file is read to listen to it; "
                    "remux it to MP4 to read less"
                )
            continue
        with open_media(part.uri, Meter(), version=part.version, index_only=True) as file:
            index_bytes += len(file.tracks.index.whole) if file.tracks.index else 0
            streams = file.container.streams.audio
            if recording.audio_track < len(streams):
                stream = streams[recording.audio_track]
                index = read_packets(file.storage, file.tracks.traks[stream.id])
                packet_bytes += index.size_bytes
                # Raw packets may last any time.
                if not part.track(recording.audio_track).codec.startswith("pcm"):
                    warnings[-1] += _timestamp_warnings(index)
    is_indexed = all(part.has_index for part in recording.parts)
    return Inspection(
        recording,
        audio_pass_bytes=(pass_bytes + index_bytes + packet_bytes) * recording.has_audio,
        audio_packet_bytes=packet_bytes if is_indexed else None,
        index_bytes=index_bytes,
        warnings=tuple(list_warnings(recording, warnings)),
    )


def _timestamp_warnings(index: PacketIndex) -> list[str]:
    steps = np.diff(index.stamps[index.is_shown]) / index.ticks_a_second
    if not len(steps):
        return []
    lines = []
    typical = float(np.median(steps))
    gaps = steps[steps > typical + JITTER] - typical
    if len(gaps):
        lines.append(
            f"{counted(len(gaps), 'gap')} in the sound, {gaps.sum():.1f} s in all, "
            "treated as silence"
        )
    if np.any(steps < 0):
        lines.append(
            f"audio timestamps step back {np.sum(steps < 0)} times; overlapping sound is read once"
        )
    return lines


def list_warnings(
    recording: Recording, part_warnings: Sequence[Sequence[str]] | None = None
) -> list[str]:
    """`part_warnings` are added to those of each part."""
    lines, tracks = list[str](), len(recording.audio_tracks)
    if not tracks:
        lines = ["no audio stream: by default windows are chosen by the sizes of its video packets"]
    elif tracks > 1:
        lines = [
            f"{tracks} audio tracks, of which track {recording.audio_track} "
            "is listened to; choose another `audio_track`"
        ]
    if missing_numbers := missing_chapters([part.uri for part in recording.parts]):
        which = f"chapter{'s' * (len(missing_numbers) > 1)} {', '.join(map(str, missing_numbers))}"
        lines.append(f"{which} missing, and times do not count the gap; copy all files")
    for part, further in zip(recording.parts, part_warnings or repeat(()), strict=False):
        name = f"{name_of(part.uri)}: " if len(recording.parts) > 1 else ""
        lines += [f"{name}{line}" for line in (*_part_warnings(recording, part), *further)]
    return lines


def _part_warnings(recording: Recording, part: Part) -> Iterator[str]:
    missing = sum(track.missing_packets for track in part.audio_tracks)
    missing += part.video.missing_packets if part.video else 0
    length = f"it is treated as {part.duration:.1f} s long; copy the whole file again"
    if _has_grown(part):
        yield (
            f"it is still being written, so only its first {part.duration:.1f} s are used; run the "
            "same command again for the rest, or follow it with `earmark watch`"
        )
    elif missing:
        yield f"cut off: {missing} packets in its index are past the end of the file, so {length}"
    elif part.promised - part.duration - max(0.0, part.zero) > _HEADER_TOLERANCE:
        yield f"cut off: its header says {part.promised:.1f} s, but {length}"
    sound = part.track(recording.audio_track)
    if sound.is_empty:
        if recording.has_audio:
            yield "no sound on this track"
        return
    late, early = sound.start - part.zero, part.zero + part.duration - sound.end
    if late > _LEAST_SILENCE:
        yield f"sound starts {late:.1f} s late; silence until then"
    if early > _LEAST_SILENCE:
        yield f"sound ends {early:.1f} s before the pictures; silence after that"


def _has_grown(part: Part) -> bool:
    with suppress(OSError, ValueError):
        return not is_remote(part.uri) and Path(part.uri).stat().st_size > part.size_bytes
    return False
