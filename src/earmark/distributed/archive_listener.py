"""Listening to an archive: one recording a worker, kilobytes back from each."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from earmark.distributed.backend import Backend
from earmark.gate.score_cache import ScoreCache
from earmark.media import Recording, Source
from earmark.pipeline.triage import Plan, Scored, Told, hear_anew


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One recording to listen to."""

    source: Source
    known: str | None
    """The key under which it was heard before; None where it was not."""

    def __str__(self) -> str:
        return self.source.uris[0]


@dataclass(frozen=True, slots=True)
class Listen:
    """The work of a worker; holds no state."""

    plan: Plan
    cache: ScoreCache | None
    """A folder on the worker's own machine, or one that all share."""

    def __call__(self, errand: WorkItem) -> Scored | Recording:
        """What is heard, compact; or the description of a recording that has not changed."""
        return hear_anew(errand.source, self.plan, known=errand.known, cache=self.cache)


@dataclass(frozen=True, slots=True)
class ManyEars:
    """Listens on an engine; see `earmark.pipeline.triage.Ears`."""

    engine: Backend

    def __call__(
        self,
        sources: Sequence[Source],
        plan: Plan,
        *,
        known: Mapping[Source, str],
        cache: ScoreCache | None,
    ) -> Iterator[tuple[Source, Told]]:
        """What became of each of `sources`, as it becomes known."""
        errands = [WorkItem(source, known.get(source)) for source in sources]
        for outcome in self.engine.run(Listen(plan, cache), errands):
            told = outcome.value if outcome.failure is None else outcome.failure
            assert told is not None, "an outcome is a value or a failure"
            yield outcome.item.source, told


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several equal parts of an archive, the same on every machine.

    >>> Shard.parse("3/16")
    Shard(number=3, of=16)
    """

    number: int
    """From 1."""
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.of:
            raise ValueError(f"a shard is written 1/{max(1, self.of)} to {self.of}/{self.of}")

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard written as `3/16`, the third of sixteen."""
        match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        if not match:
            raise ValueError(f"{text!r} is not a shard: write 3/16 for the third of sixteen")
        return cls(int(match[1]), int(match[2]))

    def holds(self, source: Source) -> bool:
        """Whether `source` belongs to this shard: by a hash of its address."""
        digest = hashlib.sha256(source.uris[0].encode("utf-8", "surrogateescape")).digest()
        return int.from_bytes(digest[:8], "big") % self.of == self.number - 1
