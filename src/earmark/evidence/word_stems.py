"""Words without their endings, by the same algorithm (Porter) as the run's index of words."""

from __future__ import annotations

import re
from functools import cache, lru_cache


@cache
def _stemmer() -> object:
    import snowballstemmer

    return snowballstemmer.stemmer("porter")


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    """The stem of one word; captions of a day use a few hundred, again and again."""
    found: str = _stemmer().stemWord(word)  # type: ignore[attr-defined]
    return found


def stems(text: str) -> list[str]:
    """The stems of the words in `text`, as search knows them.

    >>> stems("Drilling, power tools")
    ['drill', 'power', 'tool']
    """
    return [_stem(word) for word in re.findall(r"[^\W_]+", text.casefold())]
