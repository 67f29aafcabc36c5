"""A short run of the fuzzing targets for replies and annotations: a corpus, and spoiled copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.media_targets import mutations
from fuzz.text_targets import CORPUS, TARGETS

CASES = [
    (target, path)
    for target in TARGETS
    for path in sorted(CORPUS.iterdir())
    if path.name.startswith(target)
    or (target == "any-annotation" and not path.name.startswith("reply"))
]


@pytest.mark.parametrize(("target", "path"), CASES, ids=lambda case: getattr(case, "name", case))
def test_nothing_but_a_line_comes_of_it(target: str, path: Path) -> None:
    run, seed = TARGETS[target], path.read_bytes()
    run(seed)
    for spoiled in mutations(seed, count=60):
        run(spoiled)


def test_every_target_has_a_corpus() -> None:
    assert {target for target, _ in CASES} == set(TARGETS)
