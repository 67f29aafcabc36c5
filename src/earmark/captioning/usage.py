from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from earmark.captioning.request import Answer, Request
from earmark.settings import Limits
from earmark.text_format import CURRENCY

FIRST_WAIT = 0.5
"""Seconds before the second attempt; doubled before each further one."""


@dataclass(frozen=True, slots=True)
class Failure:
    request: Request
    reason: str
    attempts: int
    """0 if its pictures could not be decoded."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_guessed: bool = False
    may_retry: bool = False
    """The server was too busy, too slow or not there."""

    @property
    def tokens(self) -> tuple[int, int]:
        return self.prompt_tokens, self.completion_tokens


class Priced(Protocol):
    @property
    def most_tokens(self) -> tuple[int, int]: ...


@dataclass(slots=True)
class Tally:
    calls: int = 0
    answered: int = 0
    failed: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    guessed: int = 0
    spend: float = 0.0
    failures_in_a_row: int = 0
    last_reason: str = ""
    stopped: str | None = None
    calls_before: int = 0
    """Calls of earlier processes of the same run; only the caps count these three."""
    tokens_before: int = 0
    spend_before: float = 0.0
    most_prompt: int = 0
    """The most tokens that one call used so far: reserved for each further one."""
    most_completion: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def to_json(self) -> dict[str, Any]:
        """Without what is reserved."""
        return {name: value for name, value in asdict(self).items() if "most_" not in name}

    def exceeded_limit(
        self, limits: Limits, pending: Sequence[Priced], request: Priced
    ) -> str | None:
        if limits.most_failures is not None and self.failures_in_a_row >= limits.most_failures:
            return f"{self.failures_in_a_row} calls in a row failed, the last: {self.last_reason}"
        calls = self.calls_before + self.calls + len(pending)
        if limits.max_calls is not None and calls >= limits.max_calls:
            return f"the cap on calls, {limits.max_calls}, is reached"
        if limits.max_tokens is None and limits.max_spend is None:
            return None
        reserves = [self._reserve(other) for other in (*pending, request)]
        prompt, completion = (sum(counts) for counts in zip(*reserves, strict=True))
        tokens, spend = self.tokens_before + self.tokens, self.spend_before + self.spend
        if limits.max_tokens is not None and tokens + prompt + completion > limits.max_tokens:
            return (
                f"the cap of {limits.max_tokens} tokens is reached: {tokens} are spent, "
                f"and a call may take {sum(reserves[-1])}"
            )
        most_spend = spend + limits.price(prompt, completion)
        if limits.max_spend is not None and most_spend > limits.max_spend:
            return (
                f"the cap of {limits.max_spend:g} {CURRENCY} is reached: {spend:.4f} is spent, "
                f"and a call may cost {limits.price(*reserves[-1]):.4f}"
            )
        return None

    def _reserve(self, request: Priced) -> tuple[int, int]:
        prompt, completion = request.most_tokens
        return max(prompt, self.most_prompt), max(completion, self.most_completion)

    def count(self, limits: Limits, request: Request, outcome: Answer | Failure | None) -> None:
        """None is an attempt that broke off; tokens not reported are counted as reserved."""
        prompt = completion = None
        if outcome is not None:
            self.calls += 1
            self.attempts += outcome.attempts
            prompt, completion = outcome.prompt_tokens, outcome.completion_tokens
        if isinstance(outcome, Failure):
            self.guessed += outcome.is_guessed
            self.failed += 1
            self.failures_in_a_row += outcome.attempts > 0  # not if it was never sent
            self.last_reason = outcome.reason
        elif outcome is not None:
            self.answered += 1
            self.failures_in_a_row = 0
        if prompt is None or completion is None or min(prompt, completion) < 0:
            self.guessed += 1
            prompt, completion = self._reserve(request)
        else:
            self.most_prompt = max(self.most_prompt, prompt)
            self.most_completion = max(self.most_completion, completion)
        self.prompt_tokens += prompt
        self.completion_tokens += completion
        self.spend += limits.price(prompt, completion)


def cost_of(limits: Limits, request: Request, answer: Answer) -> float:
    if answer.prompt_tokens is None or answer.completion_tokens is None:
        return limits.price(*request.most_tokens)
    return limits.price(answer.prompt_tokens, answer.completion_tokens)


def backoff(limits: Limits, attempt: int, *, retry_after: float | None) -> float:
    """Seconds to wait after failed attempt number `attempt`, from 1; at least `retry_after`.

    Exponential with jitter: doubled each time and shortened by up to half at random, so that
    callers refused together do not come back together.
    """
    doubled = min(limits.longest_wait, FIRST_WAIT * 2.0 ** (attempt - 1))
    jittered = doubled * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
    return max(jittered, retry_after or 0.0)
