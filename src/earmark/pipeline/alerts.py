"""Alerts of a watch: terms that name sounds, or that occur in answers.

"glass breaking, scream, 'fire alarm'"
   └── sounds Glass, Shatter, Breaking …: within seconds, without a call
   └── answers that contain all words of the term
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from earmark.evidence.live_sounds import SoundCells
from earmark.evidence.sound_query import match_sounds, stems

PAUSE = 60.0
"""Seconds without a term before it alerts again."""


@dataclass(frozen=True, slots=True)
class AlertTerm:
    words: str
    sounds: dict[int, str]
    """Names of sounds that it means, by class."""

    @classmethod
    def read(cls, words: str, names: Sequence[str]) -> AlertTerm:
        """With the names that share most of its words, and their subclasses."""
        certain = {m.name: m for m in match_sounds(words, names).values() if m.weight == 1.0}
        direct = [name for name, match in certain.items() if not match.reason]
        shared = {name: len({*stems(name)} & {*stems(words)}) for name in direct}
        closest = {name for name in direct if shared[name] == max(shared.values())}
        meant = closest | {
            name
            for name, match in certain.items()
            if match.reason
            and any(match.reason == f"a kind of {broad.lower()}" for broad in closest)
        }
        return cls(words, {names.index(name): name for name in sorted(meant)})


def read_terms(text: str, names: Sequence[str]) -> list[AlertTerm]:
    """Terms are separated by commas; quotes around a term are removed."""
    words = (part.strip().strip("'\"").strip() for part in text.split(","))
    return [AlertTerm.read(term, names) for term in words if term]


@dataclass(slots=True, eq=False)
class Alerts:
    terms: Sequence[AlertTerm] = ()
    onset: float = 1.0
    """Least probability of a sound."""
    _last: dict[tuple[str, str], float] = field(default_factory=dict)

    def hear(self, source: str, cells: SoundCells) -> Iterator[dict[str, Any]]:
        """The fields of an alert for each term whose sound begins."""
        for term in self.terms:
            surest = cells.surest(term.sounds)
            if surest is None or surest[2] < self.onset:
                continue
            time, number, likely = surest
            if self._is_new(source, term, time):
                yield {
                    "term": term.words,
                    "sound": term.sounds[number],
                    "confidence": round(likely, 3),
                    "start": time,
                }

    def read(self, source: str, caption: str, time: float) -> Iterator[dict[str, Any]]:
        """The fields of an alert for each term of an answer about `time`."""
        words = set(stems(caption)) if self.terms else set()
        for term in self.terms:
            if words >= set(stems(term.words)) and self._is_new(source, term, time):
                yield {"term": term.words, "caption": caption}

    def _is_new(self, source: str, term: AlertTerm, time: float) -> bool:
        key = source, term.words
        before, self._last[key] = self._last.get(key, 0.0), max(time, self._last.get(key, 0.0))
        return time - before > PAUSE
