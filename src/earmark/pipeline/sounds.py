"""Names the sounds in whole recordings, and lists all of them or those that words mean.

paths ──▶ name the sounds ──▶ events ──▶ SoundListing
              └── cache         └── those that the words mean
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from earmark.errors import EarmarkError, NoAudioStream
from earmark.evidence.sound_listener import SoundListener
from earmark.evidence.sound_names import sound_namer
from earmark.evidence.sound_query import SoundMatch, match_sounds
from earmark.evidence.sound_track import SoundEvent
from earmark.gate.energy_frontline import energy_frontline
from earmark.gate.listener import Failed, listen_to_any
from earmark.media import Source, open_recording
from earmark.media.recording_warnings import list_warnings
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.backend import open_backend
from earmark.pipeline.run_plan import Paths, Plan, make_plan
from earmark.reporting.progress import Progress


@dataclass(frozen=True, slots=True)
class RecordingSounds:
    """The named sounds of one recording."""

    path: str
    duration: float
    events: tuple[SoundEvent, ...]
    """In order of time."""
    notes: tuple[str, ...] = ()
    """Problems of the recording or its sound, a line each."""


@dataclass(frozen=True, slots=True)
class SoundListing:
    """The named sounds of several recordings."""

    words: str
    """What was searched for; empty if all sounds are listed."""
    matches: Mapping[str, SoundMatch]
    """The sounds that the words mean, by name; empty if all sounds are listed."""
    recordings: tuple[RecordingSounds, ...]
    """In the order in which they were given; also those without a sound."""
    failures: tuple[Failed, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The listing as values for JSON; weights and times rounded to 3 digits."""
        return {
            "words": self.words or None,
            "matches": [
                {"sound": each.name, "weight": round(each.weight, 3), "reason": each.reason}
                for each in self.matches.values()
            ],
            "recordings": [
                {
                    "path": one.path,
                    "duration": round(one.duration, 3),
                    "sounds": [event.to_json() for event in one.events],
                    "notes": list(one.notes),
                }
                for one in self.recordings
            ],
            "failures": [{"path": one.path, "error": one.error} for one in self.failures],
        }


def sounds(
    paths: Paths = (),
    words: str = "",
    *,
    plan: Plan | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> SoundListing:
    """All named sounds of the recordings at `paths`, or those that `words` mean.

    Args:
        paths: Files, folders, globs and addresses; those of the plan if not given.
        words: What to search for: `drill` also finds power tools. Empty lists all sounds.
        plan: Every choice; or give them one by one as `choices`, see `make_plan`.
        progress: Updated while listening.
        choices: See `make_plan`: `cache`, `audio_track`, `workers`, …

    Raises:
        ModelMissing: YAMNet is not here. The error of a recording is not raised but listed.
    """
    plan = make_plan(paths, plan, **choices)
    cache = plan.listening.cache
    namer = sound_namer(True, cache.folder if cache else None, store=plan.store)
    listener = namer.listener if namer else None
    if listener is None:  # this network cannot track sounds; raises if YAMNet is missing
        plan.store.find("yamnet")
    assert listener is not None, "it is wanted"
    names = listener.encoder.classes
    matches = match_sounds(words, names, SentenceEncoder.if_available(plan.store))
    sources, now = plan.sources(), progress or Progress()
    now.update(recordings=len(sources))
    with open_backend(plan.backend, len(sources)) as backend:
        shared = now if backend.shares_memory else None
        work = partial(_hear, listener=listener, track=plan.listening.audio_track, progress=shared)
        found = {}
        for source, one in backend.map(work, sources):
            found[source] = one
            now.update(heard=now.heard + 1)
    heard = [one for one in (found[each] for each in sources) if isinstance(one, RecordingSounds)]
    return SoundListing(
        words,
        matches,
        tuple(_only(one, matches) if words else one for one in heard),
        tuple(
            Failed(source.path, str(found[source]))
            for source in sources
            if isinstance(found[source], EarmarkError)
        ),
    )


def _only(one: RecordingSounds, matches: Mapping[str, SoundMatch]) -> RecordingSounds:
    return replace(one, events=tuple(event for event in one.events if event.name in matches))


def _hear(
    source: Source, *, listener: SoundListener, track: int, progress: Progress | None
) -> RecordingSounds:
    """The named sounds of one recording, computed by a worker; `MediaError` if it has no audio.

    If track 0 is silent, they are those of the first track that is not.
    """
    recording = open_recording(source, audio_track=track)
    if not recording.has_audio:
        raise NoAudioStream(f"{source.name} has no audio stream, so no sound of it has a name")
    on_seconds = progress.at(source.name) if progress else None
    heard, notes = listener(recording, on_seconds=on_seconds), tuple(list_warnings(recording))
    if not len(heard.cells) and len(recording.audio_tracks) > 1:
        audible = listen_to_any(recording, energy_frontline())
        notes = audible.notes()
        if audible.recording.audio_track != track:
            heard = listener(audible.recording, on_seconds=on_seconds)
    if len(source.uris) > 1:
        notes = (f"{len(source.uris)} files: times count from the start of the first", *notes)
    return RecordingSounds(source.path, recording.duration, tuple(heard.events()), notes)
