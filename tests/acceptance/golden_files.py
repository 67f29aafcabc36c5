"""Golden files: what commands gave, rounded and stripped of what changes from run to run.

A golden is a JSON document. Numbers agree if they differ by less than a few units of the sixth
digit; everything else must be equal. A difference is printed as a line for each place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "goldens"
RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""How far two numbers may lie apart: the gate runs in single precision."""

MOST_LINES = 25
LONG_HEX = re.compile(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{40}\b|\b[0-9a-f]{32}\b|\b[0-9a-f]{16}\b")
INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")
PICTURE = re.compile(r"data:image/jpeg;base64,[A-Za-z0-9+/=]+")
FOLDERS = re.compile(r"(?:file://)?(?:/[\w.+-]+)+/(?=[\w.+-]+\.\w+)")


def clean_text(text: str) -> str:
    """`text` without ids, times of day, pictures and the folders of files."""
    text = PICTURE.sub("<picture>", text)
    text = INSTANT.sub("<time>", text)
    return FOLDERS.sub("", LONG_HEX.sub("<id>", text))


def clean(value: Any) -> Any:
    """`value` with numbers rounded to six digits and texts cleaned."""
    if isinstance(value, Mapping):
        return {clean_text(str(name)): clean(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.6g}")
    return clean_text(value) if isinstance(value, str) else value


def leaves(value: Any, name: str = "") -> dict[str, list[Any]]:
    """The values of a document by the name of their field, in order, whatever holds them."""
    gathered: dict[str, list[Any]] = {}
    if isinstance(value, Mapping):
        parts = [leaves(item, str(field)) for field, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        parts = [leaves(item, name) for item in value]
    else:
        return {name: [value]}
    for part in parts:
        for field, items in part.items():
            gathered.setdefault(field, []).extend(items)
    return gathered


def rename(value: Any, names: Mapping[str, str]) -> Any:
    """`value` with the fields that `names` lists under their other name."""
    if isinstance(value, Mapping):
        return {names.get(field, field): rename(item, names) for field, item in value.items()}
    if isinstance(value, list):
        return [rename(item, names) for item in value]
    return value


def drop(value: Any, names: Collection[str]) -> Any:
    """`value` without the fields `names`."""
    if isinstance(value, Mapping):
        return {field: drop(item, names) for field, item in value.items() if field not in names}
    if isinstance(value, list):
        return [drop(item, names) for item in value]
    return value


def differences(golden: Any, now: Any, place: str = "") -> Iterator[str]:
    """One line for each place in which the two differ."""
    if isinstance(golden, Mapping) and isinstance(now, Mapping):
        for name in [*golden, *(name for name in now if name not in golden)]:
            inside = f"{place}.{name}".lstrip(".")
            if name not in now:
                yield f"{inside}: gone, was {_short(golden[name])}"
            elif name not in golden:
                yield f"{inside}: new, {_short(now[name])}"
            else:
                yield from differences(golden[name], now[name], inside)
    elif isinstance(golden, list) and isinstance(now, list):
        if len(golden) != len(now):
            yield f"{place}: {len(golden)} items before, {len(now)} now"
        for index, (before, after) in enumerate(zip(golden, now, strict=False)):
            yield from differences(before, after, f"{place}[{index}]")
    elif not _equal(golden, now):
        yield f"{place}: {_short(golden)} before, {_short(now)} now"


def _equal(golden: Any, now: Any) -> bool:
    numbers = isinstance(golden, int | float) and isinstance(now, int | float)
    if numbers and not isinstance(golden, bool) and not isinstance(now, bool):
        return math.isclose(golden, now, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(golden) is type(now) and golden == now


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 90 else f"{text[:87]}..."


def read(name: str) -> Any:
    """The golden of this name."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def write(name: str, document: Any) -> None:
    """Keep a golden: records and short lists on one line each."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(_layout(document) + "\n", encoding="utf-8")


def _layout(value: Any, indent: int = 0) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or len(line) + indent <= 110:
        return line
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_layout(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(pad + item for item in items) + "\n" + " " * indent + "}"
    items = [_layout(item, indent + 1) for item in value]
    if all(isinstance(item, int | float | None) for item in value):
        return line
    return "[\n" + ",\n".join(pad + item for item in items) + "\n" + " " * indent + "]"
