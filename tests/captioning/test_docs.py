"""docs/models.md says what is there."""

from __future__ import annotations

import re
from pathlib import Path

from earmark.captioning.captioner import CAPTIONERS
from earmark.captioning.discovery import EXTRAS

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_every_captioner_has_its_place():
    named = CAPTIONERS.keys() - {"tags"}  # `tags` is what runs without a model
    assert named <= set(re.findall(r"`(\w+):", PAGE))


def test_extras_are_called_by_their_names():
    assert set(re.findall(r"earmark\[(\w+)\]", PAGE)) <= set(EXTRAS)
