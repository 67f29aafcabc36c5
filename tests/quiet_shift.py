"""A quiet shift with three drillings in it, and the models that hear and read; for many tests."""

from __future__ import annotations

import runpy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from earmark import Span
from earmark.errors import ModelMissing
from earmark.models import ModelStore
from earmark.models.sentence_encoder import SentenceEncoder

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "make_quiet_shift.py"


@cache
def script() -> SimpleNamespace:
    """What the script defines."""
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def require_yamnet() -> None:
    """Skip the test where sounds cannot be named."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
    try:
        ModelStore().find("yamnet")
    except ModelMissing as error:
        pytest.skip(str(error))


def require_minilm() -> SentenceEncoder:
    """MiniLM; skip the test where it is absent."""
    encoder = SentenceEncoder.if_available()
    if encoder is None:
        pytest.skip("no MiniLM here: earmark models get minilm, minilm-tokenizer")
    return encoder


def film_shift(path: Path, *, minutes: float = 2.5, drillings: int = 3) -> list[Span]:
    """Film a shift to `path`; when it is drilled."""
    events = script().compose(minutes, drillings=drillings)
    script().film(path, events, minutes=minutes)
    return [Span(each.start, each.end) for each in events if each.label == "drill"]
