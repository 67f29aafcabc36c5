"""Matches a person's words to named sounds, with a reason: `drill` also finds power tools.

By the words themselves, by the hierarchy of sounds (a drill is a power tool, and that is a tool),
and by meaning if MiniLM is available.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import islice
from typing import Any

import numpy as np

from earmark.models.sentence_encoder import SentenceEncoder
from earmark.timeline import FloatArray

MAX_FAMILY = 4
SAME_MEANING = 0.6
NEAREST_MEANING = 0.45
"""Least cosine of the nearest name, if none reaches `SAME_MEANING`."""

TEMPERATURE = 0.05
"""Of the softmax over cosines: a name with 0.05 less counts e times less."""

BROADER_WEIGHT = 0.6
"""Of a broad sound if one of its subclasses is meant: it may be another one."""


@cache
def _stemmer() -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer("porter")


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word))


def stems(text: str) -> list[str]:
    """By the same algorithm (Porter) as the text index of a run.

    >>> stems("Drilling, power tools")
    ['drill', 'power', 'tool']
    """
    return [_stem(word) for word in re.findall(r"[^\W_]+", text.casefold())]


@cache
def subclasses() -> Mapping[str, tuple[str, ...]]:
    text = resources.files("earmark.evidence").joinpath("broader-sounds.txt").read_text("utf-8")
    rows = (line.split(": ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {broad: tuple(narrow.split(" | ")) for broad, narrow in rows}


@cache
def narrower(name: str) -> frozenset[str]:
    """Direct and indirect, without itself.

    >>> "Drill" in narrower("Tools"), narrower("Drill")
    (True, frozenset())
    """
    direct = subclasses().get(name, ())
    return frozenset(direct).union(*map(narrower, direct))


@cache
def broader(name: str) -> frozenset[str]:
    """All superclasses.

    >>> sorted(broader("Drill"))
    ['Power tool', 'Tools']
    """
    return frozenset(broad for broad in subclasses() if name in narrower(broad))


def family_of(name: str, present: Collection[str]) -> str:
    """The narrowest superclass of `name` that is `present`, or has another subclass present.

    The latter only with at most `MAX_FAMILY` subclasses: not for all animals.

    >>> family_of("Drill", {"Drill", "Power tool", "Speech"})
    'Power tool'
    >>> family_of("Drill", {"Drill", "Jackhammer"}), family_of("Drill", {"Drill", "Hammer"})
    ('Power tool', 'Drill')
    """
    others = set(present) - {name}
    wider = [
        broad
        for broad in broader(name)
        if broad in others or (len(narrower(broad)) <= MAX_FAMILY and narrower(broad) & others)
    ]
    return min(wider, key=lambda broad: (len(narrower(broad)), broad)) if wider else name


@dataclass(frozen=True, slots=True)
class SoundMatch:
    name: str
    weight: float
    """From 0 to 1."""
    reason: str
    """Empty if the name itself matches."""


def match_sounds(
    words: str, names: Sequence[str], encoder: SentenceEncoder | None = None
) -> dict[str, SoundMatch]:
    if not words.strip():
        return {}
    matches = _match_words(words, names)
    if encoder is not None:
        wider = {broad for name in matches for broad in broader(name)}
        for name, weight in _match_meanings(words, tuple(names), encoder).items():
            is_same = weight >= SAME_MEANING
            means = "means much the same as" if is_same else "is nearest in meaning to"
            if name not in wider:
                matches.setdefault(name, SoundMatch(name, weight, f"{means} {words!r}"))
    direct = set(matches)
    surest = max((match.weight for match in matches.values()), default=0.0)
    for name, match in list(matches.items()):
        if match.weight < max(surest, SAME_MEANING):  # a guess: leave the hierarchy out
            continue
        for kind in narrower(name) & set(names):
            reason = f"a kind of {name.lower()}"
            matches.setdefault(kind, SoundMatch(kind, match.weight, reason))
        for broad in broader(name) & set(names):
            reason = f"includes {name.lower()}"
            matches.setdefault(broad, SoundMatch(broad, BROADER_WEIGHT * match.weight, reason))

    def sort_key(match: SoundMatch) -> tuple[float, bool, str, str]:
        return -match.weight, match.name not in direct, match.reason, match.name

    return {match.name: match for match in sorted(matches.values(), key=sort_key)}


def similarity_weights(words: str, names: Sequence[str], encoder: SentenceEncoder) -> FloatArray:
    """Weights by similarity; they sum to 1.

    Finer than `match_sounds`: a name that nobody would call a hammer may still be closer to one
    than the other sounds of the recording.
    """
    weights = np.exp(_embed_names(tuple(names), encoder) @ encoder([words])[0] / TEMPERATURE)
    return np.asarray(weights / weights.sum())


def describe_matches(matches: Mapping[str, SoundMatch], *, most: int = 6) -> str:
    listed = [
        f"{match.name} ({match.reason})" if match.reason else match.name
        for match in islice(matches.values(), most)
    ]
    more = [f"{len(matches) - most} more"] if len(matches) > most else []
    return "; ".join(listed + more)


def _match_words(words: str, names: Sequence[str]) -> dict[str, SoundMatch]:
    """`Water tap, faucet` has two alternatives; the words of one must all occur.

    Words in brackets only qualify a name: `food` finds `Frying (food)`, `someone chops food` does
    not.
    """
    stemmed = set(stems(words))
    matches = {}
    for name in names:
        head, _, aside = name.partition("(")
        parts = [set(stems(part)) for part in head.split(",")]
        if any(part and stemmed >= part for part in parts) or stemmed == set(stems(aside)):
            matches[name] = SoundMatch(name, 1.0, "")
    return matches


@lru_cache(maxsize=1)
def _embed_names(names: tuple[str, ...], encoder: SentenceEncoder) -> FloatArray:
    return encoder(names)


def _match_meanings(
    words: str, names: tuple[str, ...], encoder: SentenceEncoder
) -> Mapping[str, float]:
    cosines = _embed_names(names, encoder) @ encoder([words])[0]
    best = float(cosines.max())
    least = SAME_MEANING if best >= SAME_MEANING else max(NEAREST_MEANING, best - 0.05)
    return {
        name: min(1.0, float(value))
        for name, value in zip(names, cosines, strict=True)
        if value >= least
    }
