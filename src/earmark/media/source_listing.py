"""Finds recordings in folders, globs, prefixes, lists and URLs: one Source per recording.

The file names of action cameras tell chapters of one recording and small copies:

    GX010042.MP4  GX020042.MP4      chapters 1 and 2 of recording 42
    GL010042.LRV  GL020042.LRV      small copies of them, for a telephone
    GX010042.THM                    a still, for a list

Only names are read. If names do not tell (DJI), each file is a recording.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from earmark.errors import UnreadableFile
from earmark.media.manifest import MANIFESTS, read_manifest
from earmark.media.source import Source, is_remote, is_web, place_of, suffix_of

_SUFFIXES = (
    ".3gp .aac .avi .flac .flv .insv .lrv .m2ts .m4a .m4v .mka .mkv .mov .mp3 .mp4 .mpg .mpeg "
    ".mts .mxf .oga .ogg .ogv .opus .ts .vob .wav .webm .wma .wmv"
)
SUFFIXES = frozenset(_SUFFIXES.split())
"""Suffixes of files taken from a folder; a file named explicitly may have any."""


# GoPro HERO6 and later: GX010042 is chapter 1 of recording 42 (GH, GX by codec, GL a small copy).
_GOPRO = re.compile(r"^(?P<camera>G[HXL])(?P<chapter>\d{2})(?P<number>\d{4})$", re.IGNORECASE)
# GoPro HERO5 and earlier: GOPR0042 is the first chapter, GP010042 the second.
_OLD_GOPRO = re.compile(r"^(?:GOPR|GP(?P<chapter>\d{2}))(?P<number>\d{4})$", re.IGNORECASE)
# Insta360: kind, day, time, lens and number; LRV_ is a small copy of both lenses.
_INSTA360 = re.compile(
    r"^(?:VID|LRV)_(?P<time>\d{8}_\d{6})_\d{2}_(?P<number>\d{3})$", re.IGNORECASE
)

_COPY_SUFFIXES = ("lrv", "lrf", "thm")
"""Suffixes of small copies (GoPro, Insta360; DJI) and of stills."""
_COPY = re.compile(r"^(?:GL\d{6}|LRV_\d{8}_.*)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _CameraFile:
    """What the name of a camera file tells."""

    recording: tuple[str, ...]
    """The same for all chapters of a recording."""
    chapter: int
    original: tuple[str, ...]
    """The same for a file and its small copies."""
    is_copy: bool


def find(
    paths: Sequence[str | Path | Source],
    *,
    on_copies: Callable[[list[str]], None] | None = None,
) -> list[Source]:
    """The recordings at `paths`, in the order given, each once.

    A folder gives the media files beneath it in name order, and so does a prefix such as
    `s3://bucket/cams/`; a glob gives its matches, a list or manifest the recordings it names (see
    `manifest`), a URL or Source itself. Chapter files of one action-camera recording in one folder
    are one Source; small copies beside them are left out and passed to `on_copies`. A path that
    does not exist still gives a Source: opening it says what is wrong, so that one bad path does
    not stop a batch. Raises `MediaError` if a list cannot be read, or a file is named twice.
    """
    entries = [entry for path in paths for entry in _expand(path)]
    named = _files_of(dict.fromkeys(entry for entry in entries if isinstance(entry, Source)))
    loose: dict[str, str] = {}  # each file with the first of its names
    for uri in (entry for entry in entries if isinstance(entry, str)):
        loose.setdefault(_real_path(uri), uri)
    chapters, copies = join_chapters(uri for file, uri in loose.items() if file not in named)
    joined = {uri: source for source in chapters for uri in source.uris}
    ordered = (entry if isinstance(entry, Source) else joined.get(entry) for entry in entries)
    sources = list(dict.fromkeys(source for source in ordered if source))
    for path, count in Counter(source.path for source in sources).items():
        if count > 1:  # the redacted URL identifies recordings in a run
            raise UnreadableFile(
                f"two recordings are {path} once what is secret in their addresses is "
                "hidden; work on each in a run of its own, or download them first"
            )
    if copies and on_copies:
        on_copies(copies)
    return sources


def _files_of(sources: Iterable[Source]) -> set[str]:
    """The files of all `sources`; raises if two of them share an id or a file."""
    ids: set[str] = set()
    files: set[str] = set()
    for source in sources:
        if source.id and source.id in ids:
            raise UnreadableFile(f"two recordings have the id {source.id}; give each its own")
        own = {_real_path(uri): uri for uri in source.uris}
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
    if suffix_of(uri) in MANIFESTS:
        return read_manifest(uri)
    if is_remote(uri):
        is_file = "*" not in uri and suffix_of(uri) in SUFFIXES
        return [uri] if is_web(uri) or is_file else _list_prefix(uri)
    if os.path.isdir(uri):  # noqa: PTH112 (Path's raises where a folder above may not be read)
        return _list_folder(uri) or [uri]
    if os.path.exists(uri) or not glob.has_magic(uri):  # noqa: PTH110 (likewise)
        return [uri]
    matches = sorted(glob.glob(uri, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute)
    return [match for match in matches if Path(match).is_file()] or [uri]


def _list_folder(folder: str) -> list[str]:
    """The media files beneath a folder by name, and folders there that may not be read.

    Opening such a folder, or a broken link, reports the error, so that nothing is skipped.
    """
    unreadable: list[str] = []
    files = [
        Path(place, name)
        for place, _, names in os.walk(
            folder, onerror=lambda error: unreadable.append(error.filename)
        )
        for name in names
        if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
    ]
    return [str(path) for path in sorted([*files, *map(Path, unreadable)])]


def _list_prefix(uri: str) -> list[str]:
    """The media files beneath a prefix such as `s3://bucket/cams/`, by name."""
    from earmark.media.remote_file import connect
    from earmark.media.remote_storage import explain_listing

    files, path = connect(uri)
    try:
        names = files.glob(path) if "*" in path else files.find(path)
    except Exception as error:  # every store has errors of its own
        raise explain_listing(uri, error) from error
    media = sorted(name for name in names if suffix_of(name) in SUFFIXES)
    if not media:
        raise UnreadableFile(
            f"{place_of(uri)} holds no media file ({len(names)} others); check the prefix, "
            "or name the files in a list"
        )
    return [f"{uri.partition('://')[0]}://{name}" for name in media]


def _real_path(uri: str) -> str:
    """The path of the file with links and `./` resolved; a URL unchanged."""
    with suppress(ValueError):  # a zero byte, which no path holds: opening it says so
        return uri if is_remote(uri) else os.path.realpath(uri)
    return uri


def join_chapters(uris: Iterable[str]) -> tuple[list[Source], list[str]]:
    """The recordings of these files, chapters in order, and the files that are small copies.

    A copy without its full file is a recording: it may be all that is left.

    >>> join_chapters(["GX010042.MP4", "GL010042.LRV"])[1]
    ['GL010042.LRV']
    """
    files = {uri: _read_name(uri) for uri in uris}
    full = {file.original for file in files.values() if not file.is_copy}
    copies = [uri for uri, file in files.items() if file.is_copy and file.original in full]
    left_out = set(copies)
    groups: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for uri, file in files.items():
        if uri not in left_out:
            groups.setdefault(file.recording, []).append((file.chapter, uri))
    return [Source(tuple(uri for _, uri in sorted(group))) for group in groups.values()], copies


def missing_chapters(uris: Sequence[str]) -> list[int]:
    """The numbers of missing chapters before the last one of a recording.

    >>> missing_chapters(["GX020042.MP4", "GX040042.MP4"]), missing_chapters(["GP010042.MP4"])
    ([1, 3], [0])
    """
    files = [_read_name(uri) for uri in uris]
    numbers = {file.chapter for file in files if len(file.recording) > 1}
    first = 0 if any("GOPR" in file.recording for file in files) else 1
    return [number for number in range(first, max(numbers, default=0)) if number not in numbers]


def _read_name(uri: str) -> _CameraFile:
    folder, _, name = uri.rpartition("/")
    stem, _, suffix = name.rpartition(".")
    is_copy = suffix.lower() in _COPY_SUFFIXES or bool(_COPY.match(stem))
    if found := _GOPRO.match(stem):
        recording = folder, found["camera"].upper(), found["number"], suffix.upper()
        original = folder, found["chapter"], found["number"]
        return _CameraFile(recording, int(found["chapter"]), original, is_copy)
    if found := _OLD_GOPRO.match(stem):
        recording = folder, "GOPR", found["number"], suffix.upper()
        return _CameraFile(recording, int(found["chapter"] or 0), (folder, stem.upper()), is_copy)
    if found := _INSTA360.match(stem):
        return _CameraFile((uri,), 0, (folder, found["time"], found["number"]), is_copy)
    return _CameraFile((uri,), 0, (folder, stem.upper()), is_copy)
