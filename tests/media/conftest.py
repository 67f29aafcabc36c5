"""Media made once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from making import make_audio, make_video

CLICKS = (0.5, 1.25, 3.0)
AUDIO_ONLY = {".aac", ".flac", ".m4a", ".mp3", ".ogg", ".opus", ".wav"}


@pytest.fixture(scope="session")
def media(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`media("a.mp4", fps=5)`: 4 s with clicks at 0.5, 1.25 and 3 s, made when first asked.

    The same name and options give the same file; tests must not change it.
    """
    made: dict[str, Path] = {}

    def make(name: str, **options: Any) -> Path:
        key = f"{name} {sorted(options.items())}"
        if key not in made:
            path = tmp_path_factory.mktemp("media") / name
            if "audio" not in options:
                options.setdefault("clicks", CLICKS)
            maker = make_audio if path.suffix in AUDIO_ONLY else make_video
            made[key] = maker(path, **options)
        return made[key]

    return make
