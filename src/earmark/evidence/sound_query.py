"""Which named sounds are meant by a person's words, and how: `drill` also finds power tools.

By the words themselves, by what is a kind of what, and by meaning where MiniLM is at hand.
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
"""Cosine from which two texts mean much the same; far enough from what chance gives."""

NEAREST_MEANING = 0.45
"""Cosine that is enough for the nearest name of all, where none is as near as `SAME`."""

TEMPERATURE = 0.05
"""Cosine less by which a name counts e times less for what is meant."""

BROADER_WEIGHT = 0.6
"""Weight of a broad sound where one of its kinds is meant: it may be another kind."""


@dataclass(frozen=True, slots=True)
class SoundMatch:
    """A named sound that is meant by words."""

    name: str
    weight: float
    """From 0 to 1: how much it is what is meant."""
    reason: str
    """In words; empty where the name says it itself."""


def match_sounds(
    words: str, names: Sequence[str], encoder: SentenceEncoder | None = None
) -> dict[str, SoundMatch]:
    """Those of `names` that `words` mean, the surest first; none where nothing is meant."""
    if not words.strip():
        return {}
    found = _match_words(words, names)
    if encoder is not None:
        wider = {broad for name in found for broad in broader(name)}
        for name, weight in _match_meanings(words, tuple(names), encoder).items():
            means = (
                "means much the same as" if weight >= SAME_MEANING else "is nearest in meaning to"
            )
            if name not in wider:
                found.setdefault(name, SoundMatch(name, weight, f"{means} {words!r}"))
    direct = set(found)
    surest = max((match.weight for match in found.values()), default=0.0)
    for name, match in list(found.items()):
        if match.weight < max(
            surest, SAME_MEANING
        ):  # a guess has no kinds, and is a kind of nothing
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
    """How much each of `names` counts for what `words` mean, all together 1.

    Finer than `match_sounds`: what nobody would call a hammer may still sound more like one than
    the rest of the recording does.
    """
    found = np.exp(_embed_names(tuple(names), encoder) @ encoder([words])[0] / TEMPERATURE)
    return np.asarray(found / found.sum())


def describe_matches(matches: Mapping[str, SoundMatch], *, most: int = 6) -> str:
    """The surest of `matches`, each with its reason, and how many more there are."""
    listed = [
        f"{each.name} ({each.reason})" if each.reason else each.name
        for each in islice(matches.values(), most)
    ]
    more = [f"{len(matches) - most} more"] if len(matches) > most else []
    return "; ".join(listed + more)


def _match_words(words: str, names: Sequence[str]) -> dict[str, SoundMatch]:
    """Names all of whose words of one alternative are said: `Water tap, faucet` has two.

    What stands in brackets tells kinds apart, and finds its names where nothing else is said:
    `food` finds `Frying (food)`, and `someone chops food` does not.
    """
    reason = set(stems(words))
    found = {}
    for name in names:
        head, _, aside = name.partition("(")
        parts = [set(stems(part)) for part in head.split(",")]
        if any(part and reason >= part for part in parts) or reason == set(stems(aside)):
            found[name] = SoundMatch(name, 1.0, "")
    return found


@lru_cache(maxsize=1)
def _embed_names(names: tuple[str, ...], encoder: SentenceEncoder) -> FloatArray:
    """One row a name: half a thousand of them take a second to read."""
    return encoder(names)


def _match_meanings(
    words: str, names: tuple[str, ...], encoder: SentenceEncoder
) -> Mapping[str, float]:
    similarity_weights = _embed_names(names, encoder) @ encoder([words])[0]
    best = float(similarity_weights.max())
    least = SAME_MEANING if best >= SAME_MEANING else max(NEAREST_MEANING, best - 0.05)
    return {
        name: min(1.0, float(value))
        for name, value in zip(names, similarity_weights, strict=True)
        if value >= least
    }
