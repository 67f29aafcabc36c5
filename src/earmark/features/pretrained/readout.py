"""What is made of a model's posteriors: features for a gate, or a detector by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from earmark.features.pretrained.vocabulary import kept_classes, not_manipulation
from earmark.timeline import FloatArray

SUREST = 1e-7
"""Posteriors nearer to 0 or 1 than this count as this near: logits lie within 16.2 of 0."""

OUTPUTS = ("posteriors", "embeddings")
"""What of a model may be read."""


class Reading(Protocol):
    """Turns the rows of a model into features."""

    @property
    def output(self) -> str:
        """Which rows it reads: one of `OUTPUTS`."""
        ...

    @property
    def drop_layers(self) -> int:
        """How many of a transformer's last layers are left out."""
        ...

    def channels(self, width: int) -> int:
        """Values in each row of features, where the model gives `width`."""
        ...

    def __call__(self, rows: FloatArray, classes: Sequence[str]) -> FloatArray:
        """The features of `rows`, `(steps, width)`."""
        ...


@dataclass(frozen=True, slots=True)
class Logits:
    """The posteriors in logit space: what the paper's gate reads. Nothing is thresholded.

    Most classes are nearly always absent, so that the values lie around -10; a gate brings them
    to 0 by what it measured on its own training recordings.
    """

    @property
    def output(self) -> str:
        """The posteriors, averaged where chunks overlap."""
        return "posteriors"

    @property
    def drop_layers(self) -> int:
        """None: the head was trained on the last layer."""
        return 0

    def channels(self, width: int) -> int:
        """One a class."""
        return width

    def __call__(self, rows: FloatArray, classes: Sequence[str]) -> FloatArray:  # noqa: ARG002
        """`log(p / (1 - p))` of every posterior."""
        return logit(rows)


@dataclass(frozen=True, slots=True)
class Activity:
    """A detector without a gate: how sure it is of any class that hands may have to do with."""

    threshold: float = 0.0
    """Posteriors below this count as 0."""
    excluded: tuple[str, ...] | None = None
    """Names of the classes that do not count; None for the documented list."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold < 1.0:
            raise ValueError(f"a threshold on posteriors is 0 to 1, not {self.threshold}")

    @property
    def output(self) -> str:
        """The posteriors, averaged where chunks overlap."""
        return "posteriors"

    @property
    def drop_layers(self) -> int:
        """None: the head was trained on the last layer."""
        return 0

    def channels(self, width: int) -> int:  # noqa: ARG002
        """One, whichever class it was."""
        return 1

    def __call__(self, rows: FloatArray, classes: Sequence[str]) -> FloatArray:
        """The greatest posterior of each row, `(steps,)`."""
        excluded = not_manipulation() if self.excluded is None else frozenset(self.excluded)
        most = rows[:, kept_classes(classes, excluded)].max(axis=1)
        activity: FloatArray = np.where(most >= self.threshold, most, 0.0).astype(np.float32)
        return activity


@dataclass(frozen=True, slots=True)
class Embeddings:
    """What the head would have read, for a gate that learns its own."""

    drop_layers: int = 0
    """Leave out so many of a transformer's last layers.

    Two fewer transferred better in the authors' own tables, for BEATs and for ATST-Frame.
    """

    @property
    def output(self) -> str:
        """The rows beneath the head."""
        return "embeddings"

    def channels(self, width: int) -> int:
        """As many as the model is wide."""
        return width

    def __call__(self, rows: FloatArray, classes: Sequence[str]) -> FloatArray:  # noqa: ARG002
        """The rows as they are."""
        return rows


def logit(posteriors: FloatArray) -> FloatArray:
    """`log(p / (1 - p))`, within 16.2 of 0."""
    sure = np.clip(posteriors, SUREST, 1.0 - SUREST).astype(np.float64)
    return (np.log(sure) - np.log1p(-sure)).astype(np.float32)


def max_pooled(rows: FloatArray, steps: int) -> FloatArray:
    """The greatest of the rows that touch each of `steps`, along the last axis but one.

    rows   a   b   c   d   e   f          steps  max(a,b)  max(b,c) ...
    """
    count = rows.shape[-2]
    edges = np.arange(steps + 1) * count
    first, end = edges[:-1] // steps, -(-edges[1:] // steps)
    return np.stack(
        [rows[..., a:b, :].max(axis=-2) for a, b in zip(first, end, strict=True)], axis=-2
    )
