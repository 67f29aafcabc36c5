"""Matches a person's words to named sounds, with a reason: `drill` also finds power tools.

By the words themselves, by the hierarchy of sounds, and by meaning if MiniLM is available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from earmark.evidence.sound_ontology import broader, narrower
from earmark.evidence.word_stems import stems
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.timeline import FloatArray

SAME_MEANING = 0.6
"""Least cosine of two texts with much the same meaning; well above chance."""

NEAREST_MEANING = 0.45
"""Least cosine of the nearest name, where none reaches `SAME_MEANING`."""

TEMPERATURE = 0.05
"""Temperature of the softmax over cosines: a name with 0.05 less counts e times less."""

BROADER_WEIGHT = 0.6
"""Weight of a broad sound where one of its subclasses is meant: it may be another one."""


@dataclass(frozen=True, slots=True)
class SoundMatch:
    """A named sound that matches the words."""

    name: str
    weight: float
    """From 0 to 1: how well it matches."""
    reason: str
    """Reason in words; empty where the name itself matches."""


def match_sounds(
    words: str, names: Sequence[str], encoder: SentenceEncoder | None = None
) -> dict[str, SoundMatch]:
    """The `names` that match `words`, best first; empty if none does."""
    if not words.strip():
        return {}
    found = _match_words(words, names)
    if encoder is not None:
        wider = {broad for name in found for broad in broader(name)}
        for name, weight in _match_meanings(words, tuple(names), encoder).items():
            is_same = weight >= SAME_MEANING
            means = "means much the same as" if is_same else "is nearest in meaning to"
            if name not in wider:
                found.setdefault(name, SoundMatch(name, weight, f"{means} {words!r}"))
    direct = set(found)
    surest = max((match.weight for match in found.values()), default=0.0)
    for name, match in list(found.items()):
        if match.weight < max(surest, SAME_MEANING):  # a guess: leave the hierarchy out
            continue
        for kind in narrower(name) & set(names):
            reason = f"a kind of {name.lower()}"
            found.setdefault(kind, SoundMatch(kind, match.weight, reason))
        for broad in broader(name) & set(names):
            reason = f"takes in {name.lower()}"
            found.setdefault(broad, SoundMatch(broad, BROADER_WEIGHT * match.weight, reason))

    def sort_key(match: SoundMatch) -> tuple[float, bool, str, str]:
        return -match.weight, match.name not in direct, match.reason, match.name

    return {match.name: match for match in sorted(found.values(), key=sort_key)}


def similarity_weights(words: str, names: Sequence[str], encoder: SentenceEncoder) -> FloatArray:
    """Weight of each of `names` by its similarity to `words`; they sum to 1.

    Finer than `match_sounds`: a name that nobody would call a hammer may still be closer to one
    than the other sounds of the recording.
    """
    found = np.exp(_embed_names(tuple(names), encoder) @ encoder([words])[0] / TEMPERATURE)
    return np.asarray(found / found.sum())


def describe_matches(matches: Mapping[str, SoundMatch], *, most: int = 6) -> str:
    """The best of `matches` with their reasons, and how many more there are."""
    listed = [
        f"{each.name} ({each.reason})" if each.reason else each.name
        for each in islice(matches.values(), most)
    ]
    more = [f"{len(matches) - most} more"] if len(matches) > most else []
    return "; ".join(listed + more)


def _match_words(words: str, names: Sequence[str]) -> dict[str, SoundMatch]:
    """Names with one alternative whose words all occur: `Water tap, faucet` has two alternatives.

    Words in brackets only qualify a name, and match it only if nothing else is asked for: `food`
    finds `Frying (food)`, and `someone chops food` does not.
    """
    asked = set(stems(words))
    found = {}
    for name in names:
        head, _, aside = name.partition("(")
        parts = [set(stems(part)) for part in head.split(",")]
        if any(part and asked >= part for part in parts) or asked == set(stems(aside)):
            found[name] = SoundMatch(name, 1.0, "")
    return found


@lru_cache(maxsize=1)
def _embed_names(names: tuple[str, ...], encoder: SentenceEncoder) -> FloatArray:
    """Embedding of each name, one row each; cached, because 500 names take a second."""
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
