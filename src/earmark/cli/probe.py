"""`earmark probe`: what a file is, and what listening to it will read."""

from __future__ import annotations

from earmark.media import open_recording, find


def probe(path: str) -> None:
    """Say what a recording is."""
