"""How likely sounds that a question means are heard in each window of a recording.

By the names of a network that follows sounds (YAMNet), and by queries in the user's own words where
an open-vocabulary model is at hand (DASM).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from earmark.evidence.sound_listener import SoundListener
from earmark.evidence.sound_query import SoundMatch, match_sounds
from earmark.evidence.sound_track import SoundTrack
from earmark.features.pretrained.query_encoder import QueryEncoder
from earmark.media import Meter, Recording
from earmark.models import ModelStore
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.timeline import FloatArray, Track


class SoundFinder(Protocol):
    """Hears recordings for the sounds a question means; can be pickled."""

    @property
    def matches(self) -> Mapping[str, SoundMatch]:
        """The sounds that are meant, by name; none where it knows none."""
        ...

    def __call__(self, recording: Recording) -> FloatArray:
        """How likely any of them is in each window, and one value more."""
        ...


@dataclass(frozen=True, slots=True)
class NamedSounds:
    """The sounds that a network has names for; what was heard before is not heard again."""

    listener: SoundListener
    matches: Mapping[str, SoundMatch]
    length: float
    """Seconds of a window."""

    def __call__(self, recording: Recording) -> FloatArray:
        """How likely any of them is in each window."""
        weights = _weights(self.listener.encoder.classes, self.matches)
        return on_windows(self.listener(recording), weights, self.length)


@dataclass(frozen=True, slots=True)
class QueriedSounds:
    """The sounds that the user's model of queries listens for."""

    encoder: QueryEncoder
    matches: Mapping[str, SoundMatch]
    length: float
    """Seconds of a window."""

    def __call__(self, recording: Recording) -> FloatArray:
        """How likely any of them is in each window."""
        weights = _weights(self.encoder.classes, self.matches)
        found = np.zeros(int(np.ceil(recording.duration / self.length)) + 1)
        for track in self.encoder(recording, meter=Meter()):
            likely = (weights / (1 + np.exp(-track.values))).max(axis=1)
            _spread(Track(likely, hop=track.hop, start=track.start), self.length, found)
        return found


def sound_finders(
    question: str,
    listener: SoundListener | None,
    *,
    length: float,
    meaning: SentenceEncoder | None,
    store: ModelStore,
) -> Iterator[SoundFinder]:
    """All that can hear the sounds `question` means, in windows of so many seconds."""
    if listener is not None:
        matches = match_sounds(question, listener.encoder.classes, meaning)
        yield NamedSounds(listener, matches, length)
    if all(store.state(name) == "here" for name in ("dasm", "dasm-queries")):
        encoder = QueryEncoder(store=str(store.folder))
        yield QueriedSounds(encoder, match_sounds(question, encoder.classes, meaning), length)


def on_windows(track: SoundTrack, weights: FloatArray, length: float) -> FloatArray:
    """The strongest of the weighted sounds in each window of so many seconds."""
    cells = track.strongest(weights)
    return _spread(cells, length, np.zeros(int(np.ceil(cells.duration / length)) + 1))


def _spread(rows: Track, length: float, found: FloatArray) -> FloatArray:
    """`found` with the greatest of `rows` in each window; a row may reach into two."""
    places = rows.start + np.arange(len(rows)) * rows.hop
    for edge in (places, places + rows.hop - 1e-9):
        inside = np.minimum((edge / length).astype(int), len(found) - 1)
        np.maximum.at(found, inside, rows.values)
    return found


def _weights(names: tuple[str, ...], matches: Mapping[str, SoundMatch]) -> FloatArray:
    return np.array([matches[name].weight if name in matches else 0.0 for name in names])
