"""Naming sounds wherever there is room: a recording and its picks out, words back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from earmark.distributed.backend import Backend
from earmark.evidence.sound_names import Named, SoundNamer
from earmark.media import Recording
from earmark.timeline import Span


@dataclass(frozen=True, slots=True)
class WorkItem:
    """The spans of one recording whose sounds want names."""

    place: int
    """Among those asked for together."""
    recording: Recording
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return self.recording.source.uris[0]


@dataclass(frozen=True, slots=True)
class Name:
    """The work of a worker; holds no state."""

    namer: SoundNamer

    def __call__(self, errand: WorkItem) -> Named:
        """The names of each span."""
        return self.namer(errand.recording, errand.spans)


@dataclass(frozen=True, slots=True)
class ManyNamers:
    """Names sounds on an engine; see `earmark.evidence.sound_names.Namer`."""

    engine: Backend
    namer: SoundNamer

    @property
    def model(self) -> str:
        """The namer's own."""
        return self.namer.model

    def __call__(self, recording: Recording, spans: Sequence[Span]) -> Named:
        """The names of the sounds of one recording, in this process."""
        return self.namer(recording, spans)

    def each(self, wanted: Sequence[tuple[Recording, Sequence[Span]]]) -> list[Named]:
        """The names of the spans of each recording; what is remembered here is not asked for."""
        named = [self.namer.recall(recording, spans) for recording, spans in wanted]
        errands = [
            WorkItem(place, recording, tuple(spans))
            for place, (recording, spans) in enumerate(wanted)
            if named[place] is None
        ]
        for outcome in self.engine.run(Name(self.namer), errands):
            if outcome.value is None:
                assert outcome.failure is not None, "an outcome is a value or a failure"
                raise outcome.failure
            named[outcome.item.place] = outcome.value
            self.namer.learn(outcome.item.recording, outcome.value)
        return [one for one in named if one is not None]
