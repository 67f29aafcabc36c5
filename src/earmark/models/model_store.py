"""The model store, a folder of checkpoints without partial files; and the user's folders."""

from __future__ import annotations

import hashlib
import os
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from earmark.errors import ModelMismatch, ModelMissing
from earmark.media.atomic_file import replacing
from earmark.models.catalogue import Model, find_model
from earmark.models.download import Origin, read_chunks

State = Literal["here", "absent", "damaged"]
"""`damaged`: the size is not the published one."""

BytesProgress = Callable[[int, int | None], None]
"""Bytes so far, and in all, None if unknown."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    name: str
    path: Path
    origin: str
    size_bytes: int
    sha256: str
    is_verified: bool
    seconds: float
    tried: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        yield (
            f"{self.name}: {self.size_bytes:,} bytes from {self.origin} "
            f"in {self.seconds:.1f} s, stored as {self.path}"
        )
        if self.is_verified:
            yield f"sha256 {self.sha256}, {find_model(self.name).proof}"

    def warnings(self) -> Iterator[str]:
        for reason in self.tried:
            yield f"skipped: {reason}"
        if not self.is_verified and find_model(self.name).origins:
            yield f"{self.name} has no published hash to check; its sha256 is {self.sha256}"


@dataclass(frozen=True, slots=True)
class ModelStore:
    folder: Path = field(default_factory=lambda: Path.home() / ".cache" / "earmark" / "models")

    @classmethod
    def at(cls, folder: Path | str | None) -> ModelStore:
        return cls() if folder is None else cls(Path(folder).expanduser())

    def path(self, name: str) -> Path:
        return self.folder / find_model(name).file

    def describe(self, model: Model) -> dict[str, Any]:
        """None for what is not known."""
        names = ("name", "file", "purpose", "title", "licence", "size_bytes", "sha256")
        plain = {name: getattr(model, name) for name in names}
        return plain | {
            "state": self.state(model.name),
            "path": str(self.path(model.name)),
            "extra": model.extra or None,
            "origins": [*map(str, model.origins)],
        }

    def state(self, name: str) -> State:
        """Judged by size only, since hashing reads the whole file."""
        model = find_model(name)
        path = self.folder / model.file
        if not path.is_file():
            return "absent"
        return "here" if model.size_bytes in (None, path.stat().st_size) else "damaged"

    def find(self, name: str) -> Path:
        """`ModelMissing` if it is not here, or is another file than the published one."""
        state, path, model = self.state(name), self.path(name), find_model(name)
        problem = "is not" if state == "absent" else "is cut off"
        if state == "here":
            status = path.stat()
            file = (path, status.st_size, status.st_mtime_ns, status.st_ino)
            if model.sha256 in (None, _hash_file(*file)):
                return path
            problem = "is damaged or another file"
        fetch = f"fetch it with `earmark models get {name}`, or "
        raise ModelMissing(
            f"{path.name} {problem} in {self.folder}; {fetch if model.origins else ''}"
            f"add it with `earmark models add {name} FILE`"
        )

    def add(self, name: str, file: Path, *, progress: BytesProgress | None = None) -> StoredModel:
        model = find_model(name)
        try:
            stream = file.open("rb")
        except OSError as error:
            raise ModelMissing(f"{file} cannot be read ({error.strerror or error})") from error
        with stream:
            return self._write(model, read_chunks(stream), str(file), progress)

    def get(
        self,
        name: str,
        *,
        origins: Sequence[Origin] | None = None,
        progress: BytesProgress | None = None,
    ) -> StoredModel:
        """From the first of `origins` that works; no partial file is left if all fail.

        A model whose hash is not known is refused: `add` takes the file that you downloaded.
        """
        model, began = find_model(name), time.monotonic()
        if model.origins and model.sha256 is None:
            raise ModelMissing(
                f"no hash is known for {name}, so its download cannot be checked: if you trust "
                f"{model.origins[0]}, download {model.file} yourself and run "
                f"`earmark models add {name} FILE`"
            )
        tried: list[str] = []
        for origin in model.origins if origins is None else origins:
            try:
                with origin.open() as chunks:
                    stored = self._write(model, chunks, str(origin), progress)
                return replace(stored, seconds=time.monotonic() - began, tried=tuple(tried))
            except (ModelMissing, ModelMismatch) as error:
                tried.append(str(error))
        why = "; ".join(tried) or "it has no public download"
        raise ModelMissing(
            f"{name} cannot be fetched: {why}; get the file {model.file} from elsewhere and run "
            f"`earmark models add {name} FILE`"
        )

    def _write(
        self, model: Model, chunks: Iterable[bytes], origin: str, progress: BytesProgress | None
    ) -> StoredModel:
        began, digest, size = time.monotonic(), hashlib.sha256(), 0
        path = self.folder / model.file
        with replacing(path) as scratch:
            with scratch.open("wb") as file:
                for chunk in chunks:
                    digest.update(chunk)
                    size += file.write(chunk)
                    if size > (model.size_bytes or size):
                        break  # another file, or one without end
                    if progress is not None:
                        progress(size, model.size_bytes)
            model.check(size, digest.hexdigest(), origin)
            with scratch.open("rb") as file:
                is_archive = file.read(4) == b"PK\x03\x04"
            if is_archive and not zipfile.is_zipfile(scratch):  # its end is missing
                raise ModelMismatch(f"{origin} gave a file that is cut off; it was not stored")
        facts = (size, digest.hexdigest(), model.sha256 is not None, time.monotonic() - began)
        return StoredModel(model.name, path, origin, *facts)


@lru_cache(maxsize=64)
def _hash_file(path: Path, *_: int) -> str:
    """Once for each size, time and inode."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_checkpoint(name: str, path: Path) -> Path:
    """`path` is the file or its folder."""
    model = find_model(name)
    if path.is_file():
        return path
    inside = [path / file for file in model.files if (path / file).is_file()]
    if not inside:
        where = f"in {path}" if path.is_dir() else f"at {path}"
        raise ModelMismatch(f"{name} needs its checkpoint {model.file}; there is none {where}")
    return inside[0]


CHECKPOINTS = "EARMARK_CHECKPOINTS"

CACHE = "EARMARK_CACHE"
"""Without it, `earmark` in `XDG_CACHE_HOME`."""


def checkpoint_folder() -> Path | None:
    text = os.environ.get(CHECKPOINTS)
    return Path(text).expanduser() if text else None


def cache_folder() -> Path:
    """Default `~/.cache/earmark`."""
    if own := os.environ.get(CACHE):
        return Path(own).expanduser()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "earmark"


def model_store(folder: Path | None = None) -> ModelStore:
    return ModelStore((folder or cache_folder() / "models").expanduser())
