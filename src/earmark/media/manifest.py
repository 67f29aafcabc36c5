"""Reads lists and manifests, which name recordings.

A list (`.txt`, `.m3u`) has one path or address per line; lines that start with `#` are comments. A
manifest (`.csv`, `.parquet`) has a column `path` and may have `id`, `weight` and `priority`.
Relative paths start at the place of the list.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from earmark.errors import MissingExtra, UnreadableFile, summarise
from earmark.media.source import Source, is_remote, place_of, suffix_of

MANIFESTS = frozenset([".csv", ".parquet", ".txt", ".m3u"])

LIST_BYTES = 1 << 26

COLUMNS = ("path", "id", "weight", "priority")


def read_manifest(uri: str) -> list[str | Source]:
    suffix, place, data = suffix_of(uri), place_of(uri), _read(uri)
    if suffix in (".txt", ".m3u") and b"\0" in data:
        return [uri]
    if len(data) > LIST_BYTES:
        raise UnreadableFile(f"{place} has more than {LIST_BYTES >> 20} MB; split it")
    if suffix == ".parquet":
        return [*_sources(uri, _parquet_rows(place, data))]
    text = _text(place, data)
    return [*(_sources(uri, _csv_rows(place, text)) if suffix == ".csv" else _read_list(uri, text))]


def _read_list(uri: str, text: str) -> list[str]:
    lines = [line.strip() for line in _lines(text)]
    paths = [_resolve(uri, line) for line in lines if line and not line.startswith("#")]
    if not any(is_remote(p) or suffix_of(p)[1:].isalnum() or Path(p).exists() for p in paths):
        raise UnreadableFile(
            f"{place_of(uri)} lists no recording; write one path or address per line, "
            "or check that it is a media file"
        )
    return paths


def _read(uri: str) -> bytes:
    if is_remote(uri):
        from earmark.media.remote_storage import read_whole

        return read_whole(uri, LIST_BYTES)
    try:
        with Path(uri).open("rb") as file:
            return file.read(LIST_BYTES + 1)
    except FileNotFoundError:
        raise UnreadableFile(f"{place_of(uri)} does not exist; check the path") from None
    except OSError as error:
        raise UnreadableFile(f"{place_of(uri)} cannot be read: {error.strerror}") from error


def _text(place: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            f"{place} is not text in UTF-8 (byte {error.start}); save it as UTF-8"
        ) from None


def _lines(text: str) -> io.StringIO:
    """`splitlines` would end some lines within a name."""
    return io.StringIO(text, newline=None)


def _csv_rows(place: str, text: str) -> Iterator[dict[str, Any]]:
    rows = csv.DictReader(_lines(text), restkey="")
    try:
        _check_columns(place, rows.fieldnames or [])
        for row in rows:
            if "" in row:
                raise UnreadableFile(f"{place}, line {rows.line_num}: more values than columns")
            yield row
    except csv.Error as error:
        line = rows.reader.line_num
        raise UnreadableFile(f"{place}, line {line}: {summarise(error)}") from error


def _parquet_rows(place: str, data: bytes) -> list[dict[str, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("a Parquet manifest needs: pip install 'earmark[parquet]'") from error
    try:
        table = parquet.read_table(io.BytesIO(data))
    except (pyarrow.ArrowException, OSError) as error:
        raise UnreadableFile(f"{place} is not a Parquet file ({summarise(error)})") from error
    _check_columns(place, table.column_names)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _check_columns(place: str, names: Iterable[str]) -> None:
    columns = list(names)
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise UnreadableFile(
            f"{place} has unknown columns: {', '.join(map(repr, unknown))}; a manifest has path, "
            "and may have id, weight and priority"
        )
    if "path" not in columns:
        raise UnreadableFile(f"{place} has no column named path; a manifest needs one")


def _sources(uri: str, rows: Iterable[dict[str, Any]]) -> Iterator[Source]:
    ranked: list[tuple[float, Source]] = []
    ids: dict[str, int] = {}
    paths: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        place = f"{place_of(uri)}, row {number}"
        path = _words(place, "path", row["path"])
        if not path:
            raise UnreadableFile(f"{place}: no path")
        source = Source(
            (_resolve(uri, path),),
            id=_words(place, "id", row.get("id")),
            weight=_number(place, "weight", row.get("weight"), 1.0),
        )
        if not source.weight > 0:
            raise UnreadableFile(f"{place}: a weight must be above 0, not {source.weight:g}")
        for what, name, seen in (("id", source.id, ids), ("path", source.uris[0], paths)):
            if name and seen.setdefault(name, number) != number:
                raise UnreadableFile(
                    f"{place}: row {seen[name]} has the same {what}, {place_of(name)}"
                )
        ranked.append((_number(place, "priority", row.get("priority"), 0.0), source))
    if not ranked:
        raise UnreadableFile(f"{place_of(uri)} lists no recording; write one per row")
    return (source for _, source in sorted(ranked, key=lambda pair: -pair[0]))


def _words(place: str, name: str, value: Any) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise UnreadableFile(f"{place}: the {name} {value!r} is not text in UTF-8") from None
    return "" if value is None else str(value).strip()


def _number(place: str, name: str, value: Any, default: float) -> float:
    if value is None or value == "":
        return default
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UnreadableFile(f"{place}: the {name} {value!r} is not a number")
    return number


def _resolve(uri: str, path: str) -> str:
    if is_remote(path) or Path(path).is_absolute():
        return path
    if not is_remote(uri):
        return str(Path(uri).parent / path)
    scheme, _, rest = uri.partition("://")
    # `urljoin` joins only web addresses, and takes what precedes a colon for a scheme.
    return scheme + urljoin(f"http://{rest}", f"./{path}").removeprefix("http")
