"""Models and servers the tests of calls share; each is made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tiny_vlm import write_checkpoint, write_gguf
from vlm_server import vlm_server


@pytest.fixture(scope="session")
def gguf_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A language model and its picture encoder, for llama.cpp."""
    pytest.importorskip("xllamacpp")
    return write_gguf(tmp_path_factory.mktemp("gguf"))


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Qwen3-VL, for transformers."""
    pytest.importorskip("transformers")
    return write_checkpoint(tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="session")
def vlm_url(gguf_pair: tuple[Path, Path]) -> Iterator[str]:
    """The address of a real llama.cpp server that takes pictures."""
    with vlm_server(gguf_pair[0].parent) as url:
        yield url
