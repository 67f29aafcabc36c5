"""Finds recordings: folders, globs and addresses in, one Source per recording out."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from earmark.errors import UnreadableFile
from earmark.media.camera_files import chapter_of, without_copies

_SUFFIXES = (
    ".3gp .aac .avi .flac .flv .insv .lrv .m2ts .m4a .m4v .mka .mkv .mov .mp3 .mp4 .mpg .mpeg "
    ".mts .mxf .oga .ogg .ogv .opus .ts .vob .wav .webm .wma .wmv"
)
SUFFIXES = frozenset(_SUFFIXES.split())
"""File names with these endings are taken from a folder; a file named outright may have any."""

LISTS = frozenset([".csv", ".parquet", ".txt", ".m3u"])
"""Endings of files that name recordings and hold none."""

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


def place_of(uri: str) -> str:
    """Which file a message is about: a path as it was given, an address without its secrets.

    >>> place_of("cam/a.mp4"), place_of("https://me:key@host/a.mp4?token=1")
    ('cam/a.mp4', 'https://host/a.mp4')
    """
    if uri.lower().startswith(("http://", "https://")):
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


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found where somebody looked."""

    sources: list[Source]
    copies: list[str]
    """Small copies and stills that a camera made of them, left out."""


def find(paths: Sequence[str | Path | Source]) -> list[Source]:
    """The recordings at `paths`: see `find_all`."""
    return find_all(paths).sources


def find_all(paths: Sequence[str | Path | Source]) -> Finding:
    """The recordings at `paths`, in the order given, each once, and what was left out.

    A folder gives the media files beneath it in name order, and so does a prefix such as
    `s3://bucket/cams/`; a glob, what it matches; a list of addresses or a manifest, what it names,
    see `listing`; an address, itself; a Source, itself. Chapter files of one action-camera
    recording in one folder are one Source; the small copies beside them are none. A path with
    nothing there still gives a Source: opening it says what is wrong, so one bad path does not
    stop a batch.

    Raises:
        MediaError: a prefix, a list or a manifest cannot be read, or two recordings have one id
            or one file.
    """
    entries = [entry for path in paths for entry in _expand(path)]
    named = _files_of(dict.fromkeys(entry for entry in entries if isinstance(entry, Source)))
    loose = _once(entry for entry in entries if isinstance(entry, str))
    kept, copies = without_copies(uri for file, uri in loose.items() if file not in named)
    joined = {uri: source for source in _join_chapters(kept) for uri in source.uris}
    ordered = (entry if isinstance(entry, Source) else joined.get(entry) for entry in entries)
    sources = list(dict.fromkeys(source for source in ordered if source))
    return Finding(sources, copies)


def _files_of(sources: Iterable[Source]) -> set[str]:
    """The files of all `sources`; raises where two of them have one id, or one file."""
    ids: set[str] = set()
    files: set[str] = set()
    for source in sources:
        if source.id and source.id in ids:
            raise UnreadableFile(f"two recordings have the id {source.id}; give each its own")
        own = {_file(uri): uri for uri in source.uris}
        if shared := files & own.keys():
            place = place_of(own[min(shared)])
            raise UnreadableFile(f"two recordings hold {place}; name it in one of them")
        ids.add(source.id)
        files |= own.keys()
    return files


def _expand(path: str | Path | Source) -> Iterable[str | Source]:
    if isinstance(path, Source):
        return [path]
    uri = str(path)
    if not uri.strip():
        raise UnreadableFile("an empty path names nothing; name a file, or . for this folder")
    if is_listing(uri):
        from earmark.media.remote_listing import read_listing

        return read_listing(uri)
    if is_remote(uri):
        return _beneath_address(uri)
    if Path(uri).is_dir():
        return _media_beneath(Path(uri)) or [uri]
    if Path(uri).exists() or not glob.has_magic(uri):
        return [uri]
    matches = sorted(glob.glob(uri, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute)
    return [match for match in matches if Path(match).is_file()] or [uri]


def is_listing(uri: str) -> bool:
    """Whether `uri` names a list of recordings or a manifest, by its ending."""
    return PurePosixPath(name_of(uri)).suffix.lower() in LISTS


def _beneath_address(uri: str) -> list[str]:
    """What lies beneath a prefix or fits a glob; a web address is itself, it has no folders."""
    scheme = uri.partition("://")[0].lower()
    is_file = "*" not in uri and PurePosixPath(name_of(uri)).suffix.lower() in SUFFIXES
    if scheme in ("http", "https") or is_file:
        return [uri]
    from earmark.media.remote_listing import list_prefix

    return list_prefix(uri)


def _media_beneath(folder: Path) -> list[str]:
    files = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES)
    return [str(path) for path in files if path.is_file() and not path.name.startswith(".")]


def _once(uris: Iterable[str]) -> dict[str, str]:
    """Each file with the first of its names."""
    first: dict[str, str] = {}
    for uri in uris:
        first.setdefault(_file(uri), uri)
    return first


def _file(uri: str) -> str:
    """Which file it is, whatever names it has: links lead to it, and `./a` is `a`."""
    return uri if is_remote(uri) else os.path.realpath(uri)


def _join_chapters(uris: Iterable[str]) -> list[Source]:
    groups: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for uri in uris:
        recording, chapter = chapter_of(uri)
        groups.setdefault(recording, []).append((chapter, uri))
    return [Source(tuple(uri for _, uri in sorted(group))) for group in groups.values()]
