"""Finds recordings in folders, globs, prefixes, lists, manifests and URLs: one Source each.

Names show chapters and small copies; if they do not (DJI), each file is a recording:

    GX010042.MP4  GX020042.MP4      chapters 1 and 2 of recording 42
    GL010042.LRV  GL020042.LRV      small copies of them, for a telephone
    GX010042.THM                    a still, for a list

A list (`.txt`, `.m3u`) has one path or address per line; lines that start with `#` are comments. A
manifest (`.csv`, `.parquet`) has a column `path` and may have `id`, `weight` and `priority`.
Relative paths start at the folder of the list.
"""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from earmark.errors import MissingExtra, UnreadableFile, summarise
from earmark.media.source import Source, is_remote, is_web, place_of, suffix_of

MANIFESTS = frozenset([".csv", ".parquet", ".txt", ".m3u"])
_MOST_LIST_BYTES = 1 << 26
_COLUMNS = ("path", "id", "weight", "priority")

_SUFFIXES = (
    ".3gp .aac .avi .flac .flv .insv .lrv .m2ts .m4a .m4v .mka .mkv .mov .mp3 .mp4 .mpg .mpeg "
    ".mts .mxf .oga .ogg .ogv .opus .ts .vob .wav .webm .wma .wmv"
)
SUFFIXES = frozenset(_SUFFIXES.split())  # A file named explicitly may have any suffix

# GoPro HERO6 and later: GX010042 is chapter 1 of recording 42 (GH, GX by codec, GL a small copy).
_GOPRO = re.compile(r"^(?P<camera>G[HXL])(?P<chapter>\d{2})(?P<number>\d{4})$", re.IGNORECASE)
# GoPro HERO5 and earlier: GOPR0042 is the first chapter, GP010042 the second.
_OLD_GOPRO = re.compile(r"^(?:GOPR|GP(?P<chapter>\d{2}))(?P<number>\d{4})$", re.IGNORECASE)
# Insta360: kind, day, time, lens and number; LRV_ is a small copy of both lenses.
_INSTA360 = re.compile(
    r"^(?:VID|LRV)_(?P<time>\d{8}_\d{6})_\d{2}_(?P<number>\d{3})$", re.IGNORECASE
)

_COPY_SUFFIXES = ("lrv", "lrf", "thm")
_COPY = re.compile(r"^(?:GL\d{6}|LRV_\d{8}_.*)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _CameraFile:
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

    Small copies are left out and passed to `on_copies`. A path that does not exist still gives a
    Source: opening it says what is wrong, so that one bad path does not stop a batch.
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
                f"two addresses are both {path} once their secrets are "
                "hidden; use a separate run for each, or download them first"
            )
    if copies and on_copies:
        on_copies(copies)
    return sources


def _files_of(sources: Iterable[Source]) -> set[str]:
    ids: set[str] = set()
    files: set[str] = set()
    for source in sources:
        if source.id and source.id in ids:
            raise UnreadableFile(f"two recordings have the id {source.id}; give each its own")
        uris = {_real_path(uri): uri for uri in source.uris}
        if shared := files & uris.keys():
            name = place_of(uris[min(shared)])
            raise UnreadableFile(f"two recordings contain {name}; name it in only one of them")
        ids.add(source.id)
        files |= uris.keys()
    return files


def _expand(path: str | Path | Source) -> Iterable[str | Source]:
    if isinstance(path, Source):
        return [path]
    uri = str(path)
    if not uri.strip():
        raise UnreadableFile("an empty path names nothing; name a file, or . for this folder")
    if suffix_of(uri) in MANIFESTS:
        return _read_manifest(uri)
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
    """By name, with folders that may not be read: opening one reports the error."""
    unreadable: list[str] = []
    files = [
        Path(parent, name)
        for parent, _, names in os.walk(
            folder, onerror=lambda error: unreadable.append(error.filename)
        )
        for name in names
        if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
    ]
    return [str(path) for path in sorted([*files, *map(Path, unreadable)])]


