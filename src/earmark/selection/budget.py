"""How many calls: a share of the windows, a number, or a price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

ACCEPTED = (
    "write 25% or 0.25 for a share of the windows (all of them are 100%), 120 for calls (1 is one "
    "call), price=0.4 for new actions a call, or auto for the price that pays"
)

AUTO_PRICE = 0.4
"""Price of `auto`: expected new actions, by the sound alone, at which one of two or three calls is
worth its money."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Exactly one of a share, a number of calls, and a price.

    >>> Budget.parse("25%").calls(900), Budget.parse("120").calls(900)
    (225, 120)
    """

    share: float | None = None
    """Share of all windows, above 0 and up to 1."""
    count: int | None = None
    """Number of calls, 1 or more."""
    price: float | None = None
    """New actions that each call must be expected to bring; calls are made as long as one does."""
    rounding: Literal["round", "floor"] = "round"
    """How a share of the windows becomes whole calls.

    The paper's Equation 3 says `floor`; its tables follow `round`, half to even (24 of the 24 rows
    of its per-recording table against 17). 25 % of 6 windows are 1.5: 2 calls rounded, 1 cut."""

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.share, self.count, self.price)) != 1:
            raise ValueError("a budget is one of a share, a number of calls, and a price")
        if self.share is not None and not 0 < self.share <= 1:
            raise ValueError(f"a share lies above 0 % and up to 100 %, not {self.share:.6g}")
        if self.count is not None and self.count < 1:
            raise ValueError(f"a budget is 1 call or more, not {self.count}")
        if self.price is not None and not (math.isfinite(self.price) and self.price > 0):
            raise ValueError(f"a price is above 0 new actions a call, not {self.price}")
        if self.rounding not in ("round", "floor"):
            raise ValueError(f"rounding is round or floor, not {self.rounding}")

    @classmethod
    def parse(
        cls, text: str | float | Budget, *, rounding: Literal["round", "floor"] = "round"
    ) -> Budget:
        """The budget written as `25%`, `0.25`, `120`, `price=0.4` or `auto`; or a `Budget`.

        A number is read like the same text. `25% floor` rounds down to whole calls, whatever
        `rounding` is.
        """
        if isinstance(text, Budget):
            return text
        words = str(text).strip().lower()
        if words.endswith(" floor"):
            words, rounding = words.removesuffix(" floor").strip(), "floor"
        try:
            if words == "auto":
                return cls(price=AUTO_PRICE, rounding=rounding)
            if words.endswith("%"):
                return cls(share=float(words[:-1]) / 100, rounding=rounding)
            if words.startswith("price="):
                return cls(price=float(words.removeprefix("price=")), rounding=rounding)
            if float(words) < 1:  # 1.0 could mean one call or all windows, so it means neither
                return cls(share=float(words), rounding=rounding)
            return cls(count=int(words), rounding=rounding)
        except ValueError:
            raise ValueError(f"{text!r} is not a budget: {ACCEPTED}") from None

    def calls(self, windows: int) -> int:
        """Calls for `windows` windows, at most `windows`.

        A small share of a short recording may round to 0, and then is 0. A price raises
        `ValueError`: it has no number of calls until the rates are known.
        """
        if self.price is not None:
            raise ValueError("a price has no number of calls until the rates are known")
        if self.count is not None:
            return min(self.count, windows)
        assert self.share is not None
        wanted = self.share * windows
        return math.floor(wanted + 1e-9) if self.rounding == "floor" else round(wanted)

    def __str__(self) -> str:
        if self.price is not None:
            return f"price={self.price:g}"
        cut = " floor" if self.rounding == "floor" else ""
        return f"{self.count}" if self.share is None else f"{self.share * 100:g}%{cut}"
