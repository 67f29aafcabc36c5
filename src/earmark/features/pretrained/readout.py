"""What is made of a model's posteriors: features for a gate, or a detector by themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from earmark.features.pretrained.vocabulary import kept_classes, not_manipulation
from earmark.timeline import FloatArray

SUREST = 1e-7
"""Posteriors nearer to 0 or 1 than this count as this near: logits lie within 16.2 of 0."""


def check_threshold(threshold: float) -> None:
    """`ValueError` unless `threshold` is one for posteriors."""
    if not 0.0 <= threshold < 1.0:
        raise ValueError(f"a threshold on posteriors is 0 to 1, not {threshold}")


def strongest(
    rows: FloatArray,
    classes: Sequence[str],
    *,
    threshold: float = 0.0,
    excluded: Sequence[str] | None = None,
) -> FloatArray:
    """The greatest posterior of each row, `(steps,)`, of any class that hands may have to do with.

    Posteriors, `(steps, classes)`, below `threshold` count as 0, and so do `excluded` classes; None
    for the documented list.
    """
    names = not_manipulation() if excluded is None else frozenset(excluded)
    most = rows[:, kept_classes(classes, names)].max(axis=1)
    return np.where(most >= threshold, most, 0.0).astype(np.float32)


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
    spans = zip(edges[:-1] // steps, -(-edges[1:] // steps), strict=True)
    return np.stack([rows[..., first:end, :].max(axis=-2) for first, end in spans], axis=-2)
