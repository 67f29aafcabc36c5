"""What a run holds, read through `earmark export`."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from acceptance.command_line import earmark


def rows(run: Path) -> list[dict[str, Any]]:
    """One row per pick of a run, in the order of the recordings and of time."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        outcome = earmark("export", run, "--to", "jsonl", "--out", file)
        assert outcome.code == 0, outcome.err
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def captions(run: Path) -> dict[int, str]:
    """The captions of a run with one recording, by window; windows without one are left out."""
    return {row["window"]: row["caption"] for row in rows(run) if row["status"] == "answered"}
