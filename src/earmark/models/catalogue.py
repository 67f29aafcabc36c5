"""The models of `catalogue.toml`: every one that earmark knows by name."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from earmark.errors import MissingExtra, ModelMismatch
from earmark.models.download import Address, Npm, Origin, Wheel

EXTRAS = {
    "yamnet": "ai_edge_litert",
    "vision": "cv2",
    "torch": "torch",
    "search": "tokenizers",
}


HASHED = "2026-11-18"
"""When the hashes of packed weights were taken."""


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    file: str
    title: str
    purpose: str
    licence: str
    extra: str = ""
    """See `install_command`; empty if the core has it."""
    origins: tuple[Origin, ...] = ()
    size_bytes: int | None = None
    sha256: str | None = None
    seconds_per_hour: float | None = None
    """Processor time for an hour of recording, see experiments/frontline-cost.md; None if
    unknown."""
    aliases: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file, *self.aliases)

    @property
    def proof(self) -> str:
        """What the hash says: some weights are only known as somebody packs them."""
        packed = next((origin for origin in self.origins if not isinstance(origin, Address)), None)
        is_packed = packed is not None and packed is self.origins[0]
        return f"as found in {packed} on {HASHED}" if is_packed else "as published"

    def check(self, size_bytes: int, sha256: str, origin: str) -> None:
        if self.size_bytes not in (None, size_bytes):
            raise ModelMismatch(
                f"{origin} gave {size_bytes:,} bytes for {self.file}, which has "
                f"{self.size_bytes:,}; it was not stored"
            )
        if self.sha256 not in (None, sha256):
            raise ModelMismatch(
                f"{origin} gave another file than {self.file}: sha256 {sha256[:12]}… instead of "
                f"{(self.sha256 or '')[:12]}…; it was not stored"
            )
        if size_bytes == 0:
            raise ModelMismatch(f"{origin} gave an empty file for {self.file}; it was not stored")

    def check_file(self, path: Path) -> None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self.check(path.stat().st_size, digest, str(path))


def install_command(extra: str) -> str:
    """PyTorch's extra is of earmark-lab."""
    package = "earmark-lab" if extra == "torch" else "earmark"
    return f"pip install '{package}[{extra}]'"


def require(library: str, *, what: str, extra: str = "torch") -> None:
    """Raise `MissingExtra` unless `library` is installed; it is not imported."""
    if find_spec(library) is None:
        raise MissingExtra(f"{what} needs {library}: {install_command(extra)}")


def _read_model(name: str, row: dict[str, Any]) -> Model:
    origins = tuple(map(_read_origin, row.pop("origins", ())))
    return Model(name, origins=origins, aliases=tuple(row.pop("aliases", ())), **row)


def _read_origin(row: dict[str, Any]) -> Origin:
    if "url" in row:
        return Address(row["url"])
    if "npm" in row:
        return Npm(row["npm"], row["version"], row["member"])
    return Wheel(row["wheel"], row["version"], row["member"], tuple(row.get("tags", ())))


_TABLES = tomllib.loads(files("earmark.models").joinpath("catalogue.toml").read_text("utf-8"))

MODELS = {name: _read_model(name, row) for name, row in _TABLES.items()}

PRETRAINED = tuple(name for name, model in MODELS.items() if model.extra == "torch")
"""Checkpoints that the encoders of earmark-lab read."""

WHISPER = ("whisper-encoder", "whisper-decoder", "whisper-vocabulary", "whisper-settings")

PPOCR = ("ppocr-detection", "ppocr-recognition")

MINILM = ("minilm", "minilm-tokenizer")

SETS = {
    "evidence": ("mn04", "yamnet", "efficientdet-lite0", *PPOCR, "silero-vad", *WHISPER, *MINILM),
}


def find_model(name: str) -> Model:
    if name not in MODELS:
        known = ", ".join(MODELS)
        raise ValueError(f"there is no checkpoint {name!r}; the checkpoints are {known}")
    return MODELS[name]
