"""The model store: a folder of checkpoints, without partial files."""

from __future__ import annotations

import hashlib
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from earmark.errors import ModelMismatch, ModelMissing
from earmark.media.atomic_file import replacing
from earmark.models.catalogue import MODELS, Model
from earmark.models.download import Origin, read_chunks

State = Literal["here", "absent", "damaged"]
"""`damaged`: a file of that name whose size is not the published one."""

BytesProgress = Callable[[int, int | None], None]
"""Called with the bytes so far, and the bytes in all, None if unknown."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A checkpoint that was just added to the store."""

    name: str
    path: Path
    origin: str
    """Where it came from, for messages."""
    size_bytes: int
    sha256: str
    is_verified: bool
    """Whether the hash equals the catalogue's; False if the catalogue has none."""
    seconds: float
    tried: tuple[str, ...] = ()
    """Why earlier origins failed, one line each."""


@dataclass(frozen=True, slots=True)
class ModelStore:
    """A folder of checkpoints under their published file names."""

    folder: Path = field(default_factory=lambda: Path.home() / ".cache" / "earmark" / "models")

    @classmethod
    def at(cls, folder: Path | str | None) -> ModelStore:
        """The store in `folder`; the user's own if None."""
        return cls() if folder is None else cls(Path(folder).expanduser())

    def path(self, name: str) -> Path:
        """The path of the checkpoint `name`, whether or not it exists."""
        return self.folder / MODELS.named(name).file

    def state(self, name: str) -> State:
        """Whether it is here, judged by its size only, since hashing reads the whole file."""
        model = MODELS.named(name)
        path = self.folder / model.file
        if not path.is_file():
            return "absent"
        return "here" if model.size_bytes in (None, path.stat().st_size) else "damaged"

    def find(self, name: str) -> Path:
        """The file of the checkpoint `name`.

        For a PyTorch model without a checkpoint or without PyTorch, the exported ONNX file beside
        it. `ModelMissing` if it is absent or has the wrong size; the message says how to get it.
        """
        state, path, model = self.state(name), self.path(name), MODELS.named(name)
        exported = path.with_suffix(".onnx")
        if model.architecture is not None and exported.is_file():
            return path if state == "here" and find_spec("torch") else exported
        if state == "here":
            return path
        found = f"{path.name} is not in" if state == "absent" else f"{path.name} is cut off in"
        fetch = f"fetch it with `earmark models get {name}`, or "
        raise ModelMissing(
            f"{found} {self.folder}; {fetch if model.origins else ''}"
            f"bring it with `earmark models add {name} FILE`"
        )

    def add(self, name: str, file: Path, *, progress: BytesProgress | None = None) -> StoredModel:
        """Copy `file` into the store as `name`; `ModelMismatch` unless size and hash are right."""
        model = MODELS.named(name)
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
        """Download the checkpoint `name` from the first of `origins` that works.

        The default is the origins of the catalogue. If all fail, `ModelMissing` has the reason of
        each, and no partial file is left.
        """
        model, began = MODELS.named(name), time.monotonic()
        tried: list[str] = []
        for origin in model.origins if origins is None else origins:
            try:
                with origin.open() as chunks:
                    stored = self._write(model, chunks, str(origin), progress)
                return replace(stored, seconds=time.monotonic() - began, tried=tuple(tried))
            except (ModelMissing, ModelMismatch) as error:
                tried.append(str(error))
        why = "; ".join(tried) or "nobody publishes it where a program may fetch it"
        raise ModelMissing(
            f"{name} cannot be had: {why}; bring the file {model.file} from elsewhere and run "
            f"`earmark models add {name} FILE`"
        )

    def _write(
        self, model: Model, chunks: Iterable[bytes], origin: str, progress: BytesProgress | None
    ) -> StoredModel:
        """Write `chunks` to the file of `model`; `ModelMismatch` if size or hash are wrong."""
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
                raise ModelMismatch(f"{origin} gave a file that is cut off; it was not kept")
        facts = (size, digest.hexdigest(), model.sha256 is not None, time.monotonic() - began)
        return StoredModel(model.name, path, origin, *facts)


def find_checkpoint(name: str, place: Path) -> Path:
    """The weights of the PyTorch model `name` at `place`, a file or a folder that contains it.

    A folder may contain an exported model, which is preferred if PyTorch is not installed.
    `ModelMismatch` if there is neither.
    """
    known = MODELS.named(name)
    if place.is_file():
        return place
    exported = tuple(str(Path(file).with_suffix(".onnx")) for file in known.files)
    names = (*known.files, *exported) if find_spec("torch") else (*exported, *known.files)
    inside = [place / file for file in names if (place / file).is_file()]
    if not inside:
        where = f"in {place}" if place.is_dir() else f"at {place}"
        raise ModelMismatch(f"{name} needs its checkpoint {known.file}; there is none {where}")
    return inside[0]
