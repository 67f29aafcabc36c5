"""Which files of the catalogue an encoder needs, and where in a folder they lie."""

from __future__ import annotations

from pathlib import Path

from earmark.errors import ModelMismatch
from earmark.models import MODELS, PRETRAINED, find_checkpoint

FILES = {"yamnet": {"weights": "yamnet"}, "dasm": {"weights": "dasm", "queries": "dasm-queries"}}
"""Of encoders that are no published PyTorch models."""


def encoder_files(name: str) -> dict[str, str]:
    """What the encoder `name` needs of the catalogue, by the option that says where it lies."""
    return {"weights": name} if name in PRETRAINED else FILES.get(name, {})


def options_in(folder: Path, name: str) -> dict[str, str]:
    """The options that say where in `folder` the files of `name` lie; none unless all do."""
    if name in PRETRAINED:
        try:
            return {"weights": str(find_checkpoint(name, folder))} if folder.is_dir() else {}
        except ModelMismatch:
            return {}
    found = {key: folder / MODELS[each].file for key, each in encoder_files(name).items()}
    return {key: str(file) for key, file in found.items() if all(map(Path.is_file, found.values()))}
