"""Counts of calls, tokens and money so far, and whether the limits allow more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from earmark.captioning.limits import CURRENCY, Limits
from earmark.captioning.request import Answer, Request


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer."""

    request: Request
    reason: str
    """One line for a person."""
    attempts: int
    """Times it was sent; 0 if its pictures could not be decoded."""
    prompt_tokens: int = 0
    """What it cost nevertheless, as far as the server reported."""
    completion_tokens: int = 0
    is_guessed: bool = False
    """Whether the server reported no tokens, so that the most possible is counted."""

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens."""
        return self.prompt_tokens, self.completion_tokens


@dataclass(slots=True)
class Tally:
    """Counts of calls and their outcomes."""

    calls: int = 0
    """Requests with an outcome: answered, failed, and those without pictures to show."""
    answered: int = 0
    failed: int = 0
    attempts: int = 0
    """Times a request was sent, retries included."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    guessed: int = 0
    """Attempts without a report of tokens: the most possible is counted for each."""
    spend: float = 0.0
    failures_in_a_row: int = 0
    last_reason: str = ""
    stopped: str | None = None
    """The limit that ended the run early, in a line; None if none did."""
    written: int = 0
    """Requests written to batch files, whose answers come later."""
    files: tuple[str, ...] = ()
    """The batch files."""
    calls_before: int = 0
    """Calls of earlier processes of the same run; only the caps count these three."""
    tokens_before: int = 0
    spend_before: float = 0.0

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def fail(self, failure: Failure) -> None:
        """Count a request without an answer; one never sent is no failure in a row."""
        self.calls += 1
        self.failed += 1
        self.failures_in_a_row += failure.attempts > 0
        self.last_reason = failure.reason


@dataclass(slots=True)
class UsageCounter:
    """Adds up what is spent, and checks the limits before each call."""

    limits: Limits
    tally: Tally
    most_prompt: int = 0
    """Largest input of a call so far, in tokens; the next may be as large."""
    most_completion: int = 0
    """Largest output, likewise."""

    def exceeded_limit(self, pending: Sequence[Request], request: Request) -> str | None:
        """The limit that forbids `request` beside those `pending`, in a line; None if none does."""
        limits, tally = self.limits, self.tally
        if limits.most_failures is not None and tally.failures_in_a_row >= limits.most_failures:
            return f"{tally.failures_in_a_row} calls in a row failed, the last: {tally.last_reason}"
        calls = tally.calls_before + tally.calls + len(pending)
        if limits.max_calls is not None and calls >= limits.max_calls:
            return f"the cap on calls, {limits.max_calls}, is reached"
        if limits.max_tokens is None and limits.max_spend is None:
            return None
        reserves = [self._reserve(other) for other in (*pending, request)]
        prompt, completion = (sum(counts) for counts in zip(*reserves, strict=True))
        tokens, spend = tally.tokens_before + tally.tokens, tally.spend_before + tally.spend
        if limits.max_tokens is not None and tokens + prompt + completion > limits.max_tokens:
            return (
                f"the cap of {limits.max_tokens} tokens is reached: {tokens} are spent, "
                f"and a call may take {sum(reserves[-1])}"
            )
        if (
            limits.max_spend is not None
            and spend + limits.price(prompt, completion) > limits.max_spend
        ):
            return (
                f"the cap of {limits.max_spend:g} {CURRENCY} is reached: {spend:.4f} is spent, "
                f"and a call may cost {limits.price(*reserves[-1]):.4f}"
            )
        return None

    def _reserve(self, request: Request) -> tuple[int, int]:
        """Tokens to reserve for `request`: its own estimate, or the most of any call so far."""
        prompt, completion = request.most_tokens
        return max(prompt, self.most_prompt), max(completion, self.most_completion)

    def count(self, request: Request, outcome: Answer | Failure | None) -> None:
        """Count an outcome; None is an attempt that broke off.

        If the server reports no tokens, the tokens reserved for the request are counted.
        """
        tally, prompt, completion = self.tally, None, None
        if outcome is not None:
            tally.attempts += outcome.attempts
            prompt, completion = outcome.prompt_tokens, outcome.completion_tokens
        if isinstance(outcome, Failure):
            tally.guessed += outcome.is_guessed
            tally.fail(outcome)
        elif outcome is not None:
            tally.calls += 1
            tally.answered += 1
            tally.failures_in_a_row = 0
        if prompt is None or completion is None or min(prompt, completion) < 0:
            tally.guessed += 1
            prompt, completion = self._reserve(request)
        else:
            self.most_prompt = max(self.most_prompt, prompt)
            self.most_completion = max(self.most_completion, completion)
        tally.prompt_tokens += prompt
        tally.completion_tokens += completion
        tally.spend += self.limits.price(prompt, completion)
