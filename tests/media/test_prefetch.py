"""Reading ahead: the same items, made by a thread, and never more of them than was said."""

import threading
from collections.abc import Generator
from contextlib import closing

import pytest

from earmark.media.prefetch import read_ahead


class Source:
    """Numbers that say by which thread each was made, and whether they were closed."""

    def __init__(self, count: int, fault: Exception | None = None) -> None:
        self.made = 0
        self.threads: set[int] = set()
        self.is_closed = threading.Event()
        self._count, self._fault = count, fault

    def items(self) -> Generator[int, None, None]:
        try:
            for number in range(self._count):
                self.threads.add(threading.get_ident())
                self.made += 1
                yield number
            if self._fault:
                raise self._fault
        finally:
            self.is_closed.set()


def test_gives_the_same_items_in_order_made_by_another_thread() -> None:
    source = Source(1000)
    assert list(read_ahead(source.items(), 4)) == list(range(1000))
    assert threading.get_ident() not in source.threads
    assert source.is_closed.is_set()


def test_makes_no_more_ahead_than_it_is_told() -> None:
    source = Source(1000)
    with closing(read_ahead(source.items(), 4)) as numbers:
        for number in numbers:
            assert source.made <= number + 1 + 4 + 1  # the one in hand, those waiting, one made
            if number == 200:
                break


def test_what_is_raised_comes_after_the_items_before_it() -> None:
    numbers = read_ahead(Source(3, ValueError("damaged")).items(), 2)
    assert [next(numbers) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="damaged"):
        next(numbers)


def test_who_stops_early_has_the_rest_closed() -> None:
    source = Source(1000)
    with closing(read_ahead(source.items(), 2)) as numbers:
        assert next(numbers) == 0
    assert source.is_closed.wait(60)
    assert source.made < 1000


def test_an_empty_one_ends_at_once() -> None:
    assert list(read_ahead(Source(0).items(), 2)) == []
