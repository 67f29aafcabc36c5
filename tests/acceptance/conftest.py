"""Fixtures of the acceptance tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.golden_option import pytest_addoption  # noqa: F401  (a hook of pytest)
from acceptance.model_server import ModelServer, model_server
from acceptance.recordings import make_recording


@pytest.fixture(scope="session")
def score_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests: the same clip is listened to once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def private_surroundings(
    score_cache: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every test runs in an empty folder, with neither the user's cache nor their models."""
    monkeypatch.chdir(tmp_path_factory.mktemp("cwd"))
    monkeypatch.setenv("EARMARK_CACHE", str(score_cache))
    monkeypatch.setenv("EARMARK_CHECKPOINTS", str(score_cache / "no-models"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "EARMARK_BLUR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty seconds: ten windows, with work in windows 2, 3 and 7."""
    return make_recording(tmp_path_factory.mktemp("clip") / "shift.mp4")


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of three recordings of 24 seconds (six windows): busy, sparse and quiet."""
    folder = tmp_path_factory.mktemp("archive")
    make_recording(folder / "busy.mp4", duration=24.0, work=[(0.0, 20.0)], seed=1)
    make_recording(folder / "sparse.mp4", duration=24.0, work=[(12.5, 15.5)], seed=2)
    make_recording(folder / "quiet.mp4", duration=24.0, work=[], seed=3)
    return folder


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model server that answers every request."""
    with model_server() as running:
        yield running
