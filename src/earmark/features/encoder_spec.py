"""Encoders from text: a name, followed by options after colons.

beats                                         with the checkpoint in the model store
beats:weights=/data/BEATs_strong_1.pt         with another checkpoint
beats:threshold=0.5                           posteriors below 0.5 count as 0
atst-frame:reads=embeddings:drop_layers=2     embeddings for a gate
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from earmark.errors import ModelMismatch
from earmark.features.encoder import Encoder
from earmark.models import MODELS, PRETRAINED, find_checkpoint

Built = TypeVar("Built")

MACHINE_OPTIONS = ("weights", "queries", "store", "device", "batch", "threads")
"""Where files are and how a model runs, not its features."""

POSITIVE = {
    "variance": ("around",),
    "flux": ("bands",),
    **dict.fromkeys(("log-mel", "floor-mel"), ("bands", "memory", "least_spread")),
    "packets": ("drift",),
    **dict.fromkeys(("frame-difference", "flow", "flow-compensated"), ("width_pixels",)),
}

NOT_OPTIONS = ("name", "model")

ACTIVITY = "activity"
"""With this value of `reads` an encoder can rank moments without a gate."""

FILES = {"yamnet": {"weights": "yamnet"}, "dasm": {"weights": "dasm", "queries": "dasm-queries"}}

_OPTION = re.compile(r":(?=[a-z_]+=)")


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """The name and the options in `text`.

    >>> split_name("beats:threshold=0.5:weights=C:/beats.pt")
    ('beats', {'threshold': '0.5', 'weights': 'C:/beats.pt'})
    """
    name, *options = _OPTION.split(text)
    return name, dict(option.split("=", 1) for option in options)


def option_types(kind: Callable[..., object]) -> dict[str, Any]:
    made: Any = kind.func if isinstance(kind, partial) else kind
    if not is_dataclass(made):
        return {}
    hints = get_type_hints(made)
    return {each.name: hints[each.name] for each in fields(made) if each.name not in NOT_OPTIONS}


def make_encoder(kind: Callable[..., Built], text: str, *, as_detector: bool = False) -> Built:
    """With `as_detector` it must rank moments without a gate: `reads` defaults to `activity`."""
    name, options = split_name(text)
    types = option_types(kind)
    if as_detector and ACTIVITY in get_args(types.get("reads")):
        options = {"reads": ACTIVITY, **options}
    return kind(**_parse_options(name, types, options))


def with_machine_options(encoder: Encoder, options: Mapping[str, str]) -> Encoder:
    made: Any = encoder
    for option in options:
        if option not in MACHINE_OPTIONS:
            raise ValueError(
                f"a gate fixes {option!r} of its encoder; "
                f"only {', '.join(MACHINE_OPTIONS)} may be given"
            )
    return cast(
        Encoder,
        replace(made, **_parse_options(type(made).__name__, option_types(type(made)), options)),
    )


def portable_options(encoder: Encoder) -> dict[str, Any]:
    """Without `MACHINE_OPTIONS`; `expects` is the hash of weights that come from the user."""
    made: Any = encoder
    kept = [name for name in option_types(type(made)) if name not in MACHINE_OPTIONS]
    options = {name: getattr(made, name) for name in kept}
    return options | ({"expects": made.fingerprint()} if "expects" in options else {})


def _parse_options(
    name: str, types: Mapping[str, Any], options: Mapping[str, str]
) -> dict[str, Any]:
    for option in options:
        if option not in types:
            known = ", ".join(types) or "none"
            raise ValueError(f"{name} has no option {option!r}; it has {known}")
    values = {key: _parse_option(f"{name}: {key}", options[key], types[key]) for key in options}
    for key in POSITIVE.get(name, ()):
        if values.get(key, 1) <= 0:
            raise ValueError(f"{name}: {key} is above 0, not {values[key]}")
    return values


def _parse_option(option: str, text: str, wanted: Any) -> Any:
    if get_origin(wanted) is UnionType:  # such as `float | None`
        wanted = next(kind for kind in get_args(wanted) if kind is not type(None))
    if get_origin(wanted) is Literal:
        wanted = str  # the encoder itself checks the value
    if wanted is bool and text in ("true", "false"):
        return text == "true"
    if wanted not in (int, float, str, Path):
        raise ValueError(f"{option} cannot be given in words")
    try:
        value = wanted(text)
    except ValueError:
        raise ValueError(f"{option} is a number, not {text!r}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{option} is a finite number, not {text!r}")
    return value


def encoder_files(name: str) -> dict[str, str]:
    return {"weights": name} if name in PRETRAINED else FILES.get(name, {})


def weights_options(folder: Path, name: str) -> dict[str, str]:
    if name in PRETRAINED:
        try:
            return {"weights": str(find_checkpoint(name, folder))} if folder.is_dir() else {}
        except ModelMismatch:
            return {}
    found = {key: folder / MODELS[each].file for key, each in encoder_files(name).items()}
    return {key: str(file) for key, file in found.items() if all(map(Path.is_file, found.values()))}
