"""Finds recordings: folders, globs and addresses in, one Source per recording out."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from earmark.errors import UnreadableFile

_SUFFIXES = (
    ".3gp .aac .avi .flac .flv .insv .lrv .m2ts .m4a .m4v .mka .mkv .mov .mp3 .mp4 .mpg .mpeg "
    ".mts .mxf .oga .ogg .ogv .opus .ts .vob .wav .webm .wma .wmv"
)
SUFFIXES = frozenset(_SUFFIXES.split())
"""File names with these endings are taken from a folder; a file named outright may have any."""

LISTS = frozenset([".csv", ".parquet", ".txt", ".m3u"])
"""Endings of files that name recordings and hold none."""

_REMOTE = re.compile(r"^[a-z][a-z0-9+]+://", re.IGNORECASE)
# GoPro HERO6 and later: GX010042 is chapter 1 of recording 42 (GH, GX by codec, GL a small copy).
_GOPRO = re.compile(r"^(?P<camera>G[HXL])(?P<chapter>\d{2})(?P<number>\d{4})$", re.IGNORECASE)
# GoPro HERO5 and earlier: GOPR0042 is the first chapter, GP010042 the second.
_GOPRO_FIRST = re.compile(r"^GOPR(?P<number>\d{4})$", re.IGNORECASE)
_GOPRO_LATER = re.compile(r"^GP(?P<chapter>\d{2})(?P<number>\d{4})$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Source:
    """Where one recording lies: one file or address, or its chapters in order.

    >>> Source(("a/GX010042.MP4", "a/GX020042.MP4")).name
    'GX010042.MP4 and 1 more'
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
        """What to call it in a message: its id, or the first file's name and how many follow."""
        if self.id:
            return self.id
        first = name_of(self.uris[0])
        return first if len(self.uris) == 1 else f"{first} and {len(self.uris) - 1} more"


def is_remote(uri: str) -> bool:
    """Whether `uri` is an address such as `https://…` or `s3://…`, not a path.

    >>> is_remote("s3://bucket/a.mp4"), is_remote("C:/a.mp4")
    (True, False)
    """
    return bool(_REMOTE.match(uri))


def name_of(uri: str) -> str:
    """The last part of a path or address, for messages.

    >>> name_of("https://host/folder/a%20b.mp4?token=1")
    'a b.mp4'
    """
    if not is_remote(uri):
        return Path(uri).name or uri
    parts = urlsplit(uri)
    return unquote(parts.path).rstrip("/").rpartition("/")[2] or parts.netloc


def find(paths: Sequence[str | Path | Source]) -> list[Source]:
    """The recordings at `paths`, in the order given, each once.

    A folder gives the media files beneath it in name order, and so does a prefix such as
    `s3://bucket/cams/`; a glob, what it matches; a list of addresses or a manifest, what it names,
    see `listing`; an address, itself; a Source, itself. Chapter files of one action-camera
    recording in one folder are one Source. A path with nothing there still gives a Source: opening
    it says what is wrong, so one bad path does not stop a batch.

    Raises:
        MediaError: a prefix, a list or a manifest cannot be read, or two recordings share an id.
    """
    entries = [entry for path in paths for entry in _expand(path)]
    named = {entry.uris[0]: entry for entry in entries if isinstance(entry, Source)}
    loose = dict.fromkeys(entry for entry in entries if isinstance(entry, str))
    joined = _join_chapters(uri for uri in loose if uri not in named)
    sources = [*named.values(), *joined]
    taken: set[str] = set()
    for source in sources:
        if source.id and source.id in taken:
            raise UnreadableFile(f"two recordings have the id {source.id}; give each its own")
        taken.add(source.id)
    return sources


def _expand(path: str | Path | Source) -> Iterable[str | Source]:
    if isinstance(path, Source):
        return [path]
    uri = str(path)
    if not uri.strip():
        raise UnreadableFile("an empty path names nothing; name a file, or . for this folder")
    if is_listing(uri):
        from earmark.media.listing import read_listing

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
    """What lies beneath a prefix; a web address is itself, for the web has no folders."""
    scheme = uri.partition("://")[0].lower()
    if scheme in ("http", "https") or PurePosixPath(name_of(uri)).suffix.lower() in SUFFIXES:
        return [uri]
    from earmark.media.listing import list_prefix

    return list_prefix(uri)


def _media_beneath(folder: Path) -> list[str]:
    files = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES)
    return [str(path) for path in files if path.is_file() and not path.name.startswith(".")]


def _join_chapters(uris: Iterable[str]) -> list[Source]:
    groups: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for uri in uris:
        recording, chapter = _chapter_of(uri)
        groups.setdefault(recording, []).append((chapter, uri))
    return [Source(tuple(uri for _, uri in sorted(group))) for group in groups.values()]


def _chapter_of(uri: str) -> tuple[tuple[str, ...], int]:
    """The recording a file belongs to, as a key to group by, and its place in it."""
    folder, _, name = uri.rpartition("/")
    stem, _, suffix = name.rpartition(".")
    if match := _GOPRO.match(stem):
        camera = match["camera"].upper()
        return (folder, camera, match["number"], suffix.upper()), int(match["chapter"])
    if match := _GOPRO_FIRST.match(stem):
        return (folder, "GOPR", match["number"], suffix.upper()), 0
    if match := _GOPRO_LATER.match(stem):
        return (folder, "GOPR", match["number"], suffix.upper()), int(match["chapter"])
    return (uri,), 0
