"""A hook of MkDocs: links that leave docs/ in the repository stay inside the site.

`docs/experiments` is a symbolic link to `experiments/`, so the pages there are part of the site.
"""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with links to experiments inside the site, and without those to other files."""
    inside = markdown.replace("](../experiments/", "](experiments/")
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"\1", inside)
