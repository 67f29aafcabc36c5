"""How many steps a backtracking matcher takes: a way to see super-linear patterns without a clock.

    steps(r"(a+)+b", "a" * 20)      # tens of thousands
    attacks(r"\\w+@")                # texts made to be slow for it

The matcher walks the tree of `re._parser` as the engine of `re` does, without its shortcuts.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import sys
from collections.abc import Callable, Iterator
from typing import Any

MOST = 400_000
"""Steps, after which the counting ends."""


class TooMany(Exception):
    """More steps than `MOST`."""


class Matcher:
    """Counts the steps of one search."""

    def __init__(self, pattern: str, flags: int, text: str) -> None:
        self.tree = parser.parse(pattern, flags)
        self.flags, self.text, self.count = flags, text, 0

    def search(self, *, is_anchored: bool) -> int:
        """Start at every place, as `sub` and `search` do where nothing matches."""
        start = 0
        while start <= (0 if is_anchored else len(self.text)):
            ends: list[int] = []
            self._run(
                list(self.tree), 0, start, lambda at, ends=ends: bool(ends.append(at)) or True
            )
            start = max(start + 1, ends[0]) if ends else start + 1
        return self.count

    def _step(self) -> None:
        self.count += 1
        if self.count > MOST:
            raise TooMany

    def _run(  # noqa: PLR0911 - one for each kind of node
        self, nodes: list[Any], index: int, at: int, done: Callable[[int], bool]
    ) -> bool:
        self._step()
        if index == len(nodes):
            return done(at)
        operation, value = nodes[index]

        def onward(after: int) -> bool:
            return self._run(nodes, index + 1, after, done)

        if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            low, high, body = value
            return self._repeat(list(body), int(low), int(high), at, onward)
        if operation is sre.SUBPATTERN:
            return self._run(list(value[-1]), 0, at, onward)
        if operation is sre.ATOMIC_GROUP:
            return self._run(list(value), 0, at, onward)
        if operation is sre.BRANCH:
            return any(self._run(list(body), 0, at, onward) for body in value[1])
        if operation in (sre.ASSERT, sre.ASSERT_NOT):
            direction, body = value
            start = at - body.getwidth()[0] if direction < 0 else at
            is_there = start >= 0 and self._run(list(body), 0, start, lambda _: True)
            return is_there == (operation is sre.ASSERT) and onward(at)
        if operation in (sre.AT, sre.GROUPREF, sre.GROUPREF_EXISTS):
            is_start = value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
            is_end = value in (sre.AT_END, sre.AT_END_STRING)
            if (is_start and at > 0) or (is_end and at < len(self.text)):
                return False
            return onward(at)
        return at < len(self.text) and self._takes(operation, value, at) and onward(at + 1)

    def _repeat(
        self, body: list[Any], low: int, high: int, at: int, done: Callable[[int], bool]
    ) -> bool:
        self._step()
        if len(body) == 1 and body[0][0] in CHARACTERS:  # without a frame for each character
            end = at
            while end < len(self.text) and end - at < high and self._takes(*body[0], end):
                self._step()
                end += 1
            return any(done(place) for place in range(end, at + low - 1, -1))

        def more(after: int) -> bool:
            return after > at and self._repeat(body, max(0, low - 1), high - 1, after, done)

        if high > 0 and self._run(body, 0, at, more):
            return True
        return low == 0 and done(at)

    def _takes(self, operation: Any, value: Any, at: int) -> bool:
        return matches(operation, value, self.text[at], self.flags)


CHARACTERS = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)


def matches(operation: Any, value: Any, letter: str, flags: int) -> bool:
    """Whether a node for one character takes `letter`."""
    if flags & re.IGNORECASE and letter.isascii():
        return any(_takes(operation, value, form) for form in {letter.lower(), letter.upper()})
    return _takes(operation, value, letter)


def _takes(operation: Any, value: Any, letter: str) -> bool:
    if operation is sre.ANY:
        return True
    if operation is sre.LITERAL:
        return ord(letter) == value
    if operation is sre.NOT_LITERAL:
        return ord(letter) != value
    is_negated = value[0][0] is sre.NEGATE
    return is_negated != any(_in_class(item, letter) for item in value)


def _in_class(item: tuple[Any, Any], letter: str) -> bool:
    kind, value = item
    if kind is sre.LITERAL:
        return ord(letter) == value
    if kind is sre.RANGE:
        return bool(value[0] <= ord(letter) <= value[1])
    if kind is sre.CATEGORY:
        name = str(value).lower()
        is_in = (
            letter.isspace()
            if "space" in name
            else letter.isdigit()
            if "digit" in name
            else letter.isalnum() or letter == "_"
        )
        return is_in != ("not_" in name)
    return False


def steps(pattern: str, text: str, flags: int = 0, *, is_anchored: bool = False) -> int:
    """Steps of a search of the whole `text`; `MOST` and one if there are more."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    matcher = Matcher(pattern, flags, text)
    try:
        return matcher.search(is_anchored=is_anchored)
    except TooMany:
        return MOST + 1
    finally:
        sys.setrecursionlimit(before)


LETTERS = "a1.- /@:=&\\\"'<#_%\n\t)x"


def attacks(pattern: str, flags: int = 0) -> Iterator[tuple[str, str, str]]:
    """Beginning, repeated part and end of texts that may be slow: from what its repeats take."""
    tree = parser.parse(pattern, flags)
    common = {_sample(list(tree), flags), "a", "/", "a@"}
    for prefix, body in _repeats(list(tree), "", flags):
        inner = _sample(body, flags)
        for pump in sorted({inner, prefix + inner, prefix, *sorted(_letters(body, flags))[:3]}):
            if pump:
                yield prefix, pump, "\x00"
    yield from (("", pump, "\x00") for pump in sorted(filter(None, common)))


def _repeats(nodes: list[Any], prefix: str, flags: int) -> Iterator[tuple[str, list[Any]]]:
    """Each repeat without a small bound, with an example of what precedes it."""
    for index, (operation, value) in enumerate(nodes):
        before = prefix + _sample(nodes[:index], flags)
        if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            if int(value[1]) > 64:
                yield before, list(value[2])
            yield from _repeats(list(value[2]), before, flags)
        elif operation is sre.SUBPATTERN:
            yield from _repeats(list(value[-1]), before, flags)
        elif operation is sre.BRANCH:
            for body in value[1]:
                yield from _repeats(list(body), before, flags)
        elif operation is sre.ASSERT:
            yield from _repeats(list(value[1]), before, flags)


def _letters(nodes: list[Any], flags: int) -> set[str]:
    if len(nodes) != 1 or nodes[0][0] not in CHARACTERS:
        return set()
    return {letter for letter in LETTERS if matches(*nodes[0], letter, flags)}


def _sample(nodes: list[Any], flags: int) -> str:
    """A short text that the nodes match."""
    text = ""
    for operation, value in nodes:
        if operation in CHARACTERS:
            known = (letter for letter in LETTERS if matches(operation, value, letter, flags))
            text += next(known, chr(value) if operation is sre.LITERAL else "")
        elif operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            text += _sample(list(value[2]), flags) * min(8, max(1, int(value[0])))
        elif operation is sre.SUBPATTERN:
            text += _sample(list(value[-1]), flags)
        elif operation is sre.BRANCH:
            text += _sample(list(value[1][0]), flags)
    return text
