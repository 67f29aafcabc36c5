"""The user's folders for models and caches, from environment variables."""

from __future__ import annotations

import os
from pathlib import Path

from earmark.models.model_store import ModelStore

CHECKPOINTS = "EARMARK_CHECKPOINTS"
"""A folder of checkpoints under their published names, searched before the model store."""

CACHE = "EARMARK_CACHE"
"""The folder of models and caches; without it, `earmark` in `XDG_CACHE_HOME`."""


def checkpoint_folder() -> Path | None:
    """The folder in `EARMARK_CHECKPOINTS`; None if it is not set."""
    text = os.environ.get(CHECKPOINTS)
    return Path(text).expanduser() if text else None


def cache_folder() -> Path:
    """The folder of scores and models from the environment; default `~/.cache/earmark`."""
    if own := os.environ.get(CACHE):
        return Path(own).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "earmark"


def model_store(folder: Path | None = None) -> ModelStore:
    """The model store in `folder`; None for the user's own."""
    return ModelStore((folder or cache_folder() / "models").expanduser())
