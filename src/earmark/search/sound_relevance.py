"""How likely sounds that a question means are heard in each window of a recording.

By the names of a network that follows sounds (YAMNet), and by queries in the user's own words where
an open-vocabulary model is at hand (DASM).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from earmark.evidence.sound_listener import SoundListener
from earmark.evidence.sound_query import SoundMatch, match_sounds, similarity_weights
from earmark.evidence.sound_track import SoundTrack
from earmark.features.pretrained.query_encoder import QueryEncoder
from earmark.media import Meter, Recording
from earmark.models import ModelStore
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.timeline import FloatArray, Track


class Relevance(NamedTuple):
    """What is heard of a question in each window of a recording, and one value more."""

    likely: FloatArray
    """How likely any sound is that it means."""
    hints: FloatArray
    """Log odds of all sounds there are, weighed by how much of the question each means."""


@dataclass(frozen=True, slots=True)
class SoundFinder(ABC):
    """Hears recordings for the sounds a question means; can be pickled."""

    matches: Mapping[str, SoundMatch]
    """The sounds that are meant, by name; none where it knows none."""
    weights: FloatArray
    """How much each sound there is a name for is what is meant, from 0 to 1."""
    shares: FloatArray
    """How much each counts for what the question means; all 0 without a model of meaning."""
    length: float
    """Seconds of a window."""

    @abstractmethod
    def __call__(self, recording: Recording) -> Relevance:
        """What is heard of them in each window."""


@dataclass(frozen=True, slots=True)
class NamedSounds(SoundFinder):
    """The sounds that a network has names for; what was heard before is not heard again."""

    listener: SoundListener

    def __call__(self, recording: Recording) -> Relevance:
        """What is heard of them in each window."""
        return self.in_track(self.listener(recording))

    def in_track(self, track: SoundTrack) -> Relevance:
        """What is heard of them in each window of what was followed."""
        rows = track.strongest(self.weights), track.mean_logits(self.shares)
        empty = _empty(rows[0].duration, self.length)
        for row, found in zip(rows, empty, strict=True):
            _spread(row, self.length, found)
        return empty


@dataclass(frozen=True, slots=True)
class QueriedSounds(SoundFinder):
    """The sounds that the user's model of queries listens for."""

    encoder: QueryEncoder

    def __call__(self, recording: Recording) -> Relevance:
        """What is heard of them in each window."""
        found = _empty(recording.duration, self.length)
        for track in self.encoder(recording, meter=Meter()):
            likely = (self.weights / (1 + np.exp(-track.values))).max(axis=1)
            for values, own in ((likely, found.likely), (track.values @ self.shares, found.hints)):
                _spread(Track(values, hop=track.hop, start=track.start), self.length, own)
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

    def meant(names: tuple[str, ...]) -> tuple[Mapping[str, SoundMatch], FloatArray, FloatArray]:
        matches = match_sounds(question, names, meaning)
        weights = np.array([matches[name].weight if name in matches else 0.0 for name in names])
        shares = similarity_weights(question, names, meaning) if meaning else np.zeros(len(names))
        return matches, weights, shares

    if listener is not None:
        yield NamedSounds(*meant(listener.encoder.classes), length, listener)
    if all(store.state(name) == "here" for name in ("dasm", "dasm-queries")):
        encoder = QueryEncoder(store=str(store.folder))
        yield QueriedSounds(*meant(encoder.classes), length, encoder)


def _empty(duration: float, length: float) -> Relevance:
    count = int(np.ceil(duration / length)) + 1
    return Relevance(np.zeros(count), np.full(count, -np.inf))


def _spread(rows: Track, length: float, found: FloatArray) -> None:
    """Raises `found` to the greatest of `rows` in each window; a row may reach into two."""
    places = rows.start + np.arange(len(rows)) * rows.hop
    for edge in (places, places + rows.hop - 1e-9):
        inside = np.minimum((edge / length).astype(int), len(found) - 1)
        np.maximum.at(found, inside, rows.values)
