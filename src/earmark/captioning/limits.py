"""Limits on calls: concurrency, retries, caps on tokens and money, and when to stop."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from earmark.captioning.request import Answer, Request

CURRENCY = "(in the currency of your prices)"
"""Printed after every amount, since prices carry no currency."""

FIRST_WAIT = 0.5
"""Seconds before the second attempt; doubled before each further one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on the calls of one run; None means no bound."""

    concurrency: int = 8
    """Calls in flight at once."""
    timeout: float = 120.0
    """Seconds an attempt may take, from connecting to the last byte."""
    retries: int = 4
    """Further attempts after a time-out, a 429, a 5xx or a lost connection."""
    max_calls: int | None = None
    """Windows sent, answered or not, by all processes of the run together."""
    max_tokens: int | None = None
    """Input and output tokens together, by all processes of the run."""
    max_spend: float | None = None
    """Money, in the currency of the prices."""
    input_price: float = 0.0
    """Per million input tokens."""
    output_price: float = 0.0
    """Per million output tokens."""
    longest_wait: float = 120.0
    """Most seconds between two attempts; if a server asks for more, the call has failed."""
    most_failures: int | None = 32
    """Failures in a row after which the run stops."""

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.retries < 0 or not self.timeout > 0:
            raise ValueError("concurrency is 1 or more, a time-out above 0, and retries 0 or more")
        if not all(0 <= price < math.inf for price in (self.input_price, self.output_price)):
            raise ValueError("a price cannot be negative or infinite")
        caps = (self.max_calls, self.max_tokens, self.max_spend)
        if not all(cap is None or cap >= 0 for cap in caps):
            raise ValueError("a cap on calls, tokens or money is 0 or more")
        if self.max_spend is not None and not self.input_price + self.output_price > 0:
            raise ValueError("a cap on money needs prices: what a million tokens cost in and out")

    def price(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The cost of so many tokens."""
        return (prompt_tokens * self.input_price + completion_tokens * self.output_price) / 1e6

    def cost(self, request: Request, answer: Answer) -> float:
        """The cost of `answer`; the most it can be if the server reports no tokens."""
        if answer.prompt_tokens is None or answer.completion_tokens is None:
            return self.price(*request.most_tokens)
        return self.price(answer.prompt_tokens, answer.completion_tokens)

    def backoff(self, attempt: int, *, retry_after: float | None, rng: random.Random) -> float:
        """Seconds to wait after failed attempt number `attempt`, from 1; at least `retry_after`.

        Exponential with jitter: doubled each time and shortened by up to half at random, so that
        callers refused together do not come back together.
        """
        doubled = min(self.longest_wait, FIRST_WAIT * 2.0 ** (attempt - 1))
        return max(doubled * rng.uniform(0.5, 1.0), retry_after or 0.0)
