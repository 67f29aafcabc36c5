"""A short run of the fuzzing targets: the corpus, and spoiled copies of it.

`make fuzz` is the long one, with coverage as its guide.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.media_targets import CORPUS, TARGETS, mutations

COUNTS = {"boxes": 80, "packets": 80, "recording": 6}
"""Spoiled copies of each file of the corpus."""


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
@pytest.mark.parametrize("target", COUNTS)
def test_nothing_but_a_media_error_comes_of_it(target: str, path: Path) -> None:
    run, seed = TARGETS[target], path.read_bytes()
    run(seed)
    for spoiled in mutations(seed, count=COUNTS[target]):
        run(spoiled)
