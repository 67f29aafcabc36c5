"""Training losses of a head: detect each action once, every step of it, or the rate of starts.

All read the same `Targets`, so features, crops, data order and seed are identical between them and
only the objective differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from earmark.timeline import HOP

LEAST_RATE = 1e-6
"""Added to intensities, in starts a second, to keep their logarithms finite."""

NEAR = 4.0
"""Seconds around an action that still belong to its bout of work."""


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Actions of a batch of crops; positions are indices into the flattened batch."""

    heard: Tensor
    """Whether a step is sound and not padding, `(batch, steps)`, bool."""
    active: Tensor
    """Whether a step lies in any action, `(batch, steps)`, bool."""
    inside: Tensor
    """Positions inside the actions, one action after the other, int64."""
    owner: Tensor
    """The action each of `inside` belongs to, counted through the batch, int64."""
    starts: Tensor
    """The position of each action start in a crop, int64; one for each start, even if equal."""

    @property
    def actions(self) -> int:
        """Number of actions in `inside`."""
        return int(self.owner[-1]) + 1 if len(self.owner) else 0


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "logistic": torch.sigmoid,
    "softplus": functional.softplus,
}
"""Functions from a logit to a score, by name."""


class Objective:
    """A loss over logits `(batch, steps)`, and the function from trained logits to scores."""

    __slots__ = ()
    activation: ClassVar[str] = "logistic"
    """One of `SCORES`."""

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        """The loss, a single number; finite for any finite logits, with or without actions."""
        raise NotImplementedError

    def score(self, logits: Tensor) -> Tensor:
        """The score of each step: at least 0, rising with the logit."""
        return SCORES[self.activation](logits)


@dataclass(frozen=True, slots=True)
class SpanObjective(Objective):
    """High somewhere in every action, low outside actions: the paper's coverage-aligned loss."""

    tau: float = 4.0
    """Sharpness of pooling: the higher, the closer to the largest logit of an action."""

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        """Cross-entropy of each action's pooled logit, plus that of the steps in no action."""
        pooled = pool_spans(logits, targets, self.tau)
        idle = logits[targets.heard & ~targets.active]
        return _mean(functional.softplus(-pooled)) + _mean(functional.softplus(idle))


@dataclass(frozen=True, slots=True)
class FrameObjective(Objective):
    """Classify every step as in an action or not: the usual loss, kept as a baseline."""

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        """Mean cross-entropy of all steps that are not padding."""
        heard = targets.heard
        return functional.binary_cross_entropy_with_logits(
            logits[heard], targets.active[heard].to(logits.dtype)
        )


@dataclass(frozen=True, slots=True)
class RateObjective(Objective):
    """Predict action starts a second: the likelihood of a Poisson process, in two parts.

    The likelihood of starts at times s under an intensity of mean `m` over a crop of `T` seconds
    is that of *where* they are, given how many, times that of *how many* there are:

        sum of log(intensity(s) / m)     +     starts * log(m) - m * T

    Their sum is the sum of log-intensities at the starts minus the integral of the intensity.
    """

    activation: ClassVar[str] = "softplus"
    """The score is action starts a second."""
    counts: float = 1.0
    """Weight of the second part, the number of starts."""
    jitter: float = 0.0
    """Seconds by which an annotated start may differ from its sound: the intensity is averaged over
    that time on both sides of the start."""
    near: float = math.inf
    """Seconds around an action in which steps count; steps further away are left out."""

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        """The negative log-likelihood, per second of sound."""
        counted = self._counted(targets)
        rates = self.score(logits) * counted
        side = round(self.jitter / HOP)
        around = functional.avg_pool1d(
            rates.unsqueeze(1), 2 * side + 1, 1, side, count_include_pad=False
        )
        seconds = (counted.sum(1) * HOP).clamp(min=HOP)  # (batch,)
        mean = rates.sum(1) * HOP / seconds + LEAST_RATE
        crop = targets.starts // logits.shape[1]
        starts = torch.bincount(crop, minlength=len(mean)).to(mean.dtype)
        where = torch.log(around.flatten()[targets.starts] + LEAST_RATE) - torch.log(mean)[crop]
        how_many = starts * torch.log(mean) - mean * seconds
        return -(where.sum() + self.counts * how_many.sum()) / seconds.sum()

    def _counted(self, targets: Targets) -> Tensor:
        """Steps that are not padding and within `near` of an action, `(batch, steps)`, bool."""
        if math.isinf(self.near):
            return targets.heard
        side = round(self.near / HOP)
        active = targets.active.float().unsqueeze(1)
        return targets.heard & (functional.max_pool1d(active, 2 * side + 1, 1, side)[:, 0] > 0)


OBJECTIVES: dict[str, Objective] = {
    "span": SpanObjective(),
    "frame": FrameObjective(),
    "rate": RateObjective(),
    "where": RateObjective(counts=0.1, jitter=1.0, near=NEAR),
}
"""Every objective by the name the command line uses.

`where` is `rate` with most weight on where in a bout of work the starts are; whether there is a
bout is predicted by `earmark.training.head.Context`.
"""


def pool_spans(logits: Tensor, targets: Targets, tau: float) -> Tensor:
    """The unnormalised log-sum-exp of the logits inside each action, `(actions,)`.

    Computed at once for the whole batch. The largest value is subtracted before the exponential, so
    that it never overflows.
    """
    inside = logits.flatten()[targets.inside] * tau
    largest = inside.new_full((targets.actions,), -torch.inf)
    largest = largest.scatter_reduce(0, targets.owner, inside.detach(), "amax")
    total = torch.zeros_like(largest)
    total = total.index_add(0, targets.owner, torch.exp(inside - largest[targets.owner]))
    return (torch.log(total) + largest) / tau


def _mean(values: Tensor) -> Tensor:
    """The mean; 0, with a gradient, for no values."""
    return values.sum() / max(1, values.numel())
