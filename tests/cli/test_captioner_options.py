"""Words of the command line become the one captioner they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark.captioning import LocalCaptioner
from earmark.cli.captioner_options import Wanted


@pytest.mark.parametrize(("tokens", "context"), [(256, 4096), (8192, 8192 + 1024)])
def test_a_model_in_place_has_room_for_the_pictures(
    tmp_path: Path, tokens: int, context: int
) -> None:
    model, encoder = tmp_path / "a.gguf", tmp_path / "a-mmproj.gguf"
    model.touch()
    encoder.touch()
    made = Wanted(gguf=model).captioner(concurrency=2, tokens=tokens)
    assert isinstance(made, LocalCaptioner)
    assert (made.context, made.parallel) == (context, 2)
    assert made.mmproj_path == encoder


def test_two_models_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="only one model can be asked"):
        Wanted(vlm="http://127.0.0.1:1/v1", gguf=Path("a.gguf")).captioner(concurrency=1, tokens=1)


def test_a_name_without_a_place_is_no_model() -> None:
    with pytest.raises(ValueError, match="give --vlm URL"):
        Wanted(model="qwen").captioner(concurrency=1, tokens=1)
