"""A linear head fitted to answers; the base gate's score is multiplied by its probability.

A window is a bag of seconds, positive if it was answered as active.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from earmark.gate.gate import Gate
from earmark.timeline import FloatArray
from earmark_lab.encoders.detector import torch_threads
from earmark_lab.training.answered_windows import AnsweredRecording, facts_of
from earmark_lab.training.head import Context, SpanObjective, Tower, chance_of_work, in_seconds
from earmark_lab.training.head_export import extend, prove
from earmark_lab.training.site_adaptation import Reheard

RIDGE = 30.0
"""In answers; inputs are scaled to unit spread."""

STEPS = 200

Pooling = Callable[[Tensor], Tensor]
"""From `(bags, seconds)` to `(bags,)`."""


def pool_by_mean(logits: Tensor) -> Tensor:
    """All of a window is active, or none of it; the fit is convex."""
    return logits.mean(1)


def pool_as_paper(logits: Tensor) -> Tensor:
    """Unnormalised log-sum-exp: a window is active if one of its seconds is."""
    tau = SpanObjective().tau
    return torch.logsumexp(tau * logits, 1) / tau


POOLINGS: Mapping[str, Pooling] = MappingProxyType(
    {"the mean": pool_by_mean, "the paper's log-sum-exp": pool_as_paper}
)


@dataclass(frozen=True, slots=True, eq=False)
class SiteHead:
    context: Context

    def __call__(self, recording: Reheard) -> FloatArray:
        with torch.no_grad():
            features = torch.from_numpy(recording.features.astype(np.float32))[None]
            chance = chance_of_work([self.context], features)[0]
        scores: FloatArray = recording.scores * chance.numpy()
        return scores


def fit_context(heard: Sequence[Reheard], channels: int, pooling: Pooling) -> SiteHead:
    seconds = [
        in_seconds(torch.from_numpy(recording.features.astype(np.float32))[None], channels)
        for recording in heard
    ]
    context = Context(channels, width=2, dropout=0.0)
    context.settle([rows[0] for rows in seconds])
    with torch_threads(1):  # sums are the same everywhere, and small ones do not wait
        weights = _fit_weights(heard, [context.read(rows)[0] for rows in seconds], pooling)
    context.tower = _linear(weights)
    return SiteHead(context.eval())


def _fit_weights(heard: Sequence[Reheard], read: Sequence[Tensor], pooling: Pooling) -> Tensor:
    parts = [recording.part for recording in heard]
    rows = torch.cat(list(map(bags, read, parts)))  # (answers, seconds, rows)
    active, weight = (torch.from_numpy(values).float() for values in facts_of(parts))
    weights = torch.zeros(rows.shape[2] + 1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

    def cost() -> Tensor:
        optimizer.zero_grad()
        logits = pooling(weights[0] + rows @ weights[1:])
        total = functional.binary_cross_entropy_with_logits(logits, active, weight, reduction="sum")
        loss = total + RIDGE * weights[1:] @ weights[1:] / 2
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(cost)  # type: ignore[no-untyped-call]
    return weights.detach()


def bags(read: Tensor, part: AnsweredRecording) -> Tensor:
    """From `(rows, seconds)` to `(answers, seconds, rows)`."""
    length = part.windows.length
    first = np.floor(part.places * length).astype(np.intp)
    inside = first[:, None] + np.arange(max(1, math.ceil(length)))
    return read[:, torch.from_numpy(np.minimum(inside, read.shape[1] - 1))].permute(1, 2, 0)


def _linear(weights: Tensor) -> Tower:
    """`weights[0] + weights[1:] @ rows`, as positive minus negative part."""
    tower = Tower(len(weights) - 1, width=2, dilations=(), dropout=0.0)
    assert tower.enter.bias is not None and tower.leave.bias is not None
    with torch.no_grad():
        tower.enter.weight[:, :, 0] = torch.stack([weights[1:], -weights[1:]])
        tower.enter.bias[:] = torch.stack([weights[0], -weights[0]])
        tower.leave.weight[0, :, 0] = torch.tensor([1.0, -1.0])
        tower.leave.bias.zero_()
    return tower


def with_head(gate: Gate, head: SiteHead) -> Gate:
    """The calibration is unchanged."""
    context = max(gate.card.context, head.context.context)
    extended = replace(
        gate,
        card=replace(gate.card, context=context),
        weights=extend(gate.weights, [head.context]),
    )
    rows = np.random.default_rng(0).normal(size=(2510, extended.scorer.channels)).astype(np.float32)

    def score(features: Tensor) -> Tensor:
        scores = torch.from_numpy(gate.scorer.score_whole(features[0].numpy()))
        return scores[None] * chance_of_work([head.context], features)

    prove(score, extended.scorer, [rows])
    return extended
