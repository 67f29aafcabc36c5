"""Fits one network by gradient descent, with regular checks on dev recordings and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from earmark.errors import ModelMismatch
from earmark.media.atomic_file import replacing
from earmark.timeline import CLOCK_RATE, FloatArray, IndexArray
from earmark.training.dataset import TrainingRecording, fingerprint
from earmark.training.head import Context, Head
from earmark.training.objectives import Objective, Targets
from earmark.training.settings import Settings

STEEPEST = 5.0
"""Norm to which gradients are clipped."""


@dataclass(frozen=True, slots=True)
class Check:
    """Quality of a head at one step of its training."""

    step: int
    loss: float
    """Mean training loss since the check before."""
    dev: float
    """Result of `measure` on the dev recordings, see `fit`; nan if they have no actions."""

    def to_json(self) -> dict[str, float | None]:
        """The fields as plain values; a `dev` of nan is None."""
        return {**asdict(self), "dev": None if math.isnan(self.dev) else self.dev}


Progress = Callable[[Check], None]
"""Called with every check."""


def use_threads(count: int) -> None:
    """Let PyTorch use `count` threads in this process."""
    if count < 1:
        raise ValueError(f"training needs at least one thread, not {count}")
    torch.set_num_threads(count)


def make_head(channels: int, settings: Settings, *, seed: int = 0) -> Head:
    """An untrained head with the shape given in `settings`."""
    torch.manual_seed(seed)
    return Head(channels, width=settings.width, bands=settings.bands, dropout=settings.dropout)


def make_context(settings: Settings, *, seed: int) -> Context:
    """An untrained context with the shape given in `settings`."""
    torch.manual_seed(seed)
    return Context(settings.context_channels, width=settings.width, dropout=settings.dropout)


def fit(
    head: Head | Context,
    recordings: Sequence[TrainingRecording],
    settings: Settings,
    *,
    seed: int,
    measure: Callable[[], float] = lambda: math.nan,
    checkpoint: Path | None = None,
    progress: Progress = lambda _: None,
) -> list[Check]:
    """Fit `head` to `recordings` and return the checks; the same arguments give the same head.

    Every `check_every` steps and at the end, `measure` gives the quality on the dev recordings and
    the state of the training is saved to `checkpoint`, if given. A fit that finds a checkpoint
    continues from it and ends with the same head as one that was never interrupted.

    Raises:
        ModelMismatch: the checkpoint is from other settings or recordings, or the loss is not
            finite.
    """
    torch.manual_seed(seed)
    head.settle([torch.from_numpy(heard.takes[0]) for heard in recordings])
    objective = settings.loss
    optimizer = torch.optim.AdamW(
        head.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    crops = Crops(
        recordings,
        crop=settings.crop,
        batch=settings.batch,
        seed=seed,
        clock_rate=head.clock_rate,
    )
    origin = origin_of(recordings, settings) if checkpoint is not None else {}
    state = Checkpoint(checkpoint, head, optimizer, crops.rng, origin)
    checks = [Check(*check) for check in state.resume().get("checks", ())]
    begun = checks[-1].step if checks else 0
    losses = []
    for step in range(begun + 1, settings.steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate_at(step)
        losses.append(_step(head, objective, optimizer, crops))
        if step % settings.check_every == 0 or step == settings.steps:
            head.eval()
            checks.append(Check(step, float(np.mean(losses)), measure()))
            progress(checks[-1])
            losses = []
            state.keep(checks=[astuple(check) for check in checks])
    head.eval()
    return checks


def _step(
    head: Head | Context, objective: Objective, optimizer: torch.optim.Optimizer, crops: Crops
) -> float:
    """Make one step of the optimizer on a new batch; returns the loss before it."""
    batch = crops.draw()
    head.train()
    loss = objective.loss(head(batch.features), batch.targets)
    if not torch.isfinite(loss):
        raise ModelMismatch("the training loss is no longer a number; lower the learning rate")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(head.parameters(), STEEPEST)
    optimizer.step()
    return float(loss.detach())


def score(head: Head, objective: Objective, features: FloatArray) -> FloatArray:
    """The scores of one whole recording, `(steps,)`."""
    with torch.no_grad():
        logits = head.eval()(torch.from_numpy(features)[None])
        scores: FloatArray = objective.score(logits)[0].numpy()
    return scores


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State of a fit in a file: all that the next step depends on. Without a path, no file."""

    path: Path | None
    head: torch.nn.Module
    optimizer: torch.optim.Optimizer
    rng: np.random.Generator
    """Random generator of the crops."""
    origin: Mapping[str, Any]
    """Settings and data of the fit; see `origin_of`."""

    def keep(self, **progress: Any) -> None:
        """Write the state and the values in `progress`."""
        if self.path is None:
            return
        state = {
            **self.origin,
            **progress,
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "crops": self.rng.bit_generator.state,
            "torch": torch.get_rng_state(),
        }
        with replacing(self.path) as scratch:
            torch.save(state, scratch)

    def resume(self) -> Mapping[str, Any]:
        """Restore the state that `keep` wrote and return it; empty if there is no file.

        Raises:
            ModelMismatch: the state is from other settings or recordings.
        """
        if self.path is None or not self.path.is_file():
            return {}
        state: dict[str, Any] = torch.load(self.path, weights_only=True)
        self._check_origin(state)
        self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.rng.bit_generator.state = state["crops"]
        torch.set_rng_state(state["torch"])
        return state

    def _check_origin(self, state: Mapping[str, Any]) -> None:
        """Raise `ModelMismatch` if `state` is from other settings or recordings.

        With a learning rate that does not fall, the number of steps may differ: a training may
        continue to more steps, or end after fewer, than it was started for.
        """
        wanted, kept = self.origin["settings"], dict(state.get("settings", {}))
        taken = state["step"] if "step" in state else state["checks"][-1][0]
        if not wanted["cooling"] and taken <= wanted["steps"]:
            kept["steps"] = wanted["steps"]
        for what, known in self.origin.items():
            if (kept if what == "settings" else state.get(what)) != known:
                raise ModelMismatch(
                    f"{self.path} is from a training with other {what}; "
                    "give another folder, or remove it"
                )


