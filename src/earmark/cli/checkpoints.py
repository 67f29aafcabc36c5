"""Where the environment says models lie, put behind the names of what needs them."""

from __future__ import annotations

import os
from pathlib import Path

from earmark.errors import EarmarkError
from earmark.features.encoder_files import encoder_files, options_in
from earmark.features.encoder_spec import split_name
from earmark.gate.frontline_registry import SUFFIX
from earmark.gate.gate import Gate
from earmark.models import ModelStore

CHECKPOINTS = "EARMARK_CHECKPOINTS"
"""A folder of checkpoints under their published names, looked in before the model store."""

CACHE = "EARMARK_CACHE"
"""The folder of all that can be fetched or made again; else `earmark` in `XDG_CACHE_HOME`."""


def checkpoint_folder() -> Path | None:
    """Where `EARMARK_CHECKPOINTS` points; None where it is not set."""
    text = os.environ.get(CHECKPOINTS)
    return Path(text).expanduser() if text else None


def cache_folder() -> Path:
    """Where scores and models are kept, as the environment says; `~/.cache/earmark` if not."""
    if own := os.environ.get(CACHE):
        return Path(own).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "earmark"


def model_store(folder: Path | None = None) -> ModelStore:
    """The model store in `folder`, else the user's own."""
    return ModelStore.at(folder or cache_folder() / "models")


def with_checkpoints(names: str) -> str:
    """Each of `names`, which have commas between them, with where the environment has its files.

    What says itself where its files are is left alone, and so is what needs none.
    """
    if not os.environ.keys() & {CHECKPOINTS, CACHE, "XDG_CACHE_HOME"}:
        return names
    return ",".join(map(_located, names.split(",")))


def _located(text: str) -> str:
    """`text`, the name of an encoder or of a gate file, with where its files lie."""
    name, options = split_name(text)
    needed = encoder_files(_encoder_of(name))
    if not needed or options.keys() & {"store", *needed}:
        return text
    folder = checkpoint_folder()
    found = options_in(folder, _encoder_of(name)) if folder else {}
    if not found and model_store() != ModelStore():
        found = {"store": str(model_store().folder)}
    return "".join([text, *(f":{key}={file}" for key, file in found.items())])


def _encoder_of(name: str) -> str:
    """The encoder a frontline needs: its own name, or what the card of a gate file says."""
    if not name.endswith(SUFFIX):
        return name
    try:
        return Gate.load(Path(name)).card.encoder
    except EarmarkError:
        return ""  # whoever opens it says what is wrong
