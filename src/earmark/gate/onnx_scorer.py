"""Scores from an exported head, a stretch at a time, with ONNX Runtime on one thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from earmark.errors import ModelMismatch
from earmark.models.onnx_session import shared_session
from earmark.timeline import CLOCK_RATE, HOP, FloatArray, Track

BLOCKS = 4
"""Contexts that are scored at once, so that little is scored twice."""


@dataclass(frozen=True, slots=True)
class OnnxScorer:
    """A scorer whose head is an ONNX graph from `features` (1, steps, channels) to `scores`.

    The graph reads whole seconds, counted from the first row; a last one that is cut short is
    taken to last on as it ends.
    """

    digest: str
    """SHA-256 of the weights; what tells one scorer from another."""
    encoder: str
    """Name of the encoder whose features it was trained on, for messages."""
    channels: int
    context: int
    """Steps on each side that a score depends on; whole seconds."""
    weights: bytes = field(repr=False, compare=False)

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        """The scores of `features`, in order.

        Every stretch is scored together with `context` steps on both sides of it, so where the
        features are cut does not show:

            rows     ...[context|  scored now  |context]
            next                         [context|  scored next  |context]...

        Raises:
            ModelMismatch: other features than the head was made for, or some that are not numbers.
        """
        shared_session(self.weights)  # opened while the first sound is decoded
        kept = np.zeros((0, self.channels), dtype=np.float32)
        before, start = 0, 0.0  # of `kept`, rows that are context; the time of the row after them
        for count, track in enumerate(features):
            start = track.start if count == 0 else start
            kept = np.concatenate([kept, self._rows(track)])
            ready = len(kept) - before - self.context
            ready -= ready % CLOCK_RATE
            if ready >= BLOCKS * max(self.context, CLOCK_RATE):
                yield Track(self._score(kept)[before : before + ready], start=start)
                start += ready * HOP
                drop = max(0, before + ready - self.context)
                kept, before = kept[drop:], before + ready - drop
        if len(kept) > before:
            yield Track(self._score(kept)[before:], start=start)

    def score_whole(self, features: FloatArray) -> FloatArray:
        """The scores of one whole recording, `(steps,)`."""
        return np.concatenate([track.values for track in self([Track(features)])])

    def _score(self, rows: FloatArray) -> FloatArray:
        """The scores of `rows`, `(steps, channels)`, as if nothing lay around them."""
        whole = np.pad(rows, ((0, -len(rows) % CLOCK_RATE), (0, 0)), mode="edge")
        scores: FloatArray = shared_session(self.weights).run(None, {"features": whole[None]})[0][0]
        return scores[: len(rows)]

    def _rows(self, track: Track) -> FloatArray:
        """The features of `track` as the head takes them, `(steps, channels)`."""
        rows = track.values if track.values.ndim == 2 else track.values[:, None]
        width = rows.shape[1]
        if width != self.channels or abs(track.hop - HOP) > 1e-9:
            raise ModelMismatch(
                f"this gate wants the {self.channels} channels of {self.encoder} every {HOP:g} s "
                f"and got {width} every {track.hop:g} s; give it the encoder it was trained with"
            )
        if not np.isfinite(rows).all():
            bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ModelMismatch(
                f"the features at {track.time_of(bad):.2f} s are not finite numbers, so they "
                f"cannot be scored; check the encoder ({self.encoder})"
            )
        return rows.astype(np.float32, copy=False)
