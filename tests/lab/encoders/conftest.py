"""One thread for PyTorch: the models here are small and the machine is shared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from earmark.models import MODELS


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def light_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """frame_mn06 at its full size, with weights that mean nothing, laid out as published."""
    from earmark_lab.encoders.pretrained_encoder import ARCHITECTURES
    from published_weights import saved

    path = tmp_path_factory.mktemp("checkpoints") / MODELS["frame-mn06"].file
    return saved(ARCHITECTURES["frame-mn06"], path)
