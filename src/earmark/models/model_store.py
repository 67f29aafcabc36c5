"""The folder checkpoints are kept in: a file there is whole, or it is not there."""

from __future__ import annotations

import hashlib
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from earmark.errors import ModelMismatch, ModelMissing
from earmark.media.atomic_file import replacing
from earmark.models.catalogue import Checkpoint, checkpoint_named
from earmark.models.download import Origin, Readable

CHUNK = 1 << 20

State = Literal["here", "absent", "damaged"]
"""`damaged`: a file of that name whose size is not the published one."""

Progress = Callable[[int, int | None], None]
"""Told the bytes so far, and in all where that is known."""


def default_folder() -> Path:
    """The folder of the user who runs this: `.cache/earmark/models` at home."""
    return Path.home() / ".cache" / "earmark" / "models"


@dataclass(frozen=True, slots=True)
class Got:
    """A checkpoint that has just been put on the shelf."""

    name: str
    path: Path
    origin: str
    """Where it came from, for a person."""
    size_bytes: int
    sha256: str
    is_proven: bool
    """Whether the hash is the one in the catalogue; False where the catalogue knows none."""
    seconds: float
    tried: tuple[str, ...] = ()
    """Why earlier sources were passed over, a line each."""


@dataclass(frozen=True, slots=True)
class ModelStore:
    """A folder of checkpoints under their published file names."""

    folder: Path = field(default_factory=default_folder)

    def path(self, name: str) -> Path:
        """Where the checkpoint called `name` lies or would lie."""
        return self.folder / checkpoint_named(name).file

    def state(self, name: str) -> State:
        """Whether it is here, judged by its size alone: hashing it takes as long as reading it."""
        size, path = checkpoint_named(name).size_bytes, self.path(name)
        if not path.is_file():
            return "absent"
        return "here" if size in (None, path.stat().st_size) else "damaged"

    def find(self, name: str) -> Path:
        """The file of a checkpoint that is here.

        Raises:
            ModelMissing: it is not, or its size is wrong; says how to get it.
        """
        state, path = self.state(name), self.path(name)
        if state == "here":
            return path
        found = f"{path.name} is not in" if state == "absent" else f"{path.name} is cut off in"
        fetch = f"fetch it with `earmark models get {name}`, or "
        raise ModelMissing(
            f"{found} {self.folder}; {fetch if checkpoint_named(name).origins else ''}"
            f"bring it with `earmark models add {name} FILE`"
        )

    def add(self, name: str, file: Path, *, progress: Progress | None = None) -> Got:
        """Copy `file` onto the shelf as the checkpoint called `name`.

        Raises:
            ModelMismatch: its size or hash is not the published one.
            ModelMissing: it cannot be read.
        """
        checkpoint = checkpoint_named(name)
        try:
            stream = file.open("rb")
        except OSError as error:
            raise ModelMissing(f"{file} cannot be read ({error.strerror or error})") from error
        with stream:
            return self._keep(checkpoint, stream, str(file), progress=progress)

    def get(
        self,
        name: str,
        *,
        origins: Sequence[Origin] | None = None,
        progress: Progress | None = None,
    ) -> Got:
        """Fetch the checkpoint called `name` from the first source that has it whole.

        Args:
            name: One of the catalogue.
            origins: Where to look, in order; those of the catalogue by default.
            progress: Told how much has come.

        Raises:
            ModelMissing: no source has it, each with its reason; nothing is left behind.
        """
        checkpoint, began = checkpoint_named(name), time.monotonic()
        tried: list[str] = []
        for origin in checkpoint.origins if origins is None else origins:
            try:
                with origin.open() as stream:
                    got = self._keep(checkpoint, stream, str(origin), progress=progress)
                return replace(got, seconds=time.monotonic() - began, tried=tuple(tried))
            except (ModelMissing, ModelMismatch) as error:
                tried.append(str(error))
        why = "; ".join(tried) or "nobody publishes it where a program may fetch it"
        raise ModelMissing(
            f"{name} cannot be had: {why}; bring the file {checkpoint.file} from elsewhere and run "
            f"`earmark models add {name} FILE`"
        )

    def _keep(
        self, checkpoint: Checkpoint, stream: Readable, origin: str, *, progress: Progress | None
    ) -> Got:
        """Write what `stream` holds to its place, if it is what it should be."""
        began, digest, size = time.monotonic(), hashlib.sha256(), 0
        with replacing(self.folder / checkpoint.file) as scratch:
            with scratch.open("wb") as file:
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
                    size += file.write(chunk)
                    if progress is not None:
                        progress(size, checkpoint.size_bytes)
            checkpoint.check(size, digest.hexdigest(), origin)
            _check_archive(scratch, origin)
        return Got(
            name=checkpoint.name,
            path=self.folder / checkpoint.file,
            origin=origin,
            size_bytes=size,
            sha256=digest.hexdigest(),
            is_proven=checkpoint.sha256 is not None,
            seconds=time.monotonic() - began,
        )


def _check_archive(file: Path, origin: str) -> None:
    """Raise `ModelMismatch` for an archive without its end, whoever knows its hash or not."""
    with file.open("rb") as opened:
        is_archive = opened.read(4) == b"PK\x03\x04"
    if is_archive and not zipfile.is_zipfile(file):
        raise ModelMismatch(f"{origin} gave a file that is cut off; it was not kept")
