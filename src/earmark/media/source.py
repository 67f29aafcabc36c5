"""Where recordings lie, by path or address, and what to call them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from earmark.redaction import redact_url

_REMOTE = re.compile(r"^[a-z][a-z0-9+.-]+://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """Where one recording lies: one file or address, or its chapters in order.

    >>> Source(("a/GX010042.MP4", "a/GX020042.MP4")).name
    'a/GX010042.MP4 and 1 more'
    """

    uris: tuple[str, ...]
    id: str = ""
    """What a manifest calls it; empty where none does."""
    weight: float = 1.0
    """What an action in it is worth beside those in others, where recordings share a budget."""

    def __post_init__(self) -> None:
        if not self.uris:
            raise ValueError("a source needs at least one file or address")

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """What to call it in a message: its id, or where the first file is and how many follow."""
        if self.id:
            return self.id
        first = place_of(self.uris[0])
        return first if len(self.uris) == 1 else f"{first} and {len(self.uris) - 1} more"

    @property
    def path(self) -> str:
        """Where its first file lies, as that may be kept and shown: see `paths`."""
        return redact_url(self.uris[0]) if is_remote(self.uris[0]) else self.uris[0]

    @property
    def paths(self) -> tuple[str, ...]:
        """Its files and addresses, without what is secret in them."""
        return tuple(redact_url(uri) if is_remote(uri) else uri for uri in self.uris)


def is_remote(uri: str) -> bool:
    """Whether `uri` is an address such as `https://…` or `s3://…`, not a path.

    >>> is_remote("s3://bucket/a.mp4"), is_remote("C:/a.mp4")
    (True, False)
    """
    return bool(_REMOTE.match(uri))


def is_web(uri: str) -> bool:
    """Whether `uri` is an address of the web: one that has no folders to list."""
    return uri.lower().startswith(("http://", "https://"))


def place_of(uri: str) -> str:
    """Which file a message is about: a path as it was given, an address without its secrets.

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


def suffix_of(uri: str) -> str:
    """The ending of its name, in lower case, with the dot; empty where there is none."""
    path = unquote(urlsplit(uri).path) if is_remote(uri) else uri
    return PurePosixPath(path).suffix.lower()


def absolute_path(path: str) -> str:
    """A local path from the root, whatever folder a later command starts in; a URL as it is."""
    return path if is_remote(path) else str(Path(path).absolute())


def stored_path(path: str) -> str:
    """The same as it is kept: as text, and without what is secret in a URL."""
    return storable_text(redact_url(absolute_path(path)))


def storable_text(words: str) -> str:
    """The words as text a database can hold: half of a surrogate pair becomes a question mark."""
    return words.encode("utf-8", "replace").decode()
