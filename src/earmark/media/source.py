"""Paths and URLs of recordings, and their names in messages."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from earmark.redaction import redact_url

LONGEST_FOLDER = 200
"""Most bytes of the name of a run's folder: file systems take 255, and numbers are added to it."""

_REMOTE = re.compile(r"^[a-z][a-z0-9+.-]+://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """The location of one recording: a path or URL, or those of its chapters in order.

    >>> Source(("a/GX010042.MP4", "a/GX020042.MP4")).name
    'a/GX010042.MP4 and 1 more'
    """

    uris: tuple[str, ...]
    id: str = ""
    """Its id in a manifest; empty without one."""
    weight: float = 1.0
    """Relative value of an action in it, if recordings share a budget."""

    def __post_init__(self) -> None:
        if not self.uris:
            raise ValueError("a source needs at least one file or address")

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Its name in messages: its id, or its first file and how many follow."""
        if self.id:
            return self.id
        first = place_of(self.uris[0])
        return first if len(self.uris) == 1 else f"{first} and {len(self.uris) - 1} more"

    @property
    def path(self) -> str:
        """The first of `paths`."""
        return redact_url(self.uris[0]) if is_remote(self.uris[0]) else self.uris[0]

    @property
    def paths(self) -> tuple[str, ...]:
        """Its paths and URLs without secrets, fit to be stored and shown."""
        return tuple(redact_url(uri) if is_remote(uri) else uri for uri in self.uris)


def is_remote(uri: str) -> bool:
    """Whether `uri` is an address such as `https://…` or `s3://…`, not a path.

    >>> is_remote("s3://bucket/a.mp4"), is_remote("C:/a.mp4")
    (True, False)
    """
    return bool(_REMOTE.match(uri))


def is_web(uri: str) -> bool:
    """Whether `uri` is an HTTP address, which has no folders to list."""
    return uri.lower().startswith(("http://", "https://"))


def place_of(uri: str) -> str:
    """The path or URL for a message: a path as given, a URL without its secrets.

    >>> place_of("cam/a.mp4"), place_of("https://me:key@host/a.mp4")
    ('cam/a.mp4', 'https://host/a.mp4?***')
    """
    place = redact_url(uri) if is_remote(uri) else uri
    return place if place.isprintable() else ascii(place)  # a name may hold any byte


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
    """A name for a folder of a run, made of the letters and digits of `words`.

    A name of more than `LONGEST_FOLDER` bytes is cut and ends with a hash of the whole.

    >>> folder_name("find: a drill?"), folder_name("...")
    ('find_a_drill', 'run')
    """
    name = re.sub(r"[^\w.+-]+", "_", words).encode("utf-8", "ignore")
    if len(name) > LONGEST_FOLDER:
        name = name[:LONGEST_FOLDER] + f"-{hashlib.sha256(name).hexdigest()[:8]}".encode()
    return name.decode("utf-8", "ignore").strip("._-") or "run"


def suffix_of(uri: str) -> str:
    """The suffix of its name, in lower case, with the dot; empty if there is none."""
    path = unquote(urlsplit(uri).path) if is_remote(uri) else uri
    return PurePosixPath(path).suffix.lower()


def absolute_path(path: str) -> str:
    """A local path made absolute; a URL unchanged."""
    return path if is_remote(path) else str(Path(path).absolute())


def stored_path(path: str) -> str:
    """The absolute path as it is stored: valid text, without secrets in a URL."""
    return storable_text(redact_url(absolute_path(path)))


def storable_text(words: str) -> str:
    """Text that a database can store: lone surrogates become question marks."""
    return words.encode("utf-8", "replace").decode()