def _list_prefix(uri: str) -> list[str]:
    from earmark.media.remote_storage import connect, explain_failure

    files, path = connect(uri)
    try:
        names = files.glob(path) if "*" in path else files.find(path)
    except Exception as error:  # every store has errors of its own
        raise explain_failure(uri, error) from error
    media = sorted(name for name in names if suffix_of(name) in SUFFIXES)
    if not media:
        raise UnreadableFile(
            f"{place_of(uri)} holds no media file ({len(names)} others); check the prefix, "
            "or name the files in a list"
        )
    return [f"{uri.partition('://')[0]}://{name}" for name in media]


def _real_path(uri: str) -> str:
    with suppress(ValueError):  # a zero byte, which no path holds: opening it says so
        return uri if is_remote(uri) else os.path.realpath(uri)
    return uri


def join_chapters(uris: Iterable[str]) -> tuple[list[Source], list[str]]:
    """The recordings, chapters in order, and the files that are small copies.

    A copy without its full file is a recording: it may be all that is left.

    >>> join_chapters(["GX010042.MP4", "GL010042.LRV"])[1]
    ['GL010042.LRV']
    """
    files = {uri: _read_name(uri) for uri in uris}
    full = {file.original for file in files.values() if not file.is_copy}
    copies = [uri for uri, file in files.items() if file.is_copy and file.original in full]
    for uri in copies:
        del files[uri]
    groups: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for uri, file in files.items():
        groups.setdefault(file.recording, []).append((file.chapter, uri))
    return [Source(tuple(uri for _, uri in sorted(group))) for group in groups.values()], copies


