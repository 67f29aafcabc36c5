"""Fits one head: draw, step, look at the dev recordings now and then, keep a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from earmark.errors import ModelMismatch
from earmark.media.atomic_file import replacing
from earmark.timeline import FloatArray
from earmark.training.crops import Crops
from earmark.training.dataset import TrainingRecording, fingerprint
from earmark.training.head import Context, Head
from earmark.training.objectives import Objective
from earmark.training.settings import Settings

STEEPEST = 5.0
"""Norm a gradient is cut to."""


@dataclass(frozen=True, slots=True)
class Check:
    """How a head did at one step of its training."""

    step: int
    loss: float
    """Mean training loss since the check before."""
    dev: float
    """The measure of the dev recordings, see `fit`; nan where they hold no action."""

    def to_json(self) -> dict[str, float | None]:
        """Plain values; nan is null."""
        return {**asdict(self), "dev": None if math.isnan(self.dev) else self.dev}


Progress = Callable[[Check], None]
"""Told of every check as it is made."""


def use_threads(count: int) -> None:
    """Let PyTorch use `count` threads in this process."""
    if count < 1:
        raise ValueError(f"training needs at least one thread, not {count}")
    torch.set_num_threads(count)


def make_head(channels: int, settings: Settings, *, seed: int = 0) -> Head:
    """An untrained head of the settings' shape."""
    torch.manual_seed(seed)
    return Head(channels, width=settings.width, bands=settings.bands, dropout=settings.dropout)


def make_context(settings: Settings, *, seed: int) -> Context:
    """An untrained context of the settings' shape."""
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
    """Fit `head` to `recordings`, and say how it went; the same arguments give the same head.

    Every `check_every` steps `measure` says how good it is on the dev recordings and, where
    `checkpoint` is given, the state of the training is kept there; a fit that finds one goes on
    from it and ends with the same head as one that was never interrupted.

    Raises:
        ModelMismatch: the checkpoint is from other settings or recordings, or the loss from no
            numbers.
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
    """One step down the gradient; the loss before it."""
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
    """All that the next step of a fit depends on, kept in a file; without a path nothing is."""

    path: Path | None
    head: torch.nn.Module
    optimizer: torch.optim.Optimizer
    rng: np.random.Generator
    """Of the crops."""
    origin: Mapping[str, Any]
    """What the fit is of; see `origin_of`."""

    def keep(self, **progress: Any) -> None:
        """Write the state and how far the fit has come."""
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
        """Take up what `keep` wrote, and tell the progress; nothing where there is none.

        Raises:
            ModelMismatch: it is of another training.
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
        """Where the learning rate does not come down, the steps there are to be do not matter.

        A training may then go on to more, or end with fewer than it was begun for.
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
    """What a single head depends on besides its seed: the other seeds and loudness are no part.

    What was made up for it is among the recordings.
    """
    return {
        "settings": replace(settings, seeds=1, first_seed=0, loudness=0.0, made=0).to_json(),
        "recordings": fingerprint({heard.name: heard for heard in recordings}),
    }
