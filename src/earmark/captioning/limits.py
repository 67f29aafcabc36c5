"""How hard to ask, what calls have taken so far, and when to stop."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from earmark.captioning.request import Answer, Request

CURRENCY = "(in the currency of your prices)"
"""What stands behind every amount that is printed: prices carry no currency of their own."""

FIRST_WAIT = 0.5
"""Seconds before a second attempt; doubled for each one after it."""


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
    """Windows asked about, answered or not, by all processes of the run together."""
    max_tokens: int | None = None
    """Tokens in and out together, by all processes of the run."""
    max_spend: float | None = None
    """Money, in the currency of the prices."""
    input_price: float = 0.0
    """Of a million tokens in."""
    output_price: float = 0.0
    """Of a million tokens out."""
    longest_wait: float = 120.0
    """Seconds between two attempts; a server that asks for more has failed."""
    most_failures: int | None = 32
    """Failures in a row after which the server is not asked any more."""

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.retries < 0 or not self.timeout > 0:
            raise ValueError("concurrency is 1 or more, a time-out above 0, and retries 0 or more")
        if min(self.input_price, self.output_price) < 0:
            raise ValueError("a price cannot be negative")
        if self.max_spend is not None and not self.input_price + self.output_price > 0:
            raise ValueError("a cap on money needs prices: what a million tokens cost in and out")

    def price(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost."""
        return (prompt_tokens * self.input_price + completion_tokens * self.output_price) / 1e6

    def cost(self, request: Request, answer: Answer) -> float:
        """What `answer` cost; the most it can have where the server does not say."""
        if answer.prompt_tokens is None or answer.completion_tokens is None:
            return self.price(*request.most_tokens)
        return self.price(answer.prompt_tokens, answer.completion_tokens)

    def backoff(self, attempt: int, *, retry_after: float | None, rng: random.Random) -> float:
        """Seconds to wait after a failed attempt, the first being 1; at least what was asked for.

        Doubled each time and shortened by up to half at random, so that callers turned away
        together do not come back together.
        """
        doubled = min(self.longest_wait, FIRST_WAIT * 2.0 ** (attempt - 1))
        return max(doubled * rng.uniform(0.5, 1.0), retry_after or 0.0)


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that was asked and not answered."""

    request: Request
    reason: str
    """One line for a person."""
    attempts: int
    """Times it was sent; 0 where its pictures could not be decoded."""
    prompt_tokens: int = 0
    """What it cost all the same, as far as the server said."""
    completion_tokens: int = 0
    is_guessed: bool = False
    """Whether the server did not say, and the most it can have cost is counted."""

    @property
    def tokens(self) -> tuple[int, int]:
        """In and out."""
        return self.prompt_tokens, self.completion_tokens


@dataclass(slots=True)
class Tally:
    """What has been asked so far, and what came of it."""

    calls: int = 0
    """Requests settled: answered, failed, and those that had no pictures to show."""
    answered: int = 0
    failed: int = 0
    attempts: int = 0
    """Times a server was asked, retries included."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    guessed: int = 0
    """Attempts whose server counts no tokens: the most they can have taken is counted."""
    spend: float = 0.0
    failures_in_a_row: int = 0
    last_reason: str = ""
    stopped: str | None = None
    """Which limit ended the run before its requests did, in a line; None if none did."""
    written: int = 0
    """Requests that went into batch files: their answers come later."""
    files: tuple[str, ...] = ()
    """The batch files."""
    calls_before: int = 0
    """What earlier processes of the same run have taken: the caps count it, nothing else does."""
    tokens_before: int = 0
    spend_before: float = 0.0

    @property
    def tokens(self) -> int:
        """In and out together."""
        return self.prompt_tokens + self.completion_tokens

    def fail(self, failure: Failure) -> None:
        """Count a request that stays unanswered; never sent, it says nothing of the server."""
        self.calls += 1
        self.failed += 1
        self.failures_in_a_row += failure.attempts > 0
        self.last_reason = failure.reason


@dataclass(slots=True)
class UsageCounter:
    """What has been spent, and whether there is room for more."""

    limits: Limits
    tally: Tally
    most_taken: int = 0
    """Tokens in, by any call so far; what one took another may take."""
    most_given: int = 0
    """And out."""

    def obstacle(self, held: Sequence[Request], request: Request) -> str | None:
        """Why `request` may not be sent beside those `held`, in a line; None if it may."""
        limits, tally = self.limits, self.tally
        if limits.most_failures is not None and tally.failures_in_a_row >= limits.most_failures:
            return f"{tally.failures_in_a_row} calls in a row failed, the last: {tally.last_reason}"
        calls = tally.calls_before + tally.calls + len(held)
        if limits.max_calls is not None and calls >= limits.max_calls:
            return f"the cap on calls, {limits.max_calls}, is reached"
        if limits.max_tokens is None and limits.max_spend is None:
            return None
        reserves = [self._reserve(other) for other in (*held, request)]
        taken, given = (sum(counts) for counts in zip(*reserves, strict=True))
        tokens, spend = tally.tokens_before + tally.tokens, tally.spend_before + tally.spend
        if limits.max_tokens is not None and tokens + taken + given > limits.max_tokens:
            return f"the cap of {limits.max_tokens} tokens is reached: {tokens} are spent"
        if limits.max_spend is not None and spend + limits.price(taken, given) > limits.max_spend:
            return f"the cap of {limits.max_spend:g} {CURRENCY} is reached: {spend:.4f} is spent"
        return None

    def _reserve(self, request: Request) -> tuple[int, int]:
        """Tokens set aside; models count in ways of their own."""
        taken, given = request.most_tokens
        return max(taken, self.most_taken), max(given, self.most_given)

    def count(self, request: Request, outcome: Answer | Failure | None) -> None:
        """Count one outcome, or none of an attempt that broke off.

        Where the server does not say what it took, its reserve.
        """
        tally, taken, given = self.tally, None, None
        if outcome is not None:
            tally.attempts += outcome.attempts
            taken, given = outcome.prompt_tokens, outcome.completion_tokens
        if isinstance(outcome, Failure):
            tally.guessed += outcome.is_guessed
            tally.fail(outcome)
        elif outcome is not None:
            tally.calls += 1
            tally.answered += 1
            tally.failures_in_a_row = 0
        if taken is None or given is None or min(taken, given) < 0:
            tally.guessed += 1
            taken, given = self._reserve(request)
        else:
            self.most_taken = max(self.most_taken, taken)
            self.most_given = max(self.most_given, given)
        tally.prompt_tokens += taken
        tally.completion_tokens += given
        tally.spend += self.limits.price(taken, given)