def origin_of(recordings: Sequence[TrainingRecording], settings: Settings) -> dict[str, Any]:
    """Settings and a hash of the data that a single head depends on, besides its seed.

    Settings that do not matter for it are neutral: the seeds, loudness, and the number of synthetic
    recordings, which are among `recordings`.
    """
    return {
        "settings": replace(settings, seeds=1, first_seed=0, loudness=0.0, made=0).to_json(),
        "recordings": fingerprint({heard.name: heard for heard in recordings}),
    }


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Crops of one length with their targets."""

    features: Tensor
    """`(batch, steps, channels)`; zeros where a recording is shorter than the crop."""
    targets: Targets


class Crops:
    """Draws random crops: recordings with a probability in proportion to their length.

    The draws depend on the recordings, the settings and the seed, but not on the objective.
    """

    def __init__(
        self,
        recordings: Sequence[TrainingRecording],
        *,
        crop: float,
        batch: int,
        seed: int,
        clock_rate: int = CLOCK_RATE,
    ) -> None:
        self._recordings = list(recordings)
        self._steps = round(crop * clock_rate)
        self._batch = batch
        self.rng = np.random.default_rng(seed)
        lengths = np.array([len(heard.takes[0]) for heard in self._recordings], dtype=float)
        self._chances = lengths / lengths.sum()
        self._bounds = [_bounds(heard, clock_rate) for heard in self._recordings]

    def draw(self) -> Batch:
        """The next batch."""
        chosen = self.rng.choice(len(self._recordings), self._batch, p=self._chances)
        features, begins = [], []
        for which in chosen.tolist():
            takes = self._recordings[which].takes
            take = takes[int(self.rng.integers(len(takes)))]
            begin = int(self.rng.integers(0, max(1, len(take) - self._steps + 1)))
            features.append(take[begin : begin + self._steps])
            begins.append(begin)
        bounds = [self._bounds[which] - begin for which, begin in zip(chosen, begins, strict=True)]
        return lay_out(features, bounds, steps=self._steps)


def _bounds(heard: TrainingRecording, clock_rate: int) -> IndexArray:
    """First step and step after the last of each action, `(actions, 2)`; at least one step each."""
    times = np.array([(action.start, action.end) for action in heard.actions]).reshape(-1, 2)
    bounds: IndexArray = np.rint(times * clock_rate).astype(np.intp)
    bounds[:, 1] = np.maximum(bounds[:, 1], bounds[:, 0] + 1)
    return bounds


def lay_out(features: Sequence[FloatArray], bounds: Sequence[IndexArray], *, steps: int) -> Batch:
    """A batch of crops of at most `steps` rows; `bounds` are actions in steps of each crop.

    An action cut off by the edge of a crop is one to be detected only if at least half of it is in
    the crop (half of the crop's length, if the action is longer than that). The part of it in the
    crop never counts as idle, and its start counts if it is in the crop.
    """
    batch, channels = len(features), features[0].shape[1]
    rows = np.zeros((batch, steps, channels), dtype=np.float32)
    heard = np.zeros((batch, steps), dtype=bool)
    for place, crop in enumerate(features):
        rows[place, : len(crop)] = crop
        heard[place, : len(crop)] = True
    which = np.repeat(np.arange(batch), [len(each) for each in bounds])
    ends = np.concatenate([*bounds, np.zeros((0, 2), dtype=np.intp)])
    limit = heard.sum(axis=1)[which]
    low, high = ends[:, 0].clip(0), np.minimum(ends[:, 1], limit)
    seen = high - low
    counts = seen >= 0.5 * np.minimum(ends[:, 1] - ends[:, 0], steps)
    starts = (ends[:, 0] >= 0) & (ends[:, 0] < limit)
    inside, _ = _ranges(which * steps + low, np.maximum(seen, 0))
    active = np.zeros(batch * steps, dtype=bool)
    active[inside] = True
    inside, owner = _ranges((which * steps + low)[counts & (seen > 0)], seen[counts & (seen > 0)])
    return Batch(
        torch.from_numpy(rows),
        Targets(
            heard=torch.from_numpy(heard),
            active=torch.from_numpy(active.reshape(batch, steps)),
            inside=torch.from_numpy(inside),
            owner=torch.from_numpy(owner),
            starts=torch.from_numpy((which * steps + ends[:, 0])[starts]),
        ),
    )


def _ranges(first: IndexArray, count: IndexArray) -> tuple[IndexArray, IndexArray]:
    """The numbers `first[i], first[i] + 1, ...`, `count[i]` for each `i`, and the `i` of each."""
    owner = np.repeat(np.arange(len(first)), count)
    begun = np.cumsum(count) - count
    return np.arange(len(owner)) - begun[owner] + first[owner], owner
