"""Frontlines with the files they are loaded from, where the environment says where these lie."""

from __future__ import annotations

import os
from pathlib import Path

from earmark.errors import EarmarkError
from earmark.features.encoder_spec import encoder_files, options_in, split_name
from earmark.gate.frontline_registry import SUFFIX
from earmark.gate.gate import Gate
from earmark.models import ModelStore
from earmark.models.user_folders import CACHE, CHECKPOINTS, checkpoint_folder, model_store


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
