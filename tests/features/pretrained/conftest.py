"""One thread for PyTorch: the models here are small and the machine is shared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from earmark.features.pretrained.checkpoint import build
from earmark.models import MODELS
from published_weights import as_published, seeded_weights


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def light_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """frame_mn06 at its full size, with weights that mean nothing, laid out as published."""
    known = MODELS["frame-mn06"]
    weights = seeded_weights(build(known).state_dict())
    path = tmp_path_factory.mktemp("checkpoints") / known.file
    torch.save(as_published(weights, known), path)
    return path
