"""What was heard is kept, and heard again where the kept file is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from earmark import ScoreCache
from earmark.gate.frontline import frontline_named
from earmark.gate.listener import listen_cached
from earmark.media import Source
from making import make_video

COMPRESSION, ENCRYPTION, OFFSET = 10, 8, 42
"""Places of bytes in an entry of a ZIP archive's directory."""


@pytest.mark.parametrize("place", [COMPRESSION, ENCRYPTION, OFFSET + 3])
def test_a_damaged_entry_counts_as_missing(tmp_path: Path, place: int) -> None:
    source, frontline = Source((str(make_video(tmp_path / "a.mp4")),)), frontline_named("flux")
    cache = ScoreCache(tmp_path / "cache")
    heard = listen_cached(source, frontline, cache)
    assert cache.find(source, frontline, audio_track=0) is not None
    (path,) = cache.folder.rglob("*.npz")
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + place] ^= 0xFF
    path.write_bytes(data)
    assert cache.find(source, frontline, audio_track=0) is None
    again = listen_cached(source, frontline, cache)
    assert np.array_equal(again.scores.values, heard.scores.values)
    assert cache.find(source, frontline, audio_track=0) is not None


def test_a_cached_result_is_the_fresh_one_exactly(tmp_path: Path) -> None:
    """Else the loudest instant of a window would depend on when the recording was heard."""
    source, frontline = Source((str(make_video(tmp_path / "a.mp4")),)), frontline_named("flux")
    cache = ScoreCache(tmp_path / "cache")
    fresh = listen_cached(source, frontline, cache)
    cached = listen_cached(source, frontline, cache)
    assert cached.from_cache and not fresh.from_cache
    assert fresh.level is not None and cached.level is not None
    assert np.array_equal(cached.level.values, fresh.level.values)
    assert np.array_equal(cached.scores.values, fresh.scores.values)
