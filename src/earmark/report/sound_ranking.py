"""Which of the named sounds of recordings matter most.

A sound counts by how sure its name is, how long it lasts, and how far it stands out from what the
recording usually sounds like: a radio that plays all day does not, a drill does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_query import broader, family_of, narrower
from earmark.evidence.sound_taste import SoundTaste
from earmark.features.sound_tags import not_manipulation
from earmark.gate.listener import SILENT_DB
from earmark.run.records import HeardRow
from earmark.timeline import Span, merge

TOGETHER = 5.0
"""Seconds between two sounds of one name that count as one."""

OUTSTANDING_DB = 12.0
"""Above the median of the recording, from which a sound stands out fully."""

LEAST_OUTSTANDING = 0.25

DOUBTED = 0.2
"""Weight of the name of a sound that hands do not make: it must be five times as long or loud."""

ALIKE = 0.5
"""Share of a sound's time during which another one is heard, from which they are one."""

LEAST_SHARE = 0.25
"""Of the longer of two sounds that are one."""


@dataclass(frozen=True, slots=True)
class SoundTally:
    """A sound of a recording under all names that were given to it."""

    name: str
    """The broadest."""
    sizes: Mapping[str, float]
    """Seconds of each name, by confidence."""
    spans: tuple[Span, ...]
    confidence: float
    """The highest."""
    weight: float

    @property
    def title(self) -> str:
        return best_name(self.sizes)

    @property
    def seconds(self) -> float:
        return sum(span.duration for span in self.spans)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.title,
            "also": also_named(self.sizes),
            "spans": [(round(span.start, 2), round(span.end, 2)) for span in self.spans],
            "seconds": round(self.seconds, 1),
            "confidence": round(self.confidence, 3),
        }


def best_name(sizes: Mapping[str, float]) -> str:
    """One that says something: the longest of those with a place in the hierarchy of sounds.

    >>> best_name({"Power tool": 9.0, "Drill": 8.0}), best_name({"Rub": 9.0, "Sawing": 6.0})
    ('Drill', 'Sawing')
    """
    most = max(sizes.values())
    names = [name for name, size in sizes.items() if size >= 0.3 * most]
    narrowest = [name for name in names if not narrower(name) & {*names}]
    return short_name(max(narrowest, key=lambda name: (bool(broader(name)), sizes[name])))


def also_named(sizes: Mapping[str, float]) -> list[str]:
    """The other names, without those that only say the same more broadly."""
    title = best_name(sizes)
    names = sorted(sizes, key=lambda name: -sizes[name])
    broad = {wide for name in names if short_name(name) == title for wide in broader(name)}
    return [short_name(name) for name in names if short_name(name) != title and name not in broad]


def rank_sounds(
    heard: HeardRow, entries: Sequence[EvidenceEntry], taste: SoundTaste, duration: float
) -> list[SoundTally]:
    """Families of sounds, the most important first; without those to ignore."""
    entries = [entry for entry in entries if taste.weight(entry.text)]
    present = {entry.text for entry in entries}
    families: dict[str, list[EvidenceEntry]] = defaultdict(list)
    for entry in entries:
        families[_widest_family(entry.text, present)].append(entry)
    tallies = [_tally(name, own, heard, taste, duration) for name, own in families.items()]
    return sorted(tallies, key=lambda tally: (-tally.weight, tally.name))


