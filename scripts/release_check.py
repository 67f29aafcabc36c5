"""Fails unless a tag names the version that is about to be released, and the changelog has it.

python scripts/release_check.py v0.1.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from earmark.version import VERSION

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def problem(tag: str, changelog: str) -> str | None:
    """What stands in the way of releasing this version under `tag`; None where nothing does."""
    if tag != f"v{VERSION}":
        return f"the tag is {tag or 'missing'} and the version is {VERSION}: tag it v{VERSION}"
    headings = re.findall(r"^## (\S+) \((.+)\)$", changelog, re.MULTILINE)
    dates = dict(headings)
    if VERSION not in dates:
        return f"CHANGELOG.md says nothing of {VERSION}"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", dates[VERSION]):
        return f"CHANGELOG.md has {dates[VERSION]!r} where the day of {VERSION} belongs"
    return None


if __name__ == "__main__":
    sys.exit(problem(sys.argv[1], CHANGELOG.read_text(encoding="utf-8")))
