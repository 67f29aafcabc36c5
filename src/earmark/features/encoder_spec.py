"""Encoders from words: a name and, after colons, its options.

beats                                         as it is, with the checkpoint in the model store
beats:weights=/data/BEATs_strong_1.pt         with a checkpoint of one's own
beats:threshold=0.5                           what is below counts as nothing
atst-frame:reads=embeddings:drop_layers=2     what a gate is to read
"""

from __future__ import annotations

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
"""Options of the machine: where files lie and how a model is run, not what is heard."""

NOT_OPTIONS = ("name", "model")
"""Fields that say which encoder it is, and are no options of it."""

ACTIVITY = "activity"
"""Of an encoder whose features are no score: what it reads to rank moments without a gate."""

FILES = {"yamnet": {"weights": "yamnet"}, "dasm": {"weights": "dasm", "queries": "dasm-queries"}}
"""Of encoders that are no published PyTorch models."""

_OPTION = re.compile(r":(?=[a-z_]+=)")


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """The name and the options in `text`.

    >>> split_name("beats:threshold=0.5:weights=C:/beats.pt")
    ('beats', {'threshold': '0.5', 'weights': 'C:/beats.pt'})
    """
    name, *options = _OPTION.split(text)
    return name, dict(option.split("=", 1) for option in options)


def option_types(kind: Callable[..., object]) -> dict[str, Any]:
    """The options of an encoder and the type each has; none where it is not a dataclass.

    `kind` is what makes it: its class, or the class with some options given already.
    """
    made: Any = kind.func if isinstance(kind, partial) else kind
    if not is_dataclass(made):
        return {}
    hints = get_type_hints(made)
    return {each.name: hints[each.name] for each in fields(made) if each.name not in NOT_OPTIONS}


def make_encoder(kind: Callable[..., Built], text: str, *, as_detector: bool = False) -> Built:
    """What `kind`, which `text` names, makes of the options in `text`.

    With `as_detector` it is to rank moments by itself, also where its features are no score. A
    `ValueError` says which options there are.
    """
    name, options = split_name(text)
    types = option_types(kind)
    if as_detector and ACTIVITY in get_args(types.get("reads")):
        options = {"reads": ACTIVITY, **options}
    return kind(**_parse_options(name, types, options))


def with_machine_options(encoder: Encoder, options: Mapping[str, str]) -> Encoder:
    """The same encoder on another machine: `MACHINE_OPTIONS` alone may change."""
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
    """The options that change what is heard, for a gate to remember: none of `MACHINE_OPTIONS`.

    An encoder whose weights a user brings is held to them: `expects` is what they are now.
    """
    made: Any = encoder
    kept = [name for name in option_types(type(made)) if name not in MACHINE_OPTIONS]
    options = {name: getattr(made, name) for name in kept}
    return options | ({"expects": made.fingerprint()} if "expects" in options else {})


def _parse_options(
    name: str, types: Mapping[str, Any], options: Mapping[str, str]
) -> dict[str, Any]:
    """The options as their fields have them."""
    for option in options:
        if option not in types:
            known = ", ".join(types) or "none"
            raise ValueError(f"{name} has no option {option!r}; it has {known}")
    return {key: _parse_option(f"{name}: {key}", text, types[key]) for key, text in options.items()}


def _parse_option(option: str, text: str, wanted: Any) -> Any:
    if get_origin(wanted) is UnionType:  # such as `float | None`
        wanted = next(kind for kind in get_args(wanted) if kind is not type(None))
    if get_origin(wanted) is Literal:
        wanted = str  # its encoder knows which words there are
    if wanted is bool and text in ("true", "false"):
        return text == "true"
    if wanted not in (int, float, str, Path):
        raise ValueError(f"{option} cannot be given in words")
    try:
        return wanted(text)
    except ValueError:
        raise ValueError(f"{option} is a number, not {text!r}") from None


def encoder_files(name: str) -> dict[str, str]:
    """What the encoder `name` needs of the catalogue, by the option that says where it lies."""
    return {"weights": name} if name in PRETRAINED else FILES.get(name, {})


def weights_options(folder: Path, name: str) -> dict[str, str]:
    """The options that say where in `folder` the files of `name` lie; none unless all do."""
    if name in PRETRAINED:
        try:
            return {"weights": str(find_checkpoint(name, folder))} if folder.is_dir() else {}
        except ModelMismatch:
            return {}
    found = {key: folder / MODELS[each].file for key, each in encoder_files(name).items()}
    return {key: str(file) for key, file in found.items() if all(map(Path.is_file, found.values()))}