def join_alike(recordings: Sequence[Sequence[SoundTally]]) -> list[list[SoundTally]]:
    """The tallies of recordings, those that name the same sounds joined into one.

    Sawing    ├──────┤      ├────┤
    Rub       ├────┤        ├────┤  ├┤     most of it while there is sawing: one sound
    Drill               ├─┤
    """
    weights: Counter[str] = Counter()
    for tally in (tally for own in recordings for tally in own):
        weights[tally.name] += tally.weight  # type: ignore[assignment]
    leaders: dict[str, str] = {}
    for name in sorted(weights, key=lambda name: (-weights[name], name)):
        own = [(place, tally) for place, row in enumerate(recordings) for tally in row]
        spans = {place: tally.spans for place, tally in own if tally.name == name}
        seconds = sum(span.duration for each in spans.values() for span in each)
        leaders[name] = name
        for other in [lead for lead in leaders if leaders[lead] == lead and lead != name]:
            others = {place: tally.spans for place, tally in own if tally.name == other}
            length = sum(span.duration for each in others.values() for span in each)
            # A few blows within a long rain are not the rain.
            if _shared(spans, others) >= max(ALIKE * seconds, LEAST_SHARE * length):
                leaders[name] = other
                break
    joined = []
    for row in recordings:
        groups: dict[str, list[SoundTally]] = defaultdict(list)
        for tally in row:
            groups[leaders[tally.name]].append(tally)
        tallies = [_join(name, own) for name, own in groups.items()]
        joined.append(sorted(tallies, key=lambda tally: (-tally.weight, tally.name)))
    return joined


def _join(name: str, tallies: Sequence[SoundTally]) -> SoundTally:
    sizes: dict[str, float] = {}
    for tally in tallies:
        for each, size in tally.sizes.items():
            sizes[each] = sizes.get(each, 0.0) + size
    spans = merge((span for tally in tallies for span in tally.spans), gap=TOGETHER)
    surest = max(tally.confidence for tally in tallies)
    return SoundTally(name, sizes, tuple(spans), surest, max(tally.weight for tally in tallies))


def _shared(spans: Mapping[int, Sequence[Span]], others: Mapping[int, Sequence[Span]]) -> float:
    """Seconds that both have, by recording."""
    return sum(
        max(0.0, min(span.end, other.end) - max(span.start, other.start))
        for place, own in spans.items()
        for span in own
        for other in others.get(place, ())
    )


def _tally(
    name: str,
    entries: Sequence[EvidenceEntry],
    heard: HeardRow,
    taste: SoundTaste,
    duration: float,
) -> SoundTally:
    sizes: dict[str, float] = defaultdict(float)
    for entry in entries:
        sizes[entry.text] += entry.confidence * entry.span.duration
    spans = merge((entry.span for entry in entries), gap=TOGETHER)
    usual = min(1.0, sum(span.duration for span in spans) / max(duration, 1e-9))
    weight = sum(
        entry.confidence * entry.span.duration * _stands_out(heard, entry.span) * trust(entry.text)
        for entry in entries
    )
    favour = max(taste.weight(entry.text) for entry in entries)
    surest = max(entry.confidence for entry in entries)
    return SoundTally(name, dict(sizes), tuple(spans), surest, weight * (1 - usual) ** 2 * favour)


def trust(name: str) -> float:
    """Small models give the names of animals, music and weather to the noise of work."""
    return DOUBTED if name in not_manipulation() else 1.0


def _stands_out(heard: HeardRow, span: Span) -> float:
    """From `LEAST_OUTSTANDING` to 1; 1 if the level is not known."""
    level = heard.level
    if level is None or not len(level):
        return 1.0
    usual = np.median(np.maximum(level.values, SILENT_DB))
    first = min(int(span.start / level.hop), len(level) - 1)
    own = level.values[first : max(first + 1, int(np.ceil(span.end / level.hop)))]
    above = float(np.max(own)) - float(usual)
    return float(np.clip(above / OUTSTANDING_DB, LEAST_OUTSTANDING, 1.0))


def _widest_family(name: str, present: Collection[str]) -> str:
    """Widened as long as it is `present` itself: caw, crow, animal."""
    wider = family_of(name, present)
    return wider if wider == name or wider not in present else _widest_family(wider, present)


def short_name(sound: str) -> str:
    """The first of the names, which are separated by commas outside of brackets.

    >>> short_name("Dishes, pots, and pans"), short_name("Roaring cats (lions, tigers)")
    ('Dishes', 'Roaring cats (lions, tigers)')
    """
    first, *others = sound.split(",")
    while others and first.count("(") > first.count(")"):
        first += "," + others.pop(0)
    return first
