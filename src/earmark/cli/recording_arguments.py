"""Finds the recordings a command is given, and says what was left out."""

from __future__ import annotations

from collections.abc import Sequence

from earmark.cli.console import warn
from earmark.cli.formatting import counted
from earmark.media import Source
from earmark.media.source import place_of
from earmark.media.source_listing import find_all


def sources_at(paths: Sequence[str]) -> list[Source]:
    """The recordings at `paths`; a line on stderr where a camera's small copies are left out."""
    found = find_all(paths)
    if found.copies:
        files = counted(len(found.copies), "file")
        warn(
            f"{files} left out, such as {place_of(found.copies[0])}: a camera's small copies and "
            "stills of recordings that are here in full"
        )
    return found.sources
