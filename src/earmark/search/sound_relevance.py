"""Probability of the sounds that a question asks for, in each window of a recording.

From the named sounds of a sound classifier (YAMNet), and from queries in the user's own words if an
open-vocabulary model is installed (DASM).
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
    """Evidence in the sound for a question: one value per window of a recording, and one more."""

    likely: FloatArray
    """Highest probability of a sound times how well it matches the question; 0 for none."""
    hints: FloatArray
    """Mean log odds of all sounds, weighted by how similar each is to the question."""


@dataclass(frozen=True, slots=True)
class SoundFinder(ABC):
    """Searches recordings for the sounds that a question asks for; can be pickled."""

    matches: Mapping[str, SoundMatch]
    """The sounds asked for, by name; empty if the model knows none of them."""
    weights: FloatArray
    """For each sound of the model, how well it matches the question, from 0 to 1."""
    shares: FloatArray
    """Weight of each sound by similarity to the question; all 0 without a sentence encoder."""
    length: float
    """Seconds per window."""

    @abstractmethod
    def __call__(self, recording: Recording) -> Relevance:
        """The relevance of each window of `recording`."""


@dataclass(frozen=True, slots=True)
class NamedSounds(SoundFinder):
    """The named sounds of a classifier; a track that is already stored is not computed again."""

    listener: SoundListener

    def __call__(self, recording: Recording) -> Relevance:
        """The relevance of each window of `recording`."""
        return self.in_track(self.listener(recording))

    def in_track(self, track: SoundTrack) -> Relevance:
        """The relevance of each window of a recording with this sound track."""
        rows = track.strongest(self.weights), track.mean_logits(self.shares)
        empty = _empty(rows[0].duration, self.length)
        for row, found in zip(rows, empty, strict=True):
            _raise_to_highest(row, self.length, found)
        return empty


@dataclass(frozen=True, slots=True)
class QueriedSounds(SoundFinder):
    """The sounds that the user's open-vocabulary model detects."""

    encoder: QueryEncoder

    def __call__(self, recording: Recording) -> Relevance:
        """The relevance of each window of `recording`."""
        found = _empty(recording.duration, self.length)
        for track in self.encoder(recording, meter=Meter()):
            likely = (self.weights / (1 + np.exp(-track.values))).max(axis=1)
            hints = track.values @ self.shares
            for values, row in ((likely, found.likely), (hints, found.hints)):
                _raise_to_highest(Track(values, hop=track.hop, start=track.start), self.length, row)
        return found


def sound_finders(
    question: str,
    listener: SoundListener | None,
    *,
    length: float,
    meaning: SentenceEncoder | None,
    store: ModelStore,
) -> Iterator[SoundFinder]:
    """The available detectors of the sounds `question` asks for, in windows of `length` seconds."""

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


def _raise_to_highest(rows: Track, length: float, found: FloatArray) -> None:
    """Raise `found` to the highest of `rows` in each window; a row may overlap two windows."""
    places = rows.start + np.arange(len(rows)) * rows.hop
    for edge in (places, places + rows.hop - 1e-9):
        inside = np.minimum((edge / length).astype(int), len(found) - 1)
        np.maximum.at(found, inside, rows.values)
