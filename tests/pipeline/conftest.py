"""A quiet shift, filmed once for all who look for something in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark import Span
from quiet_shift import film_shift, require_yamnet


@pytest.fixture(scope="session")
def shift(tmp_path_factory) -> tuple[Path, list[Span]]:
    require_yamnet()
    path = tmp_path_factory.mktemp("shift") / "shift.mp4"
    return path, film_shift(path)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")
