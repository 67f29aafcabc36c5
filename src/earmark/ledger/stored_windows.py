"""The windows of many recordings, read back from a run's ledger one recording at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class StoredWindows(Collection[Windows]):
    """Windows that are in the ledger and not in memory, as often as they are gone over."""

    ledger: Ledger
    key: str
    """Names all that can change windows."""
    survival: Survival
    recordings: Sequence[str]
    """By id; each has been heard."""
    paid: Sequence[tuple[int, ...]]
    """Of each, the windows whose call is paid already."""

    def __len__(self) -> int:
        return len(self.recordings)

    def __iter__(self) -> Iterator[Windows]:
        for recording, paid in zip(self.recordings, self.paid, strict=True):
            yield self.read(recording, owned=paid)

    def __contains__(self, item: object) -> bool:
        return any(windows is item for windows in self)

    def read(self, recording: str, *, owned: tuple[int, ...] = ()) -> Windows:
        """The windows of one recording."""
        found = self.ledger.heard(recording, key=self.key, survival=self.survival, owned=owned)
        assert found is not None, "only what was heard is read back"
        return found
