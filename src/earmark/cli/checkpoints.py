"""Checkpoints that an environment setting points to, put behind the names of what needs them."""

from __future__ import annotations

import os
from pathlib import Path

from earmark.errors import ModelMismatch
from earmark.features.encoder_spec import split_name
from earmark.features.pretrained import PUBLISHED
from earmark.features.pretrained.catalogue import find_checkpoint
from earmark.models import CATALOGUE

SETTING = "EARMARK_CHECKPOINTS"
"""A folder of checkpoints under their published names, looked in before the user's own."""

NEEDED = {"yamnet": {"weights": "yamnet"}, "dasm": {"weights": "dasm", "queries": "dasm-queries"}}
"""Options that are files of the catalogue, for encoders that are no published PyTorch models."""


def place() -> Path | None:
    """Where the setting points; None where it is not set."""
    text = os.environ.get(SETTING)
    return Path(text).expanduser() if text else None


def with_checkpoints(names: str) -> str:
    """Each of `names`, which have commas between them, with the files that the setting points to.

    What says itself where its files are is left alone, and so is what has none there.
    """
    folder = place()
    if folder is None:
        return names
    return ",".join(_located(text, folder) for text in names.split(","))


def files_at(name: str, folder: Path) -> dict[str, str]:
    """The options that say where in `folder` the files of `name` lie; none unless all do."""
    if name in PUBLISHED:
        try:
            return {"weights": str(find_checkpoint(name, folder))} if folder.is_dir() else {}
        except ModelMismatch:
            return {}
    found = {key: folder / CATALOGUE[each].file for key, each in NEEDED.get(name, {}).items()}
    return {key: str(file) for key, file in found.items() if all(map(Path.is_file, found.values()))}


def _located(text: str, folder: Path) -> str:
    name, options = split_name(text)
    found = {} if options.keys() & {"weights", "queries"} else files_at(name, folder)
    return "".join([text, *(f":{key}={file}" for key, file in found.items())])
