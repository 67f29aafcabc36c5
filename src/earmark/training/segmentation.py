"""A segmentation head: which of the annotated classes of sound is heard at each step.

The paper's optional head beside its gate, over the features of a frozen encoder; it has the classes
of whatever annotations it is given. Boundaries and events are read off its posteriors with
`earmark.features.pretrained.segments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from earmark.errors import AnnotationError
from earmark.timeline import CLOCK_RATE, FloatArray, Track
from earmark.training.dataset import TrainingRecording
from earmark.training.head import DILATIONS, LEAST_VARIANCE, Tower
from earmark.training.settings import Settings


class SegmentHead(nn.Module):
    """Logits of each class a step, from features `(batch, steps, channels)`."""

    usual: Tensor
    spread: Tensor

    def __init__(self, channels: int, classes: int, *, width: int, dropout: float) -> None:
        super().__init__()
        self.tower = Tower(channels, width=width, dilations=DILATIONS, dropout=dropout)
        self.tower.leave = nn.Conv1d(width, classes, 1)
        self.register_buffer("usual", torch.zeros(()))
        self.register_buffer("spread", torch.ones(()))

    def settle(self, features: Sequence[FloatArray]) -> None:
        """Take the usual value and spread from `features`, one for all channels."""
        every = np.concatenate([each.ravel() for each in features]).astype(np.float64)
        self.usual.copy_(torch.as_tensor(every.mean()))
        self.spread.copy_(torch.as_tensor(max(float(every.std()), LEAST_VARIANCE)))

    def forward(self, features: Tensor) -> Tensor:
        """The logits, `(batch, steps, classes)`."""
        read = ((features - self.usual) / self.spread).transpose(1, 2)
        hidden = torch.relu(self.tower.enter(read))
        for block in self.tower.blocks:
            hidden = hidden + torch.relu(block(self.tower.drop(hidden)))
        logits: Tensor = self.tower.leave(self.tower.drop(hidden)).transpose(1, 2)
        return logits


@dataclass(frozen=True, slots=True, eq=False)
class Segmenter:
    """A trained head with the names of its classes."""

    head: SegmentHead
    classes: tuple[str, ...]

    def __call__(self, features: FloatArray) -> Track:
        """The logits of a whole recording, `(steps, classes)`."""
        with torch.no_grad():
            rows = self.head.eval()(torch.from_numpy(features.astype(np.float32))[None])
        return Track(rows[0].numpy())


def list_classes(recordings: Sequence[TrainingRecording]) -> tuple[str, ...]:
    """The labels of the events of `recordings`; `AnnotationError` where there are none."""
    found = sorted({event.label for heard in recordings for event in heard.actions if event.label})
    if not found:
        raise AnnotationError("no event has a label, so there is no class of sound to learn")
    return tuple(found)


def mark_classes(heard: TrainingRecording, classes: Sequence[str]) -> FloatArray:
    """1 where a class sounds, `(steps, classes)`."""
    marked = np.zeros((len(heard.takes[0]), len(classes)), dtype=np.float32)
    places = {name: place for place, name in enumerate(classes)}
    for event in heard.actions:
        if event.label in places:
            first, last = (round(time * CLOCK_RATE) for time in (event.start, event.end))
            marked[first : max(last, first + 1), places[event.label]] = 1.0
    return marked


def fit_segmenter(
    recordings: Sequence[TrainingRecording],
    settings: Settings,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Segmenter:
    """A head fitted to the labelled events of `recordings`, a class by itself at each step.

    Of `settings` it takes width, dropout, steps, batch, crop and those of AdamW.
    """
    classes = list_classes(recordings)
    targets = [mark_classes(heard, classes) for heard in recordings]
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    head = SegmentHead(
        recordings[0].takes[0].shape[1], len(classes), width=settings.width,
        dropout=settings.dropout,
    )  # fmt: skip
    head.settle([heard.takes[0] for heard in recordings])
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    size = min(round(settings.crop * CLOCK_RATE), *(len(each) for each in targets))
    chances = np.array([len(each) for each in targets], dtype=float)
    for step in range(1, settings.steps + 1):
        read, wanted = [], []
        for which in rng.choice(len(targets), settings.batch, p=chances / chances.sum()).tolist():
            begin = int(rng.integers(0, len(targets[which]) - size + 1))
            read.append(recordings[which].takes[0][begin : begin + size].astype(np.float32))
            wanted.append(targets[which][begin : begin + size])
        logits = head.train()(torch.from_numpy(np.stack(read)))
        loss = functional.binary_cross_entropy_with_logits(
            logits, torch.from_numpy(np.stack(wanted))
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        progress(step, settings.steps)
    return Segmenter(head.eval(), classes)
