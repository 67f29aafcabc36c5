from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from earmark.errors import EarmarkError
from earmark.features.encoder import (
    Encoder,
    encoder_files,
    make_encoder,
    split_name,
    weights_options,
)
from earmark.features.sound_levels import Energy
from earmark.gate.forecast_error import ForecastError
from earmark.gate.lengths import LengthModel
from earmark.gate.rates import ENERGY_RATES, RankRates, RateMap
from earmark.media import Meter, Recording
from earmark.models import ModelStore
from earmark.models.model_store import CACHE, CHECKPOINTS, checkpoint_folder, model_store
from earmark.models.registry import Registry
from earmark.timeline import Track

if TYPE_CHECKING:
    from earmark.gate.gate import Gate

AUTO = "auto"
"""The gate that comes with earmark, or the sizes of the video packets if nothing can be heard."""

GATE, OPEN = "gate", "open"
"""The gates in the package: the default, and one whose weights anybody may use."""

SUFFIX = ".gate"

UNHEARD = "none"

PACKETS = "packets:drift=600.0"
"""Fallback of `auto`: packet sizes relative to ten minutes around, so that a bout of work stands
out from the stillness before it."""


class Scorer(Protocol):
    """Computes a score for each step from features: the higher, the more it deserves a call.

    Takes consecutive tracks of features, `(steps, channels)` or `(steps,)`, and yields consecutive
    tracks of scores, `(steps,)`, with the same clock and the same total number of rows. The scores
    do not depend on how the features are cut into tracks.
    """

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]: ...


@dataclass(frozen=True, slots=True)
class MeanChannel:
    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        for track in features:
            rows = track.values if track.values.ndim == 1 else track.values.mean(axis=1)
            yield Track(rows, hop=track.hop, start=track.start)


@dataclass(frozen=True, slots=True)
class Frontline:
    """An encoder, a scorer of its features, and what turns scores into expected actions."""

    name: str
    encoder: Encoder
    scorer: Scorer = field(default_factory=MeanChannel)
    rates: RateMap = field(default_factory=RankRates)
    lengths: LengthModel = field(default_factory=LengthModel)
    error: ForecastError | None = None
    fallback: str = ""
    """Name of the frontline used if nothing can be heard; empty for none."""
    separation: int | None = None
    """Best distance between calls for the rule `separated`, in windows; None if not measured."""
    shows_loudest: bool = False
    """A window shows its loudest instant rather than that of its highest score."""
    spec: str = field(default="", compare=False)
    """The text from which `frontline_named` makes it again; empty if that is its name."""

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:
        return self.scorer(self.encoder(recording, meter=meter))


@dataclass(frozen=True, slots=True)
class NoEncoder:
    channels: int = 0

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:  # noqa: ARG002
        return iter(())


@cache
def unheard() -> Frontline:
    """For rules that use no scores: it reads nothing, and all windows score alike."""
    return Frontline(UNHEARD, NoEncoder())


@cache
def energy_frontline() -> Frontline:
    """Scores by sound level, with its own rates and no trained head."""
    return Frontline("energy", Energy(), rates=ENERGY_RATES)


FRONTLINES: Registry[Callable[..., Encoder | Frontline]] = Registry(
    "earmark.frontlines",
    {
        GATE: "earmark.gate.gate:default_frontline",
        OPEN: "earmark.gate.gate:open_frontline",
        "energy": "earmark.features.sound_levels:Energy",
        "flux": "earmark.features.sound_levels:Flux",
        "variance": "earmark.features.sound_levels:EnergyVariance",
        "log-mel": "earmark.features.sound_levels:LogMel",
        "floor-mel": "earmark.features.sound_levels:FloorMel",
        "packets": "earmark.features.packets:Packets",
        "yamnet": "earmark.features.yamnet:YAMNet",
        "mn04": "earmark.features.mn04:MN04",
    },
    kind="frontline",
)
"""Every frontline by its name, besides `auto` and gate files.

A frontline of another package is an encoder, whose features are then the score, with generic rates;
or a function that makes a whole `Frontline`. An encoder is a frozen dataclass that fulfils the
contract of `Encoder`: its fields are its options. If its features are not a score, it has a field
`reads`, which may be `activity`.
"""


def encoder_named(text: str) -> Encoder:
    name, _ = split_name(text)
    made = make_encoder(FRONTLINES.named(name), text)
    if isinstance(made, Frontline):
        raise ValueError(f"{name} is a whole frontline; name an encoder that a gate can read")
    return made


def frontline_named(name: str | Frontline) -> Frontline:
    """The frontline or gate file `name`, with options after colons.

    Options of a gate are fixed, except the paths of its encoder's files and the device it runs on.
    """
    if isinstance(name, Frontline):
        return name
    if not isinstance(name, str):
        raise ValueError(f"a frontline is a name or a Frontline, not {name!r}")
    if name == AUTO:
        return replace(frontline_named(GATE), fallback=PACKETS)
    kind, options = split_name(name)
    if kind.endswith(SUFFIX):
        made = _load_gate(kind).frontline(name=Path(kind).name, places=options)
        return replace(made, spec=f"{Path(kind).absolute()}{name.removeprefix(kind)}")
    kind = GATE if kind == AUTO else kind
    if kind not in FRONTLINES:
        raise ValueError(
            f"there is no frontline {name!r}; there are {AUTO}, {', '.join(FRONTLINES)}, "
            f"and your own gate files ({SUFFIX}); packages such as earmark-lab add more"
        )
    encoder = make_encoder(FRONTLINES[kind], name, as_detector=True)
    if isinstance(encoder, Frontline):
        return encoder
    if kind == "energy":  # its rates are fitted
        return energy_frontline()
    shown = [f"{key}={value}" for key, value in options.items() if key != "store"]
    return Frontline(":".join([kind, *shown]), encoder, spec=name)


def _load_gate(path: str) -> Gate:
    from earmark.gate.gate import Gate  # which imports this module

    return Gate.load(Path(path))


def with_checkpoints(names: str) -> str:
    """Add to each of the comma-separated `names` the paths of its files from the environment."""
    if not os.environ.keys() & {CHECKPOINTS, CACHE, "XDG_CACHE_HOME"}:
        return names
    return ",".join(map(_with_checkpoint, names.split(",")))


def _with_checkpoint(text: str) -> str:
    name, options = split_name(text)
    encoder = _encoder_of(name)
    needed = encoder_files(encoder)
    if not needed or options.keys() & {"store", *needed}:
        return text
    folder = checkpoint_folder()
    paths = weights_options(folder, encoder) if folder else {}
    if not paths and model_store() != ModelStore():
        paths = {"store": str(model_store().folder)}
    return "".join([text, *(f":{key}={file}" for key, file in paths.items())])


def _encoder_of(name: str) -> str:
    if not name.endswith(SUFFIX):
        return name
    try:
        return _load_gate(name).card.encoder
    except EarmarkError:
        return ""  # the error is raised when the gate is opened
