"""docs/models.md says what is there."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from earmark.captioning.discovery import EXTRAS
from earmark.captioning.model_choice import CAPTIONERS

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_examples_parse_and_import_what_exists(block):
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("earmark"):
            home = importlib.import_module(node.module)
            assert all(hasattr(home, name.name) for name in node.names)


def test_every_captioner_has_its_place():
    missing = [made.__name__ for made in CAPTIONERS.values() if f"`{made.__name__}" not in PAGE]
    assert not missing


def test_extras_are_called_by_their_names():
    assert set(re.findall(r"earmark\[(\w+)\]", PAGE)) <= set(EXTRAS)
