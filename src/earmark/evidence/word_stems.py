"""Words without their endings, by the same algorithm (Porter) as the run's index of words."""

from __future__ import annotations

import re
from functools import cache


@cache
def _stemmer() -> object:
    import snowballstemmer

    return snowballstemmer.stemmer("porter")


def stems(text: str) -> list[str]:
    """The stems of the words in `text`, as search knows them.

    >>> stems("Drilling, power tools")
    ['drill', 'power', 'tool']
    """
    words = re.findall(r"[^\W_]+", text.casefold())
    found: list[str] = _stemmer().stemWords(words)  # type: ignore[attr-defined]
    return found
