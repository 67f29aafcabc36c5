"""Asks many requests at once, within limits, and loses none of what comes back."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from earmark.call.captioner import Captioner
from earmark.call.limits import Limits
from earmark.call.request import Answer, Request
from earmark.errors import CallError, CallTimeout, UnreadableAnswer

AHEAD = 2
"""Requests kept ready beside those in flight, so that no slot waits for a frame to be decoded."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that was asked and not answered."""

    request: Request
    reason: str
    """One line for a person."""
    attempts: int
    prompt_tokens: int = 0
    """What it cost all the same, as far as the server said."""
    completion_tokens: int = 0


@dataclass(slots=True)
class Tally:
    """What has been asked so far, and what came of it."""

    calls: int = 0
    """Requests settled: answered and failed."""
    answered: int = 0
    failed: int = 0
    attempts: int = 0
    """Times a server was asked, retries included."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    guessed: int = 0
    """Answers whose server counts no tokens: the most they can have taken is counted."""
    spend: float = 0.0
    failures_in_a_row: int = 0
    last_reason: str = ""
    stopped: str | None = None
    """Which limit ended the run before its requests did, in a line; None if none did."""

    @property
    def tokens(self) -> int:
        """In and out together."""
        return self.prompt_tokens + self.completion_tokens


def ask_all(
    requests: Iterable[Request],
    captioner: Captioner,
    limits: Limits,
    on_answer: Callable[[Request, Answer], None],
    on_failure: Callable[[Failure], None],
    *,
    tally: Tally | None = None,
    sleep: Callable[[float], object] | None = None,
    rng: random.Random | None = None,
) -> Tally:
    """Ask every request once, several at a time, and hand over each outcome as it arrives.

    Requests are taken from the iterable only as slots come free, so at most `concurrency` and
    a few of them hold frames. `on_answer` and `on_failure` run in the calling thread, one at
    a time. Caps are kept by setting aside the most that calls in flight can take, so they are
    never passed. If anything interrupts the run (Ctrl-C, an error of the iterable or of a callback)
    no new request is sent, the answers still in flight are awaited and handed over, and then the
    interruption goes on its way.

    Args:
        requests: What to ask, with frames; may be made lazily.
        captioner: Whom to ask.
        limits: How many at once, how often, how much.
        on_answer: Given each request and its answer.
        on_failure: Given each request that stays unanswered.
        tally: Counts from where it stands, and is up to date whenever a callback runs.
        sleep: Waits so many seconds between attempts; by default one that an interruption ends.
        rng: Shortens waits at random.
    """
    crew = _Crew(captioner, limits, sleep=sleep, rng=rng or random.Random())  # noqa: S311
    run = _Run(crew, limits, on_answer, on_failure, tally if tally is not None else Tally())
    run.go(requests)
    return run.tally


class _Crew:
    """Asks one request until it is answered or beyond hope; in a thread of its own."""

    def __init__(
        self,
        captioner: Captioner,
        limits: Limits,
        *,
        sleep: Callable[[float], object] | None,
        rng: random.Random,
    ) -> None:
        self.stopped = threading.Event()
        self._captioner = captioner
        self._limits = limits
        self._sleep = sleep or self.stopped.wait
        self._rng = rng

    def __call__(self, request: Request) -> Answer | Failure | None:
        """The outcome; None if the run was interrupted before there was one."""
        attempt = 1
        while not self.stopped.is_set():
            try:
                answer = self._captioner(request, timeout=self._limits.timeout)
                return replace(answer, attempts=attempt)
            except CallTimeout as error:
                pause = self._pause(attempt, error)
                if pause is None:
                    return Failure(request, str(error), attempt)
            except UnreadableAnswer as error:
                spent = error.prompt_tokens, error.completion_tokens
                return Failure(request, str(error), attempt, *spent)
            except CallError as error:
                return Failure(request, str(error), attempt)
            self._sleep(pause)
            attempt += 1
        return None

    def _pause(self, attempt: int, error: CallTimeout) -> float | None:
        """Seconds until the next attempt; None if there is to be none."""
        if attempt > self._limits.retries:
            return None
        pause = self._limits.wait(attempt, retry_after=error.retry_after, rng=self._rng)
        return pause if pause <= self._limits.longest_wait else None


class _Run:
    """Keeps the slots filled and the books straight; all of it in the calling thread."""

    def __init__(
        self,
        crew: _Crew,
        limits: Limits,
        on_answer: Callable[[Request, Answer], None],
        on_failure: Callable[[Failure], None],
        tally: Tally,
    ) -> None:
        self.tally = tally
        self._crew = crew
        self._limits = limits
        self._on_answer = on_answer
        self._on_failure = on_failure
        self._flying: dict[Future[Answer | Failure | None], Request] = {}

    def go(self, requests: Iterable[Request]) -> None:
        with ThreadPoolExecutor(self._limits.concurrency) as pool:
            try:
                self._fill(pool, requests)
                self._drain()
            except BaseException:
                self._crew.stopped.set()
                self._drain()
                raise

    def _fill(self, pool: ThreadPoolExecutor, requests: Iterable[Request]) -> None:
        for request in requests:
            if not self._admit(request):
                return
            self._flying[pool.submit(self._crew, request)] = request
            self._settle(timeout=0)
            while len(self._flying) >= self._limits.concurrency + AHEAD:
                self._settle()

    def _drain(self) -> None:
        while self._flying:
            self._settle()

    def _admit(self, request: Request) -> bool:
        """Whether the limits leave room; waits for calls in flight where those may make some."""
        while (reason := self._obstacle(request)) is not None:
            if not self._flying:
                self.tally.stopped = reason
                return False
            self._settle()
        return True

    def _obstacle(self, request: Request) -> str | None:
        limits, tally, flying = self._limits, self.tally, self._flying.values()
        if limits.most_failures is not None and tally.failures_in_a_row >= limits.most_failures:
            return f"{tally.failures_in_a_row} calls in a row failed, the last: {tally.last_reason}"
        if limits.max_calls is not None and tally.calls + len(flying) >= limits.max_calls:
            return f"the cap of {limits.max_calls} calls is reached"
        tokens = sum(_most_tokens(other) for other in (*flying, request))
        if limits.max_tokens is not None and tally.tokens + tokens > limits.max_tokens:
            return f"the cap of {limits.max_tokens} tokens is reached: {tally.tokens} are spent"
        money = sum(limits.price_at_most(other) for other in (*flying, request))
        if limits.max_spend is not None and tally.spend + money > limits.max_spend:
            return (
                f"the cap of {limits.max_spend:g} in money is reached: {tally.spend:.4f} is spent"
            )
        return None

    def _settle(self, timeout: float | None = None) -> None:
        """Hand over what has come in; wait for the first of it unless told how long."""
        done, _ = wait(self._flying, timeout, return_when=FIRST_COMPLETED)
        for future in done:
            request = self._flying.pop(future)
            outcome = future.result()
            if outcome is None:
                continue
            self._count(request, outcome)
            if isinstance(outcome, Answer):
                self._on_answer(request, outcome)
            else:
                self._on_failure(outcome)

    def _count(self, request: Request, outcome: Answer | Failure) -> None:
        tally = self.tally
        tally.calls += 1
        tally.attempts += outcome.attempts
        if isinstance(outcome, Failure):
            tally.failed += 1
            tally.failures_in_a_row += 1
            tally.last_reason = outcome.reason
        else:
            tally.answered += 1
            tally.failures_in_a_row = 0
        taken, given = outcome.prompt_tokens, outcome.completion_tokens
        if taken is None or given is None:
            tally.guessed += 1
            taken, given = request.most_input_tokens, request.answer_tokens
        tally.prompt_tokens += taken
        tally.completion_tokens += given
        tally.spend += self._limits.price(taken, given)


def _most_tokens(request: Request) -> int:
    return request.most_input_tokens + request.answer_tokens
