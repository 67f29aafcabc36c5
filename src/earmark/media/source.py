"""Where recordings lie, by path or address, and what to call them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

_REMOTE = re.compile(r"^[a-z][a-z0-9+]+://", re.IGNORECASE)


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

    >>> place_of("cam/a.mp4"), place_of("https://me:key@host/a.mp4?token=1")
    ('cam/a.mp4', 'https://host/a.mp4')
    """
    if is_web(uri):
        parts = urlsplit(uri)
        host = parts.netloc.rpartition("@")[2]
        uri = parts._replace(netloc=host, query="", fragment="").geturl()
    return uri if uri.isprintable() else ascii(uri)  # a name may hold any byte, line ends too


def name_of(uri: str) -> str:
    """The last part of a path or address.

    >>> name_of("https://host/folder/a%20b.mp4?token=1")
    'a b.mp4'
    """
    if not is_remote(uri):
        return Path(uri).name or uri
    parts = urlsplit(uri)
    return unquote(parts.path).rstrip("/").rpartition("/")[2] or parts.netloc


def suffix_of(uri: str) -> str:
    """The ending of its name, in lower case, with the dot; empty where there is none."""
    return PurePosixPath(name_of(uri)).suffix.lower()


def as_place(path: str) -> str:
    """A local path from the root, whatever folder a later command starts in; a URL as it is."""
    return as_text(path if "://" in path else str(Path(path).absolute()))


def as_text(words: str) -> str:
    """The words as text a database can hold: half of a surrogate pair becomes a question mark."""
    return words.encode("utf-8", "replace").decode()
