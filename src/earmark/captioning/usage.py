"""What calls have come to so far, and whether the limits have room for more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from earmark.captioning.limits import CURRENCY, Limits
from earmark.captioning.request import Answer, Request


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
        """Count a request without an answer; if never sent, the server did not fail."""
        self.calls += 1
        self.failed += 1
        self.failures_in_a_row += failure.attempts > 0
        self.last_reason = failure.reason


@dataclass(slots=True)
class UsageCounter:
    """What has been spent, and whether there is room for more."""

    limits: Limits
    tally: Tally
    most_prompt: int = 0
    """Tokens in, by any call so far; what one took another may take."""
    most_completion: int = 0
    """And out."""

    def exceeded_limit(self, pending: Sequence[Request], request: Request) -> str | None:
        """Why `request` may not be sent beside those `pending`, in a line; None if it may."""
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
        """Tokens to set aside for `request`: its own estimate, or the most any call took so far."""
        prompt, completion = request.most_tokens
        return max(prompt, self.most_prompt), max(completion, self.most_completion)

    def count(self, request: Request, outcome: Answer | Failure | None) -> None:
        """Count an outcome; None is an attempt that broke off.

        Where the server reports no tokens, the tokens set aside for the request are counted.
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
