from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from earmark.errors import ModelMismatch
from earmark.features.encoder import SoundEncoder
from earmark.media import Meter, Recording
from earmark.timeline import FloatArray, Span

VOCABULARIES = {"audioset-strong": 447, "audioset": 527, "epic-sounds": 44}

BACKGROUND = "Silence"
"""The first of the last AudioSet classes, which name rooms, noise and the recording itself."""

MAX_TAGS = 3
MIN_PROBABILITY = 0.2
_MIN_LOGIT = math.log(MIN_PROBABILITY / (1 - MIN_PROBABILITY))


@cache
def class_names(vocabulary: str) -> tuple[str, ...]:
    if vocabulary not in VOCABULARIES:
        raise ValueError(f"no class list {vocabulary!r}; there are {', '.join(VOCABULARIES)}")
    names = _lines(f"{vocabulary}.txt")
    assert len(names) == VOCABULARIES[vocabulary]
    return names


@cache
def not_manipulation() -> frozenset[str]:
    """Classes that hands do not cause: voices, animals, music, traffic."""
    return frozenset(_lines("not-manipulation.txt"))


def read_names(path: Path) -> tuple[str, ...]:
    """One per line; empty lines and lines that start with # are skipped."""
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
    folder = resources.files("earmark.features")
    return _names(folder.joinpath(file).read_text(encoding="utf-8"))


def _names(text: str) -> tuple[str, ...]:
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def likeliest_names(logits: FloatArray, names: Sequence[str]) -> tuple[str, ...]:
    """By decreasing logit; background and unlikely classes left out."""
    count = names.index(BACKGROUND) if BACKGROUND in names else len(names)
    likeliest = np.argsort(-logits[:count], kind="stable")[:MAX_TAGS].tolist()
    return tuple(names[number] for number in likeliest if logits[number] >= _MIN_LOGIT)


class SoundTagger(SoundEncoder):
    """An encoder whose classes have names.

    Its option `reads` chooses `logits`, one class per channel, or `activity`: the highest posterior
    of any class that hands can cause; 0 if it is below `threshold`.
    """

    __slots__ = ()

    reads: str
    threshold: float
    excluded: tuple[str, ...] | None = None
    """None for the documented list."""

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]: ...

    def tags(self, recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
        """Likeliest first, by the maximum over each span; the recording is decoded once."""
        listener = replace(self, reads="logits", threshold=0.0)  # type: ignore[type-var]
        best = np.full((len(spans), len(self.classes)), -np.inf, dtype=np.float32)
        for track in listener(recording, meter=Meter()):
            for number, span in enumerate(spans):
                first = max(0, int((span.start - track.start) / track.hop + 1e-6))
                last = max(0, int(np.ceil((span.end - track.start) / track.hop - 1e-6)))
                inside = track.values[first:last]  # the rows that touch the span
                if len(inside):
                    best[number] = np.maximum(best[number], inside.max(axis=0))
        return [likeliest_names(row, self.classes) for row in best]

    def _activity(self, posteriors: FloatArray) -> FloatArray:
        excluded = not_manipulation() if self.excluded is None else frozenset(self.excluded)
        included = np.flatnonzero([name not in excluded for name in self.classes])
        if len(included) == 0:
            count = len(self.classes)
            raise ValueError(f"all {count} classes are excluded, so nothing is left to detect")
        most = posteriors[:, included].max(axis=1)
        return np.where(most >= self.threshold, most, 0.0).astype(np.float32)

    def _check(self, name: str, *, reads: tuple[str, ...]) -> None:
        if self.reads not in reads:
            words = f"{', '.join(reads[:-1])} or {reads[-1]}"
            raise ValueError(f"{name} reads {words}, not {self.reads!r}")
        if self.threshold and self.reads != "activity":
            raise ValueError(f"{name} has a threshold for its activity and for nothing else")
        if not 0.0 <= self.threshold < 1.0:
            raise ValueError(f"a threshold on posteriors is 0 to 1, not {self.threshold}")
