"""Frontlines by name, for the command line, the benchmarks and the docs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from earmark.errors import EarmarkError
from earmark.features import ENCODERS
from earmark.features.encoder import Encoder
from earmark.features.encoder_spec import encoder_files, make_encoder, split_name, weights_options
from earmark.gate.frontline import Frontline
from earmark.gate.gate import Gate, default_gate
from earmark.models import ModelStore
from earmark.models.registry import Registry
from earmark.models.user_folders import CACHE, CHECKPOINTS, checkpoint_folder, model_store

AUTO = "auto"
"""The best frontline: the gate that comes with earmark, or the sizes of the video packets where
nothing can be heard."""

GATE = "gate"
"""Name of the gate that comes with earmark."""

SUFFIX = ".gate"
"""Ending of names that are the user's own gate files."""


def default_frontline() -> Frontline:
    """The gate that comes with earmark, ready to listen."""
    return default_gate().frontline()


PACKETS = "packets:drift=600.0"
"""Fallback of `auto` where nothing can be heard: packet sizes relative to ten minutes around, so
that a bout of work stands out from the stillness before it."""

FRONTLINES: Registry[Callable[..., Encoder | Frontline]] = Registry(
    "earmark.frontlines",
    {GATE: default_frontline, "energy": "earmark.gate.energy_frontline:energy_frontline"},
    kind="frontline",
    includes=ENCODERS,
)
"""Makers of frontlines by name, besides `auto` and gate files: a function that returns a frontline,
or an encoder, whose features are then the score, with generic rates."""


def gate_of(name: str) -> Gate | None:
    """The gate of the frontline called `name`; none if it has no trained head."""
    kind, _ = split_name(name)
    if kind in (AUTO, GATE):
        return default_gate()
    return Gate.load(Path(kind)) if kind.endswith(SUFFIX) else None


def frontline_named(name: str | Frontline) -> Frontline:
    """The frontline called `name`, or that of the gate file `name`; a `Frontline` stays as it is.

    Options of an encoder follow its name after colons: see `earmark.features.encoder_spec`. Those
    of a gate are fixed, except the paths of its encoder's files and the device it runs on.

    Raises:
        ValueError: unknown frontline or option; the message lists the known ones.
        ModelMismatch: the gate file is damaged or does not fit this version.
    """
    if isinstance(name, Frontline):
        return name
    if not isinstance(name, str):
        raise ValueError(f"a frontline is a name or a Frontline, not {name!r}")
    if name == AUTO:
        return replace(default_gate().frontline(), fallback=PACKETS)
    kind, options = split_name(name)
    if kind.endswith(SUFFIX):
        made = Gate.load(Path(kind)).frontline(name=Path(kind).name, places=options)
        return replace(made, spec=f"{Path(kind).absolute()}{name.removeprefix(kind)}")
    kind = GATE if kind == AUTO else kind
    if kind not in FRONTLINES:
        raise ValueError(
            f"there is no frontline {name!r}; there are {AUTO}, {', '.join(FRONTLINES)}, "
            f"and your own gate files ({SUFFIX})"
        )
    encoder = make_encoder(FRONTLINES[kind], name, as_detector=True)
    if isinstance(encoder, Frontline):
        return encoder
    shown = [f"{key}={value}" for key, value in options.items() if key != "store"]
    return Frontline(":".join([kind, *shown]), encoder, spec=name)


def with_checkpoints(names: str) -> str:
    """The comma-separated `names`, each with the paths of its files from the environment.

    Names that give their paths, or need no files, are unchanged.
    """
    if not os.environ.keys() & {CHECKPOINTS, CACHE, "XDG_CACHE_HOME"}:
        return names
    return ",".join(map(_located, names.split(",")))


def _located(text: str) -> str:
    """`text`, the name of an encoder or of a gate file, with the paths of its files."""
    name, options = split_name(text)
    needed = encoder_files(_encoder_of(name))
    if not needed or options.keys() & {"store", *needed}:
        return text
    folder = checkpoint_folder()
    found = weights_options(folder, _encoder_of(name)) if folder else {}
    if not found and model_store() != ModelStore():
        found = {"store": str(model_store().folder)}
    return "".join([text, *(f":{key}={file}" for key, file in found.items())])


def _encoder_of(name: str) -> str:
    """The encoder of a frontline: `name` itself, or the encoder on the card of a gate file.

    Empty if the gate file cannot be read.
    """
    if not name.endswith(SUFFIX):
        return name
    try:
        return Gate.load(Path(name)).card.encoder
    except EarmarkError:
        return ""  # the error is raised when the gate is opened
