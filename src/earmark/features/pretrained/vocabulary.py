"""The class names of published models, and the classes that hands do not cause."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from earmark.errors import ModelMismatch

VOCABULARIES = {"audioset-strong": 447, "audioset": 527, "epic-sounds": 44}
"""The class lists that come with earmark, and the number of names in each."""


@cache
def class_names(vocabulary: str) -> tuple[str, ...]:
    """The classes of `vocabulary`, in the order of the model's outputs."""
    if vocabulary not in VOCABULARIES:
        raise ValueError(f"no class list {vocabulary!r}; there are {', '.join(VOCABULARIES)}")
    names = _lines(f"{vocabulary}.txt")
    assert len(names) == VOCABULARIES[vocabulary]
    return names


@cache
def not_manipulation() -> frozenset[str]:
    """Names of the classes that hands do not cause: voices, animals, music, traffic."""
    return frozenset(_lines("not-manipulation.txt"))


def read_names(path: Path) -> tuple[str, ...]:
    """The names in a text file, one per line; empty lines and lines that start with # are skipped.

    `ModelMismatch` if the file is missing, not text or empty, or has a name twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelMismatch(f"cannot read the names in {path}: {error}") from error
    names = _names(text)
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        what = f"names {twice[0]!r} twice" if twice else "names nothing"
        raise ModelMismatch(f"{path.name} {what}; write one name a line, each once")
    return names


def _lines(file: str) -> tuple[str, ...]:
    folder = resources.files("earmark.features.pretrained")
    return _names(folder.joinpath(file).read_text(encoding="utf-8"))


def _names(text: str) -> tuple[str, ...]:
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))
