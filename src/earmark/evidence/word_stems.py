"""Word stems, by the same algorithm (Porter) as the text index of a run."""

from __future__ import annotations

import re
from functools import cache, lru_cache


@cache
def _stemmer() -> object:
    import snowballstemmer

    return snowballstemmer.stemmer("porter")


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    found: str = _stemmer().stemWord(word)  # type: ignore[attr-defined]
    return found


def stems(text: str) -> list[str]:
    """As in the search index.

    >>> stems("Drilling, power tools")
    ['drill', 'power', 'tool']
    """
    return [_stem(word) for word in re.findall(r"[^\W_]+", text.casefold())]
