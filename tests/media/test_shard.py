"""Parts of an archive, the same on every machine."""

from __future__ import annotations

import pytest

from earmark.media import Source
from earmark.media.source_listing import Shard


def test_shards_are_disjoint_and_whole():
    sources = [Source((f"s3://bucket/{number}.mp4",)) for number in range(200)]
    parts = [[s for s in sources if Shard(number, 5).holds(s)] for number in range(1, 6)]
    assert sorted(s.uris for part in parts for s in part) == sorted(s.uris for s in sources)
    assert min(map(len, parts)) > 20
    assert Shard(3, 5).holds(Source(("s3://bucket/0.mp4",))) == (sources[0] in parts[2])


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "-1/4", "1/0"])
def test_a_bad_shard_is_refused(text):
    with pytest.raises(ValueError, match="shard"):
        Shard.parse(text)


@pytest.mark.parametrize(
    ("text", "number", "of"), [("1/1", 1, 1), (" 3/16 ", 3, 16), ("4/4", 4, 4)]
)
def test_a_shard_is_read_as_it_is_written(text, number, of):
    shard = Shard.parse(text)
    assert (shard.number, shard.of, str(shard)) == (number, of, text.strip())


def test_where_a_recording_belongs_never_changes():
    """Another machine, or another version, would do it twice or not at all."""
    source = Source(("s3://bucket/0.mp4",))
    assert [number for number in range(1, 17) if Shard(number, 16).holds(source)] == [7]
