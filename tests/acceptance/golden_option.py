"""The option `--write-goldens`: write the golden files anew instead of comparing with them."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--write-goldens", action="store_true", help="write tests/acceptance/goldens/")
