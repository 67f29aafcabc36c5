"""A head fitted to a site by answers: in which seconds anything is done there.

A window said to be active is a positive bag of seconds, one said to be idle a negative one: of the
first the pooled logit is to be high (the paper's pooling), of the other that of every second low.
The base gate's score is multiplied by the chance that the fitted contexts give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import functional

from earmark.gate.gate import Gate, OnnxScorer
from earmark.timeline import FloatArray
from earmark.training.answer_regression import Reheard
from earmark.training.head import Context, chance_of_work, in_seconds
from earmark.training.head_export import extend, prove

TAU = 4.0
"""How sharply a bag's logit follows its best second; the paper's."""

STEPS, LEARNING_RATE, WEIGHT_DECAY, COOLING = 100, 5e-3, 1e-2, 0.4
"""Of the fit: every step reads all answers."""

WIDTH, DROPOUT, SEEDS = 16, 0.3, 1
"""Of the contexts; the width and dropout those of `train`."""


@dataclass(frozen=True, slots=True, eq=False)
class SiteHead:
    """Contexts fitted to answers, beside the gate that was there."""

    contexts: tuple[Context, ...]

    def __call__(self, one: Reheard) -> FloatArray:
        """The scores of the base gate by the chance that the contexts give."""
        with torch.no_grad():
            features = torch.from_numpy(one.features.astype(np.float32))[None]
            chance = chance_of_work(self.contexts, features)[0]
        scores: FloatArray = one.scores * chance.numpy()
        return scores


def fit_contexts(heard: Sequence[Reheard], channels: int) -> SiteHead:
    """A head fitted to the answers of `heard`; the same answers give the same head.

    Its contexts read the first `channels` of the features.
    """
    seconds = [
        in_seconds(torch.from_numpy(one.features.astype(np.float32))[None], channels)
        for one in heard
    ]
    with _one_thread():
        fitted = [_fit_context(heard, seconds, channels, seed) for seed in range(SEEDS)]
    return SiteHead(tuple(fitted))


@contextmanager
def _one_thread() -> Iterator[None]:
    """So that the sums are the same everywhere, and small ones do not wait for other threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _fit_context(
    heard: Sequence[Reheard], seconds: Sequence[torch.Tensor], channels: int, seed: int
) -> Context:
    torch.manual_seed(seed)
    context = Context(channels, width=WIDTH, dropout=DROPOUT)
    context.settle([each[0] for each in seconds])
    read = [context.read(each) for each in seconds]
    optimizer = torch.optim.AdamW(context.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    total = sum(float(one.part.weight.sum()) for one in heard)
    context.train()
    for step in range(STEPS):
        left = (STEPS - step) / STEPS
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, left / COOLING)
        pairs = zip(heard, read, strict=True)
        losses = [bag_loss(context.judge(rows)[0], one) for one, rows in pairs]
        loss = torch.stack(losses).sum() / total
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return context.eval()


def bag_loss(logits: torch.Tensor, one: Reheard) -> torch.Tensor:
    """Cross-entropy of the answers about one recording, in answers; a logit a second."""
    length = one.part.windows.length
    first = np.floor(one.part.places * length).astype(np.intp)
    inside = first[:, None] + np.arange(max(1, math.ceil(length)))
    bags = logits[torch.from_numpy(np.minimum(inside, len(logits) - 1))]  # (answers, seconds)
    pooled = torch.logsumexp(TAU * bags, dim=1) / TAU
    active, weight = (torch.from_numpy(each).float() for each in (one.part.active, one.part.weight))
    missed, stray = functional.softplus(-pooled), functional.softplus(bags).mean(1)
    return (weight * (active * missed + (1 - active) * stray)).sum()


def with_head(gate: Gate, head: SiteHead) -> Gate:
    """`gate` with the head in front of its scores; its calibration is as it was.

    Raises:
        ModelMismatch: the exported head differs from the fitted one.
    """
    context = max(gate.card.context, head.contexts[0].context)
    made = replace(
        gate,
        card=replace(gate.card, context=context),
        weights=extend(gate.weights, head.contexts),
    )
    _prove(gate.scorer, made.scorer, head)
    return made


def _prove(old: OnnxScorer, new: OnnxScorer, head: SiteHead) -> None:
    """Hold the exported head against the fitted one, on features made up."""
    rows = np.random.default_rng(0).normal(size=(2510, new.channels)).astype(np.float32)

    def wanted(features: torch.Tensor) -> torch.Tensor:
        scores = torch.from_numpy(old.score_whole(features[0].numpy()))
        return scores[None] * chance_of_work(head.contexts, features)

    prove(wanted, new, [rows])
