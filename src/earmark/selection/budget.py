from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

ACCEPTED = (
    "write 25% or 0.25 for a share of the windows (all of them are 100%), 120 for calls (1 is one "
    "call), price=0.4 for new actions a call, or auto for the price that pays"
)

AUTO_PRICE = 0.4
"""New actions expected by the sound alone."""


MAX_ROUNDS = 9
"""No measurement showed a gain from more than a few."""

Rounds = int | Literal["auto"]
"""How many rounds the calls of a run are asked in, 1 to `MAX_ROUNDS`.

`auto`: the answers decide, and no round is added that cannot change the plan."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Exactly one of a share, a number of calls, and a price.

    >>> Budget.parse("25%").calls(900), Budget.parse("120").calls(900)
    (225, 120)
    """

    share: float | None = None
    """Above 0 and up to 1."""
    count: int | None = None
    """1 or more."""
    price: float | None = None
    """New actions that each call must be expected to bring."""

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.share, self.count, self.price)) != 1:
            raise ValueError("a budget is one of a share, a number of calls, and a price")
        if self.share is not None and not 0 < self.share <= 1:
            raise ValueError(f"a share lies above 0 % and up to 100 %, not {self.share:.6g}")
        if self.count is not None and self.count < 1:
            raise ValueError(f"a budget is 1 call or more, not {self.count}")
        if self.price is not None and not (math.isfinite(self.price) and self.price > 0):
            raise ValueError(f"a price is above 0 new actions a call, not {self.price}")

    @classmethod
    def parse(cls, text: str | float | Budget) -> Budget:
        """The budget written as `25%`, `0.25`, `120`, `price=0.4` or `auto`."""
        if isinstance(text, Budget):
            return text
        words = str(text).strip().lower()
        try:
            if words == "auto":
                return cls(price=AUTO_PRICE)
            if words.endswith("%"):
                return cls(share=float(words[:-1]) / 100)
            if words.startswith("price="):
                return cls(price=float(words.removeprefix("price=")))
            if float(words) < 1:  # 1.0 could mean one call or all windows, so it means neither
                return cls(share=float(words))
            return cls(count=int(words))
        except ValueError:
            raise ValueError(f"{text!r} is not a budget: {ACCEPTED}") from None

    def calls(self, windows: int) -> int:
        """At most `windows`; a small share of a short recording may round to 0."""
        if self.price is not None:
            raise ValueError("a price has no number of calls until the rates are known")
        if self.count is not None:
            return min(self.count, windows)
        assert self.share is not None
        return round(self.share * windows)  # as the paper's tables do; its Equation 3 says floor

    def __str__(self) -> str:
        if self.price is not None:
            return f"price={self.price:g}"
        return f"{self.count}" if self.share is None else f"{self.share * 100:g}%"


def parse_rounds(text: str) -> Rounds:
    """A number of rounds, or `auto`.

    >>> parse_rounds("3"), parse_rounds(" Auto ")
    (3, 'auto')
    """
    words = text.strip().lower()
    if words == "auto":
        return "auto"
    if not words.isdecimal():
        raise ValueError(f"{text!r} is not a number of rounds: write 1 to {MAX_ROUNDS}, or auto")
    if not 1 <= int(words) <= MAX_ROUNDS:
        raise ValueError(f"rounds are 1 to {MAX_ROUNDS}, or auto, not {words}")
    return int(words)
