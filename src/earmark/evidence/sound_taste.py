"""Sounds that a person wants ignored or favoured, and the windows they make less or more wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_query import broader, match_sounds
from earmark.features.sound_tags import not_manipulation
from earmark.grid import Windows

FAVOURED = 4.0
"""Weight of a favourite; of other sounds 1."""

IGNORED = 0.1
"""Weight of a window in which there is little else than a sound to ignore."""

Scored = TypeVar("Scored", bound=Windows)


@dataclass(frozen=True, slots=True)
class SoundTaste:
    """In words: `music` means all kinds of it.

    >>> taste = SoundTaste(ignore=("music",), favour=("drill",))
    >>> [taste.weight(name) for name in ("Guitar", "Drill", "Hammer")]
    [0.0, 4.0, 1.0]
    """

    ignore: tuple[str, ...] = ()
    favour: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ignore or self.favour)

    def weight(self, name: str) -> float:
        """0 for a sound to ignore; more than 1 for a favourite."""
        if _is_meant(name, self.favour):
            return FAVOURED
        return 0.0 if _is_meant(name, self.ignore) else 1.0

    def weigh(self, windows: Scored, sounds: Iterable[EvidenceEntry]) -> Scored:
        """Windows with a favourite count more, those with little but a sound to ignore less.

        music     ├───────────────────────┤
        hammer              ├─┤
        weight    .1  .1  .1  1   .1  .1  1
        """
        ignored, other, favoured = np.zeros((3, len(windows)))
        for entry in sounds:
            weight = self.weight(entry.text)
            if weight == 0.0:
                share = ignored
            elif weight > 1.0:
                share = favoured
            elif entry.text in not_manipulation():
                continue
            else:
                share = other
            share[:] = np.maximum(share, _covered(windows, entry))
        factors = np.where((ignored >= 0.5) & (other == 0.0), IGNORED, 1.0)
        factors = np.where(favoured > 0.0, FAVOURED, factors)
        least = windows.scores.min() if len(windows) else 0.0
        scores = least + (windows.scores - least) * factors
        return replace(windows, rates=windows.rates * factors, scores=scores)


NO_TASTE = SoundTaste()


def _covered(
    windows: Windows, entry: EvidenceEntry
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The share of each window during which the sound is heard."""
    starts = np.arange(len(windows)) * windows.length
    ends = np.minimum(starts + windows.length, entry.span.end)
    shared = ends - np.maximum(starts, entry.span.start)
    return np.asarray(np.clip(shared / windows.length, 0.0, 1.0))


@lru_cache(maxsize=1 << 14)
def _is_meant(name: str, words: tuple[str, ...]) -> bool:
    return any(name in match_sounds(each, (name, *broader(name))) for each in words)
