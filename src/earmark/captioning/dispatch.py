"""Asks many requests at once, within limits, and loses none of what comes back."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Protocol

from earmark.captioning.captioner import Captioner
from earmark.captioning.limits import Limits
from earmark.captioning.request import Answer, Request
from earmark.errors import CallError, CallTimeout, MediaError, UnreadableAnswer

AHEAD = 4
"""Requests kept ready beside those in flight, so that no slot waits for a frame to be decoded."""


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

    def fail(self, failure: Failure) -> None:
        """Count a request that stays unanswered; never sent, it says nothing of the server."""
        self.calls += 1
        self.failed += 1
        self.failures_in_a_row += failure.attempts > 0
        self.last_reason = failure.reason


class Log(Protocol):
    """Notes what is under way, so that it is known after a crash; in the calling thread."""

    def begin(self, request: Request) -> None:
        """The limits have room for `request`: it is sent when this returns."""
        ...

    def withdraw(self, request: Request) -> None:
        """An interruption came first: `request` has no outcome and is in doubt no longer."""
        ...


def ask_all(
    requests: Iterable[Request],
    captioner: Captioner,
    limits: Limits,
    on_answer: Callable[[Request, Answer], None],
    on_failure: Callable[[Failure], None],
    *,
    log: Log | None = None,
    tally: Tally | None = None,
    sleep: Callable[[float], object] | None = None,
) -> Tally:
    """Ask every request once, several at a time, and hand over each outcome as it arrives.

    Requests are taken from the iterable only as slots come free, so at most `concurrency` and
    a few of them hold frames. `on_answer` and `on_failure` run in the calling thread, one at
    a time. Caps are kept by setting aside the most that calls in flight can take: what the
    allowance and the length of the text lead to expect, or the most any call took so far. If
    anything interrupts the run (Ctrl-C, an error of the iterable or of a callback) no new request
    is sent, the answers still in flight are awaited and handed over, and then the
    interruption goes on its way.

    Args:
        requests: What to ask, with frames; may be made lazily.
        captioner: Whom to ask.
        limits: How many at once, how often, how much.
        on_answer: Given each request and its answer.
        on_failure: Given each request that stays unanswered.
        log: Told what is about to be sent.
        tally: Counts from where it stands, and is up to date whenever a callback runs.
        sleep: Waits so many seconds between attempts; by default one that an interruption ends.
    """
    if captioner.at_once is not None:
        limits = replace(limits, concurrency=min(limits.concurrency, captioner.at_once))
    crew = _Workers(captioner, limits, sleep)
    books = _Books(limits, Tally() if tally is None else tally)
    run = _Run(crew, books, limits, _Ears(on_answer, on_failure, log or _NoLog()))
    run.go(requests)
    return books.tally


class _Workers:
    """Asks one request until it is answered or beyond hope; in a thread of its own."""

    def __init__(
        self, captioner: Captioner, limits: Limits, sleep: Callable[[float], object] | None
    ) -> None:
        self.stopped = threading.Event()
        self._captioner = captioner
        self._limits = limits
        self._sleep = sleep or self.stopped.wait
        self._rng = random.Random()  # noqa: S311

    def __call__(self, request: Request) -> Answer | Failure | None:
        """The outcome; None if the run was interrupted before there was one."""
        attempt = 1
        while not self.stopped.is_set():
            try:
                answer = self._captioner(request, timeout=self._limits.timeout)
                return replace(answer, attempts=attempt)
            except CallTimeout as error:
                pause = self._limits.wait(attempt, retry_after=error.retry_after, rng=self._rng)
                if hopeless := self._hopeless(attempt, pause):
                    return Failure(request, f"{error}{hopeless}", attempt)
            except UnreadableAnswer as error:
                spent = error.prompt_tokens, error.completion_tokens
                return Failure(request, str(error), attempt, *spent)
            except CallError as error:
                return Failure(request, str(error), attempt)
            except MediaError as error:
                return Failure(request, str(error), attempt - 1)
            self._sleep(pause)
            attempt += 1
        return None

    def _hopeless(self, attempt: int, pause: float) -> str:
        """Why there is to be no further attempt; empty if there is."""
        if attempt > self._limits.retries:
            return f" (asked {attempt} times)" if attempt > 1 else " (asked once)"
        if pause > self._limits.longest_wait:
            return f" (it asks to be left alone for {pause:.0f} s; the same command asks again)"
        return ""


@dataclass(frozen=True, slots=True)
class _Ears:
    """Who is told what."""

    on_answer: Callable[[Request, Answer], None]
    on_failure: Callable[[Failure], None]
    log: Log


class _Books:
    """What has been spent, and whether there is room for more."""

    def __init__(self, limits: Limits, tally: Tally) -> None:
        self.tally = tally
        self._limits = limits
        self._most_taken = 0

    def obstacle(self, flying: Collection[Request], request: Request) -> str | None:
        """Why `request` may not be sent beside those in flight, in a line; None if it may."""
        limits, tally = self._limits, self.tally
        if limits.most_failures is not None and tally.failures_in_a_row >= limits.most_failures:
            return f"{tally.failures_in_a_row} calls in a row failed, the last: {tally.last_reason}"
        if limits.max_calls is not None and tally.calls + len(flying) >= limits.max_calls:
            return f"the cap on calls, {limits.max_calls}, is reached"
        taken = sum(self._most_input(other) for other in (*flying, request))
        given = sum(other.answer_tokens for other in (*flying, request))
        if limits.max_tokens is not None and tally.tokens + taken + given > limits.max_tokens:
            return f"the cap of {limits.max_tokens} tokens is reached: {tally.tokens} are spent"
        spend = tally.spend + limits.price(taken, given)
        if limits.max_spend is not None and spend > limits.max_spend:
            return (
                f"the cap of {limits.max_spend:g} in money is reached: {tally.spend:.4f} is spent"
            )
        return None

    def _most_input(self, request: Request) -> int:
        """Models count pictures in ways of their own: what one call took another may take."""
        return max(request.most_input_tokens, self._most_taken)

    def enter(self, request: Request, outcome: Answer | Failure) -> None:
        """Count one outcome."""
        tally = self.tally
        tally.attempts += outcome.attempts
        if isinstance(outcome, Failure):
            tally.fail(outcome)
        else:
            tally.calls += 1
            tally.answered += 1
            tally.failures_in_a_row = 0
        taken, given = outcome.prompt_tokens, outcome.completion_tokens
        if taken is None or given is None:
            tally.guessed += 1
            taken, given = self._most_input(request), request.answer_tokens
        self._most_taken = max(self._most_taken, taken)
        tally.prompt_tokens += taken
        tally.completion_tokens += given
        tally.spend += self._limits.price(taken, given)


class _Run:
    """Keeps the slots filled and hands over what comes back; all of it in the calling thread."""

    def __init__(self, crew: _Workers, books: _Books, limits: Limits, ears: _Ears) -> None:
        self._crew = crew
        self._books = books
        self._limits = limits
        self._ears = ears
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
            self._ears.log.begin(request)
            self._flying[pool.submit(self._crew, request)] = request
            self._settle(timeout=0)
            while len(self._flying) >= self._limits.concurrency + AHEAD:
                self._settle()

    def _drain(self) -> None:
        while self._flying:
            self._settle()

    def _admit(self, request: Request) -> bool:
        """Whether the limits leave room; waits for calls in flight where those may make some."""
        while (reason := self._books.obstacle(self._flying.values(), request)) is not None:
            if not self._flying:
                self._books.tally.stopped = reason
                return False
            self._settle()
        return True

    def _settle(self, timeout: float | None = None) -> None:
        """Hand over what has come in; wait for the first of it unless told how long."""
        done, _ = wait(self._flying, timeout, return_when=FIRST_COMPLETED)
        for future in done:
            request = self._flying.pop(future)
            outcome = future.result()
            if outcome is None:
                self._ears.log.withdraw(request)
                continue
            self._books.enter(request, outcome)
            if isinstance(outcome, Answer):
                self._ears.on_answer(request, outcome)
            else:
                self._ears.on_failure(outcome)


class _NoLog:
    def begin(self, request: Request) -> None:
        pass

    def withdraw(self, request: Request) -> None:
        pass
