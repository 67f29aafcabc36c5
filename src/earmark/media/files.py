"""Files that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch file beside `path` that becomes `path` at the end of the block.

    Whatever happens, `path` is either what it was or whole; the scratch file keeps the suffix and
    is gone afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        prefix=f".{path.stem}.", suffix=f".scratch{path.suffix}", dir=path.parent
    )
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
