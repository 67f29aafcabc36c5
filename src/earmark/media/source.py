from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from earmark.redaction import redact_url

LONGEST_FOLDER = 200  # bytes: file systems take 255, and numbers are added
_REMOTE = re.compile(r"^[a-z][a-z0-9+.-]+://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """The location of one recording: a path or URL, or those of its chapters in order.

    >>> Source(("a/GX010042.MP4", "a/GX020042.MP4")).name
    'a/GX010042.MP4 and 1 more'
    """

    uris: tuple[str, ...]
    id: str = ""
    weight: float = 1.0
    """Relative value of an action in it, if recordings share a budget."""

    def __post_init__(self) -> None:
        if not self.uris:
            raise ValueError("a source needs at least one file or address")

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        if self.id:
            return self.id
        first = place_of(self.uris[0])
        return first if len(self.uris) == 1 else f"{first} and {len(self.uris) - 1} more"

    @property
    def path(self) -> str:
        return self.paths[0]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(redact_url(uri) if is_remote(uri) else uri for uri in self.uris)


def is_remote(uri: str) -> bool:
    """Whether `uri` is an address, not a path.

    >>> is_remote("s3://bucket/a.mp4"), is_remote("C:/a.mp4")
    (True, False)
    """
    return bool(_REMOTE.match(uri))


def is_web(uri: str) -> bool:
    return uri.lower().startswith(("http://", "https://"))


def is_below(uri: str, addresses: str) -> bool:
    """Whether one of the comma-separated `addresses` is `uri` or a folder above it.

    >>> is_below("s3://cams/a.mp4", "s3://cams"), is_below("s3://cams-2/a.mp4", "s3://cams")
    (True, False)
    """
    folders = [address.strip().rstrip("/") for address in addresses.split(",")]
    is_plain = not any(part in ("..", ".") for part in unquote(uri).split("/"))
    return is_plain and any(
        folder and (uri == folder or uri.startswith(f"{folder}/")) for folder in folders
    )


def place_of(uri: str) -> str:
    """A path as given, a URL without its secrets.

    >>> place_of("cam/a.mp4"), place_of("https://me:key@host/a.mp4")
    ('cam/a.mp4', 'https://host/a.mp4?***')
    """
    name = redact_url(uri) if is_remote(uri) else uri
    return name if name.isprintable() else ascii(name)  # a name may hold any byte


def name_of(uri: str) -> str:
    """The last part of a path or address.

    >>> name_of("https://host/folder/a%20b.mp4?token=1")
    'a b.mp4'
    """
    if not is_remote(uri):
        return Path(uri).name or uri
    parts = urlsplit(redact_url(uri))
    return unquote(parts.path).rstrip("/").rpartition("/")[2] or parts.netloc


def folder_name(words: str) -> str:
    """The letters and digits of `words`; a long name is cut and ends with a hash of the whole.

    >>> folder_name("find: a drill?"), folder_name("...")
    ('find_a_drill', 'run')
    """
    name = re.sub(r"[^\w.+-]+", "_", words).encode("utf-8", "ignore")
    if len(name) > LONGEST_FOLDER:
        name = name[:LONGEST_FOLDER] + f"-{hashlib.sha256(name).hexdigest()[:8]}".encode()
    return name.decode("utf-8", "ignore").strip("._-") or "run"


def suffix_of(uri: str) -> str:
    path = unquote(urlsplit(uri).path) if is_remote(uri) else uri
    return PurePosixPath(path).suffix.lower()


def absolute_path(path: str) -> str:
    return path if is_remote(path) else str(Path(path).absolute())


def stored_path(path: str) -> str:
    return storable_text(redact_url(absolute_path(path)))


def storable_text(words: str) -> str:
    """Lone surrogates become question marks, for a database."""
    return words.encode("utf-8", "replace").decode()
