"""Fixtures every test may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# A machine that is busy is slow, which says nothing about the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real annotations beside the checkout; skips the test where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no annotations at {folder.name}/ beside the checkout")
    return folder
