"""The part of an archive that one of several jobs works on."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from earmark.media.source import Source


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of an archive, the same on every machine.

    >>> Shard.parse("3/16")
    Shard(number=3, of=16)
    """

    number: int
    """From 1."""
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise ValueError(f"a shard is written 1/{max(1, self.of)} to {self.of}/{self.of}")

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard written as `3/16`, the third of sixteen."""
        match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a shard: write 3/16 for the third of sixteen")
        return cls(int(match[1]), int(match[2]))

    def holds(self, source: Source) -> bool:
        """Whether `source` belongs to this shard: by a hash of its redacted address."""
        digest = hashlib.sha256(source.path.encode("utf-8", "surrogateescape")).digest()
        return int.from_bytes(digest[:8], "big") % self.of == self.number - 1
