"""Where a user keeps what can be fetched or made again: what the environment says of it."""

from __future__ import annotations

import os
from pathlib import Path

from earmark.models.model_store import ModelStore

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
    return ModelStore((folder or cache_folder() / "models").expanduser())
