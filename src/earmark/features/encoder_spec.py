"""Encoders from words: a name and, after colons, its options.

beats                                         as it is, with the checkpoint on the user's shelf
beats:weights=/data/BEATs_strong_1.pt         with a checkpoint of one's own
beats:threshold=0.5                           what is below counts as nothing
atst-frame:reads=embeddings:drop_layers=2     what a gate is to read
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from earmark.features.encoder import Encoder

PLACES = ("weights", "queries", "device", "batch", "threads")
"""Options of the machine: where files lie and how a model is run, not what is heard."""

_OPTION = re.compile(r":(?=[a-z_]+=)")


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """The name and the options in `text`.

    >>> split_name("beats:threshold=0.5:weights=C:/beats.pt")
    ('beats', {'threshold': '0.5', 'weights': 'C:/beats.pt'})
    """
    name, *options = _OPTION.split(text)
    return name, dict(option.split("=", 1) for option in options)


def make_named(text: str, kinds: Mapping[str, Callable[..., Encoder]]) -> Encoder:
    """The one of `kinds` that `text` names, with the options in it.

    Raises:
        ValueError: no such name, no such option, or a value that is none for it; the message says
            what there is.
    """
    name, options = split_name(text)
    if name not in kinds:
        raise ValueError(f"there is no encoder {name!r}; there are {', '.join(kinds)}")
    make = kinds[name]
    kind: Any = make.func if isinstance(make, partial) else make
    return make(**_values(name, kind, options))


def moved(encoder: Encoder, options: Mapping[str, str]) -> Encoder:
    """The same encoder on another machine: `PLACES` alone may change."""
    made: Any = encoder
    for option in options:
        if option not in PLACES:
            raise ValueError(
                f"a gate fixes {option!r} of its encoder; only {', '.join(PLACES)} may be given"
            )
    return cast(Encoder, replace(made, **_values(type(made).__name__, type(made), options)))


def portable(encoder: Encoder) -> dict[str, Any]:
    """The options that change what is heard, for a gate to remember: none of `PLACES`.

    An encoder whose weights a user brings is held to them: `expects` is what they are now.
    """
    made: Any = encoder
    options = {name: each for name, each in asdict(made).items() if name not in PLACES}
    return options | ({"expects": made.fingerprint()} if "expects" in options else {})


def _values(name: str, kind: type, options: Mapping[str, str]) -> dict[str, Any]:
    """The options as their fields have them."""
    hints, known = get_type_hints(kind), [field.name for field in fields(kind)]
    for option in options:
        if option not in known:
            raise ValueError(
                f"{name} has no option {option!r}; it has {', '.join(known) or 'none'}"
            )
    return {key: _value(name, key, options[key], hints[key]) for key in options}


def _value(name: str, option: str, text: str, wanted: Any) -> Any:
    """`text` as the type that `option` has."""
    if get_origin(wanted) is UnionType:  # such as `float | None`
        wanted = next(kind for kind in get_args(wanted) if kind is not type(None))
    if get_origin(wanted) is Literal:
        wanted = str  # its encoder knows which words there are
    if wanted not in (int, float, str, Path):
        raise ValueError(f"{name}: {option} cannot be given in words")
    try:
        return wanted(text)
    except ValueError:
        raise ValueError(f"{name}: {option} is a number, not {text!r}") from None
