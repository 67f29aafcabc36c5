"""Fits one network by gradient descent, with regular checks on dev recordings and checkpoints."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from earmark.errors import ModelMismatch
from earmark.media.atomic_file import replacing
from earmark.timeline import CLOCK_RATE, FloatArray, IndexArray
from earmark_lab.encoders.detector import torch_reason
from earmark_lab.training.dataset import TrainingRecording, fingerprint
from earmark_lab.training.head import Context, Head, Objective, TalkDetector, Targets
from earmark_lab.training.settings import Settings
from earmark_lab.training.synthetic_sound import ALONE, UNKNOWN, WORK, TalkMixture

STEEPEST = 5.0
"""Norm to which gradients are clipped."""

RARE = 4.0


@dataclass(frozen=True, slots=True)
class Check:
    step: int
    loss: float
    dev: float
    """Result of `measure`; nan if there are no actions."""

    def to_json(self) -> dict[str, float | None]:
        return {**asdict(self), "dev": None if math.isnan(self.dev) else self.dev}


def use_threads(count: int) -> None:
    if count < 1:
        raise ValueError(f"training needs at least one thread, not {count}")
    torch.set_num_threads(count)


def make_head(channels: int, settings: Settings, *, seed: int = 0) -> Head:
    torch.manual_seed(seed)
    return Head(channels, width=settings.width, bands=settings.bands, dropout=settings.dropout)


def make_context(settings: Settings, *, seed: int) -> Context:
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
    progress: Callable[[Check], None] = lambda _: None,
) -> list[Check]:
    """The same arguments give the same head; `measure` is for the dev recordings."""
    torch.manual_seed(seed)
    head.settle([torch.from_numpy(recording.takes[0]) for recording in recordings])
    objective = settings.loss
    steps = round(settings.crop * head.clock_rate)
    crops = Crops(recordings, steps, settings.batch, seed=seed, clock_rate=head.clock_rate)
    descent = Descent(head, recordings, settings, crops.rng, checkpoint)

    def loss() -> Tensor:
        features, targets = crops.draw()
        return objective.loss(head(features), targets)

    losses = []
    for step, value in descent.steps(loss):
        losses.append(value)
        if settings.is_check(step):
            head.eval()
            descent.checks.append(Check(step, float(np.mean(losses)), measure()))
            progress(descent.checks[-1])
            losses = []
    return descent.checks


def fit_detector(
    mixtures: Sequence[TalkMixture],
    recordings: Sequence[TrainingRecording],
    settings: Settings,
    *,
    checkpoint: Path,
) -> TalkDetector:
    seed, settings = settings.first_seed, settings.of_detector()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    detector = TalkDetector(
        recordings[0].takes[0].shape[1], width=settings.width, dropout=settings.dropout
    )
    plain = [
        TalkMixture(take, np.zeros(len(take), np.int8))
        for recording in recordings
        for take in recording.takes
    ]
    detector.settle([torch.from_numpy(mixture.features) for mixture in (*mixtures, *plain)])
    digest = hashlib.sha256()
    for mixture in mixtures:
        digest.update(mixture.features.tobytes() + mixture.labels.tobytes())

    def loss() -> Tensor:
        features, labels = draw_talk(mixtures, plain, settings, rng)
        weights = torch.where(labels == WORK, RARE, 1.0) * (labels != UNKNOWN)
        total = functional.binary_cross_entropy_with_logits(
            detector(features), (labels == ALONE).float(), weights, reduction="sum"
        )
        return total / weights.sum().clamp(min=1.0)

    descent = Descent(detector, recordings, settings, rng, checkpoint, talk=digest.hexdigest())
    for _ in descent.steps(loss):
        pass
    return detector.eval()


def draw_talk(
    mixtures: Sequence[TalkMixture],
    plain: Sequence[TalkMixture],
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    steps = round(settings.crop * CLOCK_RATE)
    channels = plain[0].features.shape[1]
    features = np.zeros((settings.batch, steps, channels), np.float32)
    labels = np.full((settings.batch, steps), UNKNOWN)
    for row in range(settings.batch):
        sources = mixtures if row % 2 else plain
        lengths = np.array([len(source.labels) for source in sources], dtype=float)
        chosen = sources[int(rng.choice(len(sources), p=lengths / lengths.sum()))]
        first = int(rng.integers(0, max(1, len(chosen.labels) - steps + 1)))
        crop = chosen.labels[first : first + steps]
        features[row, : len(crop)] = chosen.features[first : first + steps]
        labels[row, : len(crop)] = crop
    return torch.from_numpy(features), torch.from_numpy(labels)


def score(head: Head, objective: Objective, features: FloatArray) -> FloatArray:
    with torch.no_grad():
        logits = head.eval()(torch.from_numpy(features)[None])
        scores: FloatArray = objective.score(logits)[0].numpy()
    return scores


class Descent:
    """A fit of `network` by AdamW that can be interrupted.

    Every `check_every` steps all that the next step depends on is saved to `checkpoint`, if given.
    A fit that finds a checkpoint continues from it and ends with the same network as one that was
    never interrupted. If `is_plain`, the learning rate never falls and no gradient is clipped.
    """

    def __init__(
        self,
        network: nn.Module,
        recordings: Sequence[TrainingRecording],
        settings: Settings,
        rng: np.random.Generator,
        checkpoint: Path | None,
        *,
        is_plain: bool = False,
        **data: Any,
    ) -> None:
        self.checks: list[Check] = []
        self._network, self._settings, self._rng = network, settings, rng
        self._path, self._is_plain = checkpoint, is_plain
        self._origin: dict[str, Any] = {}
        if checkpoint:
            # Neutral is what a single network does not depend on: seeds, loudness, and the number
            # of synthetic recordings, which are among `recordings`.
            own = replace(settings, seeds=1, first_seed=0, loudness=0.0, made=0)
            digest = fingerprint({recording.name: recording for recording in recordings})
            self._origin = {"settings": own.to_json(), "recordings": digest, **data}
        self._optimizer = torch.optim.AdamW(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )

    def steps(self, loss: Callable[[], Tensor]) -> Iterator[tuple[int, float]]:
        for step in range(self._resume() + 1, self._settings.steps + 1):
            rate = self._settings.learning_rate if self._is_plain else self._settings.rate_at(step)
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._network.train()
            value = loss()
            if not torch.isfinite(value):
                raise ModelMismatch(
                    "the training loss is no longer a number; lower the learning rate"
                )
            self._optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            if not self._is_plain:
                nn.utils.clip_grad_norm_(self._network.parameters(), STEEPEST)
            self._optimizer.step()
            yield step, float(value.detach())
            if self._path is not None and self._settings.is_check(step):
                self._keep(self._path, step)
        self._network.eval()

    def _keep(self, path: Path, step: int) -> None:
        state = {
            **self._origin,
            "step": step,
            "checks": [astuple(check) for check in self.checks],
            "head": self._network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "crops": self._rng.bit_generator.state,
            "torch": torch.get_rng_state(),
        }
        with replacing(path) as scratch:
            torch.save(state, scratch)

    def _resume(self) -> int:
        if self._path is None or not self._path.is_file():
            return 0
        try:
            state: dict[str, Any] = torch.load(self._path, weights_only=True)
        except (OSError, EOFError, RuntimeError, UnpicklingError) as error:
            raise ModelMismatch(
                f"{self._path} cannot be read ({torch_reason(error)}); "
                "give another folder, or remove it"
            ) from error
        self._check_origin(state)
        self.checks = [Check(*check) for check in state["checks"]]
        self._network.load_state_dict(state["head"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._rng.bit_generator.state = state["crops"]
        torch.set_rng_state(state["torch"])
        return int(state["step"])

    def _check_origin(self, state: Mapping[str, Any]) -> None:
        """With a learning rate that does not fall, the number of steps may differ."""
        expected, settings = self._origin["settings"], dict(state.get("settings", {}))
        if not expected["cooling"] and state.get("step", 0) <= expected["steps"]:
            settings["steps"] = expected["steps"]
        for what, value in self._origin.items():
            if (settings if what == "settings" else state.get(what)) != value:
                raise ModelMismatch(
                    f"{self._path} is from a training with other {what}; "
                    "give another folder, or remove it"
                )


class Crops:
    """Random crops: recordings with a probability in proportion to their length."""

    def __init__(
        self,
        recordings: Sequence[TrainingRecording],
        steps: int,
        batch: int,
        *,
        seed: int,
        clock_rate: int = CLOCK_RATE,
    ) -> None:
        self._recordings, self._steps, self._batch = recordings, steps, batch
        self.rng = np.random.default_rng(seed)
        lengths = np.array([len(recording.takes[0]) for recording in recordings], dtype=float)
        self._chances = lengths / lengths.sum()
        self._bounds = [_bounds(recording, clock_rate) for recording in recordings]

    def draw(self) -> tuple[Tensor, Targets]:
        places = self.draw_places()
        features = [
            self._recordings[which].takes[take][begin : begin + self._steps]
            for which, take, begin in places
        ]
        bounds = [self._bounds[which] - begin for which, _, begin in places]
        return lay_out(features, bounds, steps=self._steps)

    def draw_places(self) -> list[tuple[int, int, int]]:
        places = []
        for which in self.rng.choice(len(self._chances), self._batch, p=self._chances).tolist():
            takes = self._recordings[which].takes
            take = int(self.rng.integers(len(takes)))
            last = max(0, len(takes[take]) - self._steps)
            places.append((which, take, int(self.rng.integers(0, last + 1))))
        return places


def _bounds(recording: TrainingRecording, clock_rate: int) -> IndexArray:
    """First step and step after the last, `(actions, 2)`; at least one step each."""
    times = np.array([(action.start, action.end) for action in recording.actions]).reshape(-1, 2)
    bounds: IndexArray = np.rint(times * clock_rate).astype(np.intp)
    bounds[:, 1] = np.maximum(bounds[:, 1], bounds[:, 0] + 1)
    return bounds


def lay_out(
    crops: Sequence[FloatArray], bounds: Sequence[IndexArray], *, steps: int
) -> tuple[Tensor, Targets]:
    """Crops padded with zeros, `(batch, steps, channels)`; `bounds` are actions in steps of each.

    An action cut off by the edge of a crop is to be detected only if at least half of it (or half a
    crop of it) is inside. Otherwise the part inside is not idle, and its start still counts.
    """
    batch, channels = len(crops), crops[0].shape[1]
    rows = np.zeros((batch, steps, channels), dtype=np.float32)
    heard = np.zeros((batch, steps), dtype=bool)
    for number, crop in enumerate(crops):
        rows[number, : len(crop)] = crop
        heard[number, : len(crop)] = True
    which = np.repeat(np.arange(batch), list(map(len, bounds)))
    ends = np.concatenate([*bounds, np.zeros((0, 2), dtype=np.intp)])
    limit = heard.sum(axis=1)[which]
    low, high = ends[:, 0].clip(0), np.minimum(ends[:, 1], limit)
    visible = high - low
    counts = visible >= 0.5 * np.minimum(ends[:, 1] - ends[:, 0], steps)
    starts = (ends[:, 0] >= 0) & (ends[:, 0] < limit)
    inside, _ = _ranges(which * steps + low, np.maximum(visible, 0))
    active = np.zeros(batch * steps, dtype=bool)
    active[inside] = True
    counts &= visible > 0
    inside, owner = _ranges((which * steps + low)[counts], visible[counts])
    return torch.from_numpy(rows), Targets(
        heard=torch.from_numpy(heard),
        active=torch.from_numpy(active.reshape(batch, steps)),
        inside=torch.from_numpy(inside),
        owner=torch.from_numpy(owner),
        starts=torch.from_numpy((which * steps + ends[:, 0])[starts]),
    )


def _ranges(first: IndexArray, count: IndexArray) -> tuple[IndexArray, IndexArray]:
    """The numbers `first[i], first[i] + 1, ...`, `count[i]` for each `i`, and the `i` of each."""
    owner = np.repeat(np.arange(len(first)), count)
    begun = np.cumsum(count) - count
    return np.arange(len(owner)) - begun[owner] + first[owner], owner
