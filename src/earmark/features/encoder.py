"""The protocol of encoders, and encoders from text: a name, then options after colons.

beats                                         with the checkpoint in the model store
beats:weights=/data/BEATs_strong_1.pt         with another checkpoint
beats:threshold=0.5                           posteriors below 0.5 count as 0
atst-frame:reads=embeddings                   embeddings for a gate
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, get_args, get_type_hints

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from earmark.errors import ModelMismatch
from earmark.media import Meter, Recording, Sound
from earmark.models import MODELS, PRETRAINED, find_checkpoint
from earmark.settings import explain_fault
from earmark.timeline import CLOCK_RATE, FloatArray, Track

SAMPLE_RATE = 16_000
STEP = SAMPLE_RATE // CLOCK_RATE
Built = TypeVar("Built")

_MACHINE_OPTIONS = ("weights", "queries", "store", "device", "batch")
"""Where files are and how a model runs, not its features."""

_NOT_OPTIONS = ("name", "model")
_ACTIVITY = "activity"  # with this value of `reads` an encoder can rank moments without a gate
_FILES = {
    "yamnet": {"weights": "yamnet"},
    "mn04": {"weights": "mn04"},
    "dasm": {"weights": "dasm", "queries": "dasm-queries"},
}
_OPTION = re.compile(r":(?=[a-z_]+=)")


class Encoder(Protocol):
    """Turns a recording into features on the 25 Hz clock.

    Yields consecutive tracks from time 0 without gaps, `ceil(duration * 25)` rows in all, every
    value finite. The rows do not depend on how the sound is cut into blocks. Memory does not grow
    with the length of the recording.
    """

    @property
    def channels(self) -> int: ...

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]: ...


class SoundEncoder(ABC):
    __slots__ = ()

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:
        return self.encode(recording.sound(sample_rate=self.sample_rate, meter=meter))

    @property
    def sample_rate(self) -> int:
        """A multiple of 25."""
        return SAMPLE_RATE

    @property
    def channels(self) -> int:
        return 1

    @abstractmethod
    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The blocks of `sound` follow each other from time 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    samples: FloatArray
    """Mono, `before + cells * width + after` of them; zeros beyond the ends of the recording."""
    steps: int
    first: int


def cut_cells(
    sound: Iterable[Sound], *, before: int = 0, after: int = 0, cell: int = 1
) -> Iterator[Piece]:
    """Pieces of whole cells of `cell` steps, with margins of `before` and `after` samples.

        samples   [before|  cell  |  cell  |  cell  |after]
        next                               [before|  cell  | ...

    The last cell is padded with zeros.
    """
    width, samples, first = cell * STEP, np.zeros(before, dtype=np.float32), 0
    for block in sound:
        samples = np.concatenate([samples, block.values])
        cells = (len(samples) - before - after) // width
        if cells > 0:
            yield Piece(samples[: before + cells * width + after], cells * cell, first)
            samples, first = samples[cells * width :], first + cells * cell
    steps = -(-(len(samples) - before) // STEP)
    if steps > 0:
        missing = before + -(-steps // cell) * width + after - len(samples)
        yield Piece(np.pad(samples, (0, missing)), steps, first)


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """The name and the options in `text`.

    >>> split_name("beats:threshold=0.5:weights=C:/beats.pt")
    ('beats', {'threshold': '0.5', 'weights': 'C:/beats.pt'})
    """
    name, *options = _OPTION.split(text)
    return name, dict(option.split("=", 1) for option in options)


def option_types(kind: Callable[..., object]) -> dict[str, Any]:
    encoder: Any = kind.func if isinstance(kind, partial) else kind
    if not is_dataclass(encoder):
        return {}
    hints = get_type_hints(encoder, include_extras=True)
    names = [field.name for field in fields(encoder)]
    return {name: hints[name] for name in names if name not in _NOT_OPTIONS}


def make_encoder(kind: Callable[..., Built], text: str, *, as_detector: bool = False) -> Built:
    """With `as_detector` it must rank moments without a gate: `reads` defaults to `activity`."""
    name, options = split_name(text)
    types = option_types(kind)
    if as_detector and _ACTIVITY in get_args(types.get("reads")):
        options = {"reads": _ACTIVITY, **options}
    return kind(**parse_options(name, types, options))


def with_machine_options(encoder: Encoder, options: Mapping[str, str]) -> Encoder:
    for option in options:
        if option not in _MACHINE_OPTIONS:
            raise ValueError(
                f"a gate fixes {option!r} of its encoder; "
                f"only {', '.join(_MACHINE_OPTIONS)} may be given"
            )
    kind = type(encoder)
    values = parse_options(kind.__name__, option_types(kind), options)
    return cast(Encoder, replace(cast(Any, encoder), **values))


def portable_options(encoder: Encoder) -> dict[str, Any]:
    """Without `_MACHINE_OPTIONS`; `expects` is the hash of weights that come from the user."""
    names = [name for name in option_types(type(encoder)) if name not in _MACHINE_OPTIONS]
    options = {name: getattr(encoder, name) for name in names}
    if "expects" in options:
        options["expects"] = cast(Any, encoder).fingerprint()
    return options


def parse_options(
    name: str, types: Mapping[str, Any], options: Mapping[str, str]
) -> dict[str, Any]:
    values = {}
    for option, text in options.items():
        if option not in types:
            raise ValueError(
                f"{name} has no option {option!r}; it has {', '.join(types) or 'none'}"
            )
        try:
            adapter = TypeAdapter(types[option], config=ConfigDict(allow_inf_nan=False))
            values[option] = adapter.validate_strings(text)
        except ValidationError as error:
            reason = explain_fault(error.errors()[0])
            raise ValueError(f"{name}: {option} {reason}") from None
    return values


def encoder_files(name: str) -> dict[str, str]:
    return {"weights": name} if name in PRETRAINED else _FILES.get(name, {})


def weights_options(folder: Path, name: str) -> dict[str, str]:
    if name in PRETRAINED:
        try:
            return {"weights": str(find_checkpoint(name, folder))} if folder.is_dir() else {}
        except ModelMismatch:
            return {}
    files = {key: folder / MODELS[model].file for key, model in encoder_files(name).items()}
    return {key: str(file) for key, file in files.items() if all(map(Path.is_file, files.values()))}
