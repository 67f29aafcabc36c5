"""What an engine is: one function over many items, wherever there is room for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from earmark.errors import BackendError, EarmarkError

Item = TypeVar("Item")
Given = TypeVar("Given")

ATTEMPTS = 3
"""Times an item is given out; whatever takes three workers with it is not tried on a fourth."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Item, Given]):
    """What came of one item: a value, or the reason why there is none."""

    item: Item
    value: Given | None = None
    failure: EarmarkError | None = None


class Backend(Protocol):
    """Runs one function over many items.

    Yields one outcome an item as they finish, in any order; no more items are under way at a time
    than there is room for, however many there are, and a slow reader holds the rest back. The
    function and its items can be pickled and hold no state. An EarmarkError is an outcome. Any
    other exception is a bug: it is raised here with a note on the item, and the rest is not begun.
    An item whose worker is lost is given to another, `ATTEMPTS` times at most; then the loss is
    its outcome. Every engine gives the same values, to the last bit.
    """

    def run(
        self, work: Callable[[Item], Given], items: Sequence[Item]
    ) -> Iterator[Outcome[Item, Given]]:
        """The outcomes of `work` over `items`."""
        ...


def attempt(work: Callable[[Item], Given], item: Item) -> Outcome[Item, Given]:
    """The outcome of `work` on `item`, here and now."""
    try:
        return Outcome(item, work(item))
    except EarmarkError as error:
        return Outcome(item, failure=error)
    except Exception as error:
        error.add_note(f"while working on {item}")
        raise


def lost(item: Item, why: str) -> Outcome[Item, Given]:
    """The outcome of an item that cost `ATTEMPTS` workers."""
    reason = f"{ATTEMPTS} workers in a row were lost on it ({why}); give each more memory"
    return Outcome(item, failure=BackendError(reason))