def missing_chapters(uris: Sequence[str]) -> list[int]:
    """The numbers of the chapters that are missing before the last one.

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
    if match := _GOPRO.match(stem):
        recording = folder, match["camera"].upper(), match["number"], suffix.upper()
        original = folder, match["chapter"], match["number"]
        return _CameraFile(recording, int(match["chapter"]), original, is_copy)
    if match := _OLD_GOPRO.match(stem):
        recording = folder, "GOPR", match["number"], suffix.upper()
        return _CameraFile(recording, int(match["chapter"] or 0), (folder, stem.upper()), is_copy)
    if match := _INSTA360.match(stem):
        return _CameraFile((uri,), 0, (folder, match["time"], match["number"]), is_copy)
    return _CameraFile((uri,), 0, (folder, stem.upper()), is_copy)


def _read_manifest(uri: str) -> Sequence[str | Source]:
    suffix, name, data = suffix_of(uri), place_of(uri), _read_whole(uri)
    if suffix in (".txt", ".m3u") and b"\0" in data:
        return [uri]  # a media file
    if len(data) > _MOST_LIST_BYTES:
        raise UnreadableFile(f"{name} has more than {_MOST_LIST_BYTES >> 20} MB; split it")
    if suffix == ".parquet":
        return _sources(uri, _parquet_rows(name, data))
    try:
        # `splitlines` would end some lines within a name.
        lines = io.StringIO(data.decode("utf-8-sig"), newline=None)
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            f"{name} is not text in UTF-8 (byte {error.start}); save it as UTF-8"
        ) from None
    return _sources(uri, _csv_rows(name, lines)) if suffix == ".csv" else _read_list(uri, lines)


def _read_list(uri: str, text: Iterable[str]) -> list[str]:
    lines = [line.strip() for line in text]
    paths = [_resolve(uri, line) for line in lines if line and not line.startswith("#")]
    if not any(is_remote(p) or suffix_of(p)[1:].isalnum() or Path(p).exists() for p in paths):
        raise UnreadableFile(
            f"{place_of(uri)} lists no recording; write one path or address per line, "
            "or check that it is a media file"
        )
    return paths


def _read_whole(uri: str) -> bytes:
    if is_remote(uri):
        from earmark.media.remote_storage import read_whole

        return read_whole(uri, _MOST_LIST_BYTES)
    try:
        with Path(uri).open("rb") as file:
            return file.read(_MOST_LIST_BYTES + 1)
    except FileNotFoundError:
        raise UnreadableFile(f"{place_of(uri)} does not exist; check the path") from None
    except OSError as error:
        raise UnreadableFile(f"{place_of(uri)} cannot be read: {error.strerror}") from error


def _csv_rows(name: str, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    rows = csv.DictReader(lines, restkey="")
    try:
        _check_columns(name, rows.fieldnames or [])
        for row in rows:
            if "" in row:
                raise UnreadableFile(f"{name}, line {rows.line_num}: more values than columns")
            yield row
    except csv.Error as error:
        line = rows.reader.line_num
        raise UnreadableFile(f"{name}, line {line}: {summarise(error)}") from error


def _parquet_rows(name: str, data: bytes) -> list[dict[str, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("a Parquet manifest needs: pip install 'earmark[parquet]'") from error
    try:
        table = parquet.read_table(io.BytesIO(data))
    except (pyarrow.ArrowException, OSError) as error:
        raise UnreadableFile(f"{name} is not a Parquet file ({summarise(error)})") from error
    _check_columns(name, table.column_names)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _check_columns(name: str, columns: Sequence[str]) -> None:
    if unknown := [column for column in columns if column not in _COLUMNS]:
        raise UnreadableFile(
            f"{name} has unknown columns: {', '.join(map(repr, unknown))}; a manifest has path, "
            "and may have id, weight and priority"
        )
    if "path" not in columns:
        raise UnreadableFile(f"{name} has no column named path; a manifest needs one")


def _sources(uri: str, rows: Iterable[dict[str, Any]]) -> list[Source]:
    ranked: list[tuple[float, Source]] = []
    rows_by_id: dict[str, int] = {}
    rows_by_path: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        row_name = f"{place_of(uri)}, row {number}"
        path = _text(row_name, "path", row["path"])
        if not path:
            raise UnreadableFile(f"{row_name}: no path")
        weight = _number(row_name, "weight", row.get("weight"), 1.0)
        if not weight > 0:
            raise UnreadableFile(f"{row_name}: a weight must be above 0, not {weight:g}")
        source = Source((_resolve(uri, path),), _text(row_name, "id", row.get("id")), weight)
        for what, name, earlier in (
            ("id", source.id, rows_by_id),
            ("path", source.uris[0], rows_by_path),
        ):
            if name and earlier.setdefault(name, number) != number:
                raise UnreadableFile(
                    f"{row_name}: row {earlier[name]} has the same {what}, {place_of(name)}"
                )
        ranked.append((_number(row_name, "priority", row.get("priority"), 0.0), source))
    if not ranked:
        raise UnreadableFile(f"{place_of(uri)} lists no recording; write one per row")
    return [source for _, source in sorted(ranked, key=lambda pair: -pair[0])]


def _text(row_name: str, name: str, value: Any) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise UnreadableFile(f"{row_name}: the {name} {value!r} is not text in UTF-8") from None
    return "" if value is None else str(value).strip()


def _number(row_name: str, name: str, value: Any, default: float) -> float:
    if value is None or value == "":
        return default
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UnreadableFile(f"{row_name}: the {name} {value!r} is not a number")
    return number


def _resolve(uri: str, path: str) -> str:
    if is_remote(path) or Path(path).is_absolute():
        return path
    if not is_remote(uri):
        return str(Path(uri).parent / path)
    scheme, _, rest = uri.partition("://")
    # `urljoin` joins only web addresses, and takes what precedes a colon for a scheme.
    return scheme + urljoin(f"http://{rest}", f"./{path}").removeprefix("http")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of an archive, the same on every machine.

    >>> Shard.parse("3/16")
    Shard(number=3, of=16)
    """

    number: int
    """From 1."""
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise ValueError(f"a shard is written 1/{max(1, self.of)} to {self.of}/{self.of}")

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a shard: write 3/16 for the third of sixteen")
        return cls(int(match[1]), int(match[2]))

    def holds(self, source: Source) -> bool:
        digest = hashlib.sha256(source.path.encode("utf-8", "surrogateescape")).digest()
        return int.from_bytes(digest[:8], "big") % self.of == self.number - 1
