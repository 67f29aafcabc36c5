"""Names the sounds in whole recordings, and lists all of them or those that words mean.

paths ──▶ name the sounds ──▶ events ──▶ SoundListing
              └── cache         └── those that the words mean
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Unpack

from earmark.errors import EarmarkError, NoAudioStream
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_names import sound_namer
from earmark.evidence.sound_query import SoundMatch, match_sounds
from earmark.evidence.sound_track import SoundListener
from earmark.gate.frontline import energy_frontline
from earmark.gate.listener import Failed, listen_to_any
from earmark.media import Source, open_recording
from earmark.media.recording import list_warnings
from earmark.media.source import place_of
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.backend import open_backend, tell_seconds
from earmark.pipeline.session import Choices, Paths, Session, open_session
from earmark.report.progress import Progress
from earmark.settings import Settings
from earmark.text_format import Heading, Table, TextLine, counted, format_length, format_notes
from earmark.timeline import Span, format_clock


@dataclass(frozen=True, slots=True)
class RecordingSounds:
    path: str
    duration: float
    events: tuple[EvidenceEntry, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        events = [
            {
                "start": round(event.span.start, 2),
                "end": round(event.span.end, 2),
                "sound": event.text,
                "confidence": round(event.confidence, 3),
            }
            for event in self.events
        ]
        duration = round(self.duration, 3)
        return {"path": self.path, "duration": duration, "sounds": events, "notes": [*self.notes]}


@dataclass(frozen=True, slots=True)
class SoundListing:
    """The named sounds of several recordings."""

    words: str
    matches: Mapping[str, SoundMatch]
    """By name; empty if all sounds are listed."""
    recordings: tuple[RecordingSounds, ...]
    """In the order given; also those without a sound."""
    failures: tuple[Failed, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Weights and times rounded to 3 digits."""
        return {
            "words": self.words or None,
            "matches": [
                {"sound": match.name, "weight": round(match.weight, 3), "reason": match.reason}
                for match in self.matches.values()
            ],
            "recordings": [recording.to_json() for recording in self.recordings],
            "failures": [asdict(failed) for failed in self.failures],
        }

    def table(self) -> Table:
        rows = [
            (recording.path, *_bounds(event.span, 2), event.text, f"{event.confidence:.3f}")
            for recording in self.recordings
            for event in recording.events
        ]
        return Table(("recording", "start", "end", "sound", "confidence"), rows)

    def labels(self) -> str:
        """A label track for Audacity; `ValueError` if there are several recordings."""
        if len(self.recordings) > 1:
            raise ValueError("a label track is of one recording: give one, or use --format csv")
        events = [event for recording in self.recordings for event in recording.events]
        return "".join("\t".join((*_bounds(event.span, 3), event.text)) + "\n" for event in events)

    def lines(self) -> Iterator[TextLine]:
        none = "no such sound" if self.words else "no sound with a name"
        columns = ("start", "end", "sound", "confidence", *(("why",) if self.words else ()))
        for recording in self.recordings:
            what = counted(len(recording.events), "sound") if recording.events else none
            length = format_length(recording.duration)
            yield Heading(f"{place_of(recording.path)}: {what} in {length}")
            rows = []
            for event in recording.events:
                reason = (self.matches[event.text].reason or "its name",) if self.words else ()
                times = format_clock(event.span.start), format_clock(event.span.end)
                rows.append((*times, event.text, f"{event.confidence:.2f}", *reason))
            if rows:
                yield Table(columns, rows, words=("sound", "why"))

    def warnings(self) -> list[str]:
        return format_notes((item.path, note) for item in self.recordings for note in item.notes)


def _bounds(span: Span, digits: int) -> tuple[str, str]:
    return f"{span.start:.{digits}f}", f"{span.end:.{digits}f}"


def sounds(
    paths: Paths = (),
    words: str = "",
    *,
    settings: Settings | Session | None = None,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> SoundListing:
    """All named sounds of the recordings at `paths`, or those that `words` mean.

    The word `drill` also finds power tools. The other arguments are those of `select`.

    Raises:
        ModelMissing: No network that names sounds is here. The error of a recording is not raised
            but listed.
    """
    plan = open_session(paths, settings, **choices)
    cache = plan.listening.cache
    namer = sound_namer(True, cache.folder if cache else None, store=plan.store)
    listener = namer.listener if namer else None
    assert listener is not None, "it is wanted"
    names = listener.encoder.classes
    matches = match_sounds(words, names, SentenceEncoder.if_available(plan.store))
    sources, now = plan.sources(), progress or Progress()
    now.recordings = len(sources)
    now.enter("listening")
    with open_backend(plan.settings.backend, len(sources)) as backend:
        backend.on_seconds = now.at
        work = partial(_hear, listener=listener, track=plan.listening.audio_track)
        results = {}
        for source, result in backend.map(work, sources):
            results[source] = result
            now.heard += 1
            heard = 0.0 if isinstance(result, EarmarkError) else result.duration
            now.advance(heard, source.name)
    recordings, failures = [], []
    for source in sources:
        result = results[source]
        if isinstance(result, EarmarkError):
            failures.append(Failed(source.path, str(result)))
            continue
        events = (event for event in result.events if not words or event.text in matches)
        recordings.append(replace(result, events=tuple(events)))
    return SoundListing(words, matches, tuple(recordings), tuple(failures))


def _hear(source: Source, *, listener: SoundListener, track: int) -> RecordingSounds:
    """If track 0 is silent, the first track that is not."""
    recording = open_recording(source, audio_track=track)
    if not recording.has_audio:
        raise NoAudioStream(f"{source.name} has no audio stream, so it has no sounds to name")
    on_seconds = partial(tell_seconds, source.name)
    heard, notes = listener(recording, on_seconds=on_seconds), tuple(list_warnings(recording))
    if not len(heard.cells) and len(recording.audio_tracks) > 1:
        audible = listen_to_any(recording, energy_frontline())
        notes = audible.notes()
        if audible.recording.audio_track != track:
            heard = listener(audible.recording, on_seconds=on_seconds)
    if len(source.uris) > 1:
        notes = (f"{len(source.uris)} files: times count from the start of the first", *notes)
    return RecordingSounds(source.path, recording.duration, tuple(heard.events()), notes)
