"""Listens to recordings, and caches the scores.

sound ──▶ encoder ──▶ scorer ──▶ Heard ──▶ cache
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from earmark.errors import EarmarkError, MediaError, NoAudioStream
from earmark.features.encoder import SAMPLE_RATE, SoundEncoder
from earmark.features.spectrum import decibels
from earmark.gate.frontline import Frontline, NoEncoder, frontline_named
from earmark.gate.gate import DAMAGE
from earmark.media import Meter, Recording, Sound, Source, open_recording
from earmark.media.atomic_file import content_file, replacing
from earmark.media.recording import list_warnings
from earmark.media.recording_description import content_key
from earmark.models.model_store import cache_folder
from earmark.timeline import FloatArray, Track

LEVEL_HOP = 0.2
"""Seconds between two values of the sound level that the report draws."""

MIN_REPORTED_SECONDS = 1.0
"""Of missing or overlapping sound."""

SILENCE = Track(np.zeros(0, np.float32))

SILENT_DB = -90.0
"""Silent sound tracks hold only noise of the converter."""

MIN_MOTION_RANGE = 0.4
"""Least difference between the 90 % and 10 % quantiles of motion, in nats: 1.5 times as many bits.
In two real clips of one movement it is 0.1."""

CACHE_LAYOUT = 3
"""Increased when the meaning of the cached files changes."""

CACHED_FACTS = ("access", "bytes_read", "seconds")

INSTEAD = "the sizes of the video packets were read instead"
MOTION_TOO_EVEN = (
    "the sizes of the video packets hardly differ, so they are not used; "
    "the frontline `packets` uses them anyway"
)


class Listened:
    __slots__ = ()

    level: Track | None
    access: str
    warnings: tuple[str, ...]

    @property
    def is_heard(self) -> bool:
        if self.level is None:
            return self.access != "none"
        return bool(self.level.values.max(initial=-np.inf) >= SILENT_DB)

    def notes(self, note: str = "") -> tuple[str, ...]:
        silent = "the sound track is silent" if self.level is not None and not self.is_heard else ""
        return tuple(each for each in (silent, note, *self.warnings) if each)


@dataclass(frozen=True, slots=True, eq=False)
class Heard(Listened):
    """About 360 kB per hour."""

    recording: Recording
    frontline: str
    scores: Track
    """One per step of the 25 Hz clock, float32."""
    level: Track | None
    """In dB; None if no sound was read."""
    access: str
    """`index` or `demux`; `none` if the file was not read."""
    bytes_read: int
    seconds: float
    warnings: tuple[str, ...] = ()
    from_cache: bool = False

    def compact(self) -> Heard:
        """A copy without scores, with the level at the resolution of a drawing; 40 kB per hour."""
        level = None if self.level is None else self.level.sketched()
        return replace(self, scores=SILENCE, level=level)


@dataclass(frozen=True, slots=True)
class Failed:
    path: str
    error: str


Progress = Callable[[float], None]

Beside = Callable[[Recording, Iterable[Sound]], Iterator[Sound]]
"""Yields the sound unchanged: blocks at 16,000 samples per second from the beginning."""


def listen(
    recording: Recording,
    frontline: Frontline,
    *,
    progress: Progress | None = None,
    beside: Beside | None = None,
) -> Heard:
    """`beside` reads the same sound, at 16,000 samples per second.

    The scores are all 0 if nothing was heard. No video frame is decoded.
    """
    began, meter, powers = time.perf_counter(), Meter(), list[FloatArray]()
    if isinstance(frontline.encoder, SoundEncoder):
        sample_rate = frontline.encoder.sample_rate
        sound = measure_power(recording.sound(sample_rate=sample_rate, meter=meter), powers)
        if beside is not None and sample_rate == SAMPLE_RATE:
            sound = beside(recording, sound)
        scored = frontline.scorer(frontline.encoder.encode(sound))
    else:
        scored = frontline(recording, meter=meter)
    pieces: list[FloatArray] = []
    for track in scored:
        pieces.append(np.asarray(track.values, dtype=np.float32))
        if progress is not None:
            progress(track.start + track.duration)
    scores = np.concatenate(pieces or [np.zeros(0, np.float32)])
    level = level_track(powers)
    heard = Heard(
        recording=recording,
        frontline=frontline.name,
        scores=Track(scores),
        level=level,
        access=meter.access or recording.access,
        bytes_read=meter.bytes_read,
        seconds=time.perf_counter() - began,
        warnings=tuple(_warnings(recording, meter, has_listened=level is not None)),
    )
    if heard.is_heard:
        return heard
    # Scores of a silent sound track carry no information.
    return replace(heard, scores=Track(np.zeros_like(scores)))


def listen_to_any(
    recording: Recording,
    frontline: Frontline,
    *,
    progress: Progress | None = None,
    beside: Beside | None = None,
) -> Heard:
    """If track 0 is silent, listen to the first that is not; without sound the scores are empty."""
    try:
        first = listen(recording, frontline, progress=progress, beside=beside)
    except NoAudioStream:
        warnings = tuple(list_warnings(recording))
        first = Heard(recording, frontline.name, SILENCE, None, "none", 0, 0.0, warnings)
    others = () if recording.audio_track else range(1, len(recording.audio_tracks))
    for track in () if first.is_heard else others:
        other = replace(recording, audio_track=track)
        with suppress(MediaError):  # a damaged track counts as silent
            heard = listen(other, frontline, progress=progress, beside=beside)
            if heard.is_heard:
                warning = f"audio track 0 is silent, so track {track} was listened to"
                return replace(heard, warnings=(warning, *heard.warnings))
    return first


def look_instead(heard: Heard, fallback: Frontline) -> Heard:
    """If packet sizes hardly differ, as with a constant bit rate, only a warning is added."""
    try:
        seen = listen(heard.recording, fallback)
    except MediaError:
        return heard
    if not _varies(seen.scores):
        return replace(heard, warnings=(*heard.warnings, MOTION_TOO_EVEN))
    warnings = (*heard.warnings, INSTEAD)
    read = heard.bytes_read + seen.bytes_read
    return replace(
        heard, frontline=fallback.name, scores=seen.scores, bytes_read=read, warnings=warnings
    )


def _varies(motion: Track, *, block: float = 4.0) -> bool:
    steps = round(block / motion.hop)
    whole = len(motion) // steps * steps
    means = motion.values[:whole].reshape(-1, steps).mean(axis=1)
    if len(means) < 2:
        return False
    low, high = np.quantile(means, (0.1, 0.9))
    return bool(high - low >= MIN_MOTION_RANGE)


def _warnings(recording: Recording, meter: Meter, *, has_listened: bool) -> Iterator[str]:
    if recording.has_audio:
        yield from list_warnings(recording)
    damaged = f"{meter.damaged_packets} damaged packet{'s' * (meter.damaged_packets != 1)}"
    if meter.damaged_packets and has_listened:
        yield f"{damaged} of sound, treated as silence"
    elif meter.damaged_packets:
        yield f"{damaged} of video, skipped"
    elif meter.missing > MIN_REPORTED_SECONDS:
        yield f"gaps in the sound, {meter.missing:.1f} s in all, treated as silence"
    if meter.overlap > MIN_REPORTED_SECONDS:
        yield (
            f"{meter.overlap:.1f} s of sound repeat earlier times and are left out; "
            "remux the file if it was joined from several"
        )


def measure_power(sound: Iterable[Sound], powers: list[FloatArray]) -> Iterator[Sound]:
    rest, cell = np.zeros(0, dtype=np.float32), 1
    for block in sound:
        cell = round(LEVEL_HOP * block.sample_rate)
        samples = np.concatenate([rest, block.values])
        cells = samples[: len(samples) // cell * cell].reshape(-1, cell)
        powers.append(np.einsum("ij,ij->i", cells, cells) / cell)
        rest = samples[cells.size :]
        yield block
    cells = np.pad(rest, (0, -len(rest) % cell)).reshape(-1, cell)  # padded with silence
    powers.append(np.einsum("ij,ij->i", cells, cells) / cell)


def level_track(powers: Sequence[FloatArray]) -> Track | None:
    """In dB, from what `measure_power` has collected; None without any sound."""
    power = np.concatenate(powers) if powers else np.zeros(0)
    return Track(decibels(np.sqrt(power)), hop=LEVEL_HOP) if len(power) else None


@dataclass(frozen=True, slots=True)
class ScoreCache:
    """One file for each media content, audio track and frontline.

    A renamed recording is found again, a changed one is not. Damaged entries count as missing.
    """

    folder: Path

    def find(self, source: Source, frontline: Frontline, *, audio_track: int) -> Heard | None:
        path = self._path(content_key(source), frontline, audio_track)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
                facts = json.loads(str(kept["facts"]))
                level = kept["level"] if facts["has_level"] else None
                scores = kept["scores"]
        except (FileNotFoundError, *DAMAGE):
            return None
        except OSError as error:
            raise self._unusable(error) from error
        return Heard(
            recording=Recording.from_json(facts["recording"], source),
            frontline=frontline.name,
            scores=Track(scores),
            level=None if level is None else Track(level, hop=LEVEL_HOP),
            warnings=tuple(facts["warnings"]),
            from_cache=True,
            **{name: facts[name] for name in CACHED_FACTS},
        )

    def keep(self, heard: Heard, frontline: Frontline, *, audio_track: int = 0) -> None:
        facts = {
            "recording": heard.recording.to_json(),
            "has_level": heard.level is not None,
            "warnings": heard.warnings,
            **{name: getattr(heard, name) for name in CACHED_FACTS},
        }
        level = np.zeros(0) if heard.level is None else heard.level.values
        path = self._path(heard.recording.key, frontline, audio_track)
        try:
            with replacing(path) as scratch:
                np.savez(
                    scratch,
                    facts=np.array(json.dumps(facts)),
                    scores=heard.scores.values,
                    level=level.astype(np.float32),
                )
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> EarmarkError:
        return EarmarkError(
            f"scores cannot be cached in {self.folder} ({error.strerror}); "
            "set `cache` to another folder, or to none"
        )

    def _path(self, key: str, frontline: Frontline, audio_track: int) -> Path:
        listener = f"{CACHE_LAYOUT} {audio_track} {frontline.encoder!r} {frontline.scorer!r}"
        return content_file(self.folder, key, f"{key} {listener}", ".npz")


def listen_cached(
    source: Source,
    frontline: Frontline,
    cache: ScoreCache | None,
    *,
    audio_track: int = 0,
    on_seconds: Callable[[float, float], None] | None = None,
    beside: Beside | None = None,
) -> Heard:
    """If all tracks are silent, the fallback of `frontline` is used.

    `on_seconds` gets the seconds processed so far and the total. Neither it nor `beside` is called
    if the cache has the result.
    """
    if isinstance(frontline.encoder, NoEncoder):
        recording = open_recording(source, audio_track=audio_track)
        return Heard(recording, frontline.name, SILENCE, None, "none", 0, 0.0)
    heard = cache.find(source, frontline, audio_track=audio_track) if cache else None
    if heard is None:
        recording = open_recording(source, audio_track=audio_track)
        length = recording.duration
        progress = None if on_seconds is None else lambda now: on_seconds(now, length)
        heard = listen_to_any(recording, frontline, progress=progress, beside=beside)
        if cache is not None and heard.access != "none":
            cache.keep(heard, frontline, audio_track=audio_track)
    if frontline.fallback and not heard.is_heard:
        return look_instead(heard, frontline_named(frontline.fallback))
    return heard


def cache_at(folder: Path | None, no_cache: bool) -> ScoreCache | None:
    if no_cache:
        return None
    return ScoreCache(folder or cache_folder())
