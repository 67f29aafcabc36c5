"""Sends many requests concurrently, within limits, and records every outcome.

calling thread    requests ──▶ admitted by the limits ──▶ queue
worker threads          begin ◀── each attempt, one by one ─┘
                        send, back off, retry ──▶ counted, logged
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from earmark.captioning.captioner import Captioner
from earmark.captioning.request import Answer, Request
from earmark.errors import CallError, CallTimeout, MediaError, UnreadableAnswer
from earmark.settings import Limits
from earmark.text_format import format_money

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
                f"the cap of {format_money(limits.max_spend, limits.currency)} is reached: "
                f"{spend:,.2f} is spent, "
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


logger = logging.getLogger(__name__)

QUEUED_AHEAD = 4
"""Requests queued beyond those in flight, so that no worker waits for frames to be decoded."""

_Outcome = Answer | Failure | None


class CallLog(Protocol):
    """Records the outcome of each call as soon as it is known, so that a crash loses nothing.

    Methods are called one at a time, in the thread that made the call. An error raised here ends
    the run.
    """

    def together(self) -> AbstractContextManager[None]: ...

    def begin(self, request: Request) -> None:
        """Called before every attempt. If it raises, the request is not sent."""
        ...

    def withdraw(self, request: Request) -> None: ...

    def lost(self, request: Request, *, was_sent: bool) -> None:
        """An attempt broke off; if it `was_sent`, it may be charged for, else it does not count."""
        ...

    def answered(self, request: Request, answer: Answer) -> None: ...

    def failed(self, failure: Failure) -> None: ...


def dispatch(
    requests: Iterable[Request | Failure],
    captioner: Captioner,
    limits: Limits,
    log: CallLog,
    *,
    tally: Tally | None = None,
    sleep: Callable[[float], object] | None = None,
) -> Tally:
    """Send every request once, several at a time, and log each outcome as it arrives.

    Requests are taken only as workers come free, so that few of them hold frames. Tokens are
    reserved for each call in flight: its own estimate, or the most that any call used so far. If
    the run is interrupted, no new request is sent, calls in flight are awaited and logged, and the
    error is raised. A second Ctrl-C does not wait: calls in flight stay begun.

    Counting continues from `tally`, which is up to date whenever the log is written.
    """
    if captioner.at_once == 0:
        limits = limits.model_copy(update={"retries": 0})
    elif captioner.at_once:
        fewer = min(limits.concurrency, captioner.at_once)
        limits = limits.model_copy(update={"concurrency": fewer})
    tally = Tally() if tally is None else tally
    _Dispatcher(captioner, limits, tally, log, sleep).run(requests)
    return tally


@dataclass(slots=True, eq=False)
class _Dispatcher:
    captioner: Captioner
    limits: Limits
    tally: Tally
    log: CallLog
    sleep: Callable[[float], object] | None
    stopped: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)
    queue: deque[Request] = field(default_factory=deque)
    pending: list[Request] = field(default_factory=list)
    outcomes: deque[tuple[Request, _Outcome]] = field(default_factory=deque)
    """Not logged yet; appended without the lock, so that none is late."""
    workers: int = 0
    error: BaseException | None = None
    is_closed: bool = False

    def run(self, requests: Iterable[Request | Failure]) -> None:
        try:
            for request in requests:
                if isinstance(request, Failure):
                    self._settle(request.request, request)
                elif not self._admit(request):
                    break
            self._await_all()
        except BaseException:
            self._stop()
            self._await_all()  # until a second interruption
            raise
        finally:
            with self.changed:  # what has arrived is logged, and nothing that arrives later
                self._log_outcomes()
                self.is_closed = True
                self.changed.notify_all()
        if self.error is not None:
            raise self.error

    def _admit(self, request: Request) -> bool:
        """Whether the limits allow it; waits until the queue is short again."""
        with self.changed:
            self._wait(lambda: not self.pending or self._may_join(request))
            self.tally.stopped = self._exceeded_limit(self.pending, request)
            if self.tally.stopped is not None:
                return False
            if self.captioner.at_once != 0:
                self._enqueue(request)
                return True
        # It asks nobody and costs nothing, so nothing is logged before the call.
        self._settle(request, self._ask(request))
        return True

    def _may_join(self, request: Request) -> bool:
        """With a cap, calls are made one by one until the first is answered.

        A server may count more than estimated.
        """
        limits = self.limits
        is_capped = limits.max_tokens is not None or limits.max_spend is not None
        is_first = is_capped and not self.tally.answered
        return not is_first and not self._exceeded_limit(self.pending, request)

    def _exceeded_limit(self, pending: Sequence[Request], request: Request) -> str | None:
        return self.tally.exceeded_limit(self.limits, pending, request)

    def _enqueue(self, request: Request) -> None:
        self.queue.append(request)
        self.pending.append(request)
        if self.workers < self.limits.concurrency:
            self.workers += 1
            # Not a pool: its threads are joined at exit, which a second Ctrl-C must skip.
            threading.Thread(target=self._work, daemon=True).start()
        self.changed.notify_all()
        self._wait(lambda: len(self.pending) < self.limits.concurrency + QUEUED_AHEAD)

    def _wait(self, condition: Callable[[], bool]) -> None:
        self.changed.wait_for(lambda: self.error is not None or condition())
        if self.error is not None:
            raise self.error

    def _await_all(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: not self.pending)

    def _stop(self, error: BaseException | None = None, *, at: Request | None = None) -> None:
        self.stopped.set()
        with self.changed:
            dropped = set(map(id, (*self.queue, at)))
            self.pending = [request for request in self.pending if id(request) not in dropped]
            self.error = self.error or error
            self.queue.clear()
            self.changed.notify_all()

    def _work(self) -> None:
        while (request := self._take_next()) is not None:
            try:
                outcome = self._ask(request)
            except BaseException as error:  # noqa: BLE001 - raised in the calling thread
                self._stop(error, at=request)
            else:
                self._settle(request, outcome)

    def _take_next(self) -> Request | None:
        with self.changed:
            self.changed.wait_for(lambda: self.queue or self.is_closed)
            return None if self.is_closed else self.queue.popleft()

    def _ask(self, request: Request) -> _Outcome:
        attempt = forms = 0
        while self._begin(request):
            attempt += 1
            try:
                answer = self.captioner(request, timeout=self.limits.timeout)
                return replace(answer, attempts=attempt)
            except CallTimeout as error:
                if error.is_form:
                    forms += 1
                    continue
                wait = backoff(self.limits, attempt - forms, retry_after=error.retry_after)
                exceeded_limit = self._count_lost_attempt(request, error)
                if reason := self._why_no_retry(attempt - forms, wait, exceeded_limit):
                    return Failure(request, f"{error}{reason}", attempt, may_retry=True)
            except (CallError, MediaError) as error:
                return _failure(request, error, attempts=attempt)
            logger.info("attempt %d timed out; a retry after %.1f s of backoff", attempt, wait)
            (self.sleep or self.stopped.wait)(wait)
        return None

    def _begin(self, request: Request) -> bool:
        with self.changed:
            is_sent = not self.stopped.is_set()
            if is_sent and self.captioner.at_once != 0:
                self.log.begin(request)
            return is_sent

    def _count_lost_attempt(self, request: Request, error: CallTimeout) -> str | None:
        with self.changed:
            if error.was_sent:
                self.tally.count(self.limits, request, None)
            if error.was_sent or not error.was_reached:
                self.log.lost(request, was_sent=error.was_sent)
            others = [other for other in self.pending if other is not request]
            return self._exceeded_limit(others, request) if error.was_sent else None

    def _why_no_retry(self, attempt: int, wait: float, exceeded_limit: str | None) -> str:
        if attempt > self.limits.retries:
            return f" (asked {attempt} times)" if attempt > 1 else " (asked once)"
        if wait > self.limits.longest_wait:
            return f" (it asks to be left alone for {wait:.0f} s; the same command asks again)"
        return f" (not asked again: {exceeded_limit})" if exceeded_limit else ""

    def _settle(self, request: Request, outcome: _Outcome) -> None:
        self.outcomes.append((request, outcome))
        with self.changed:
            self._log_outcomes()
            self.changed.notify_all()

    def _log_outcomes(self) -> None:
        """An error of the log stops the run, not this loop."""
        while self.outcomes and not self.is_closed:
            try:
                with self.log.together():
                    while self.outcomes:
                        self._log_outcome(*self.outcomes.popleft())
            except BaseException as error:  # noqa: BLE001 - raised in the calling thread
                self._stop(error)

    def _log_outcome(self, request: Request, outcome: _Outcome) -> None:
        if request in self.pending:
            self.pending.remove(request)
        try:
            if outcome is None:
                self.log.withdraw(request)
                return
            self.tally.count(self.limits, request, outcome)
            if isinstance(outcome, Answer):
                self.log.answered(request, outcome)
            else:
                self.log.failed(outcome)
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread
            self._stop(error)


def _failure(request: Request, error: CallError | MediaError, *, attempts: int) -> Failure:
    """An unusable answer costs its tokens: if unreported, the most that the request can have used.

    An attempt whose pictures could not be decoded was not sent, and does not count.
    """
    if isinstance(error, MediaError):
        return Failure(request, str(error), attempts - 1)
    if not isinstance(error, UnreadableAnswer):
        return Failure(request, str(error), attempts)
    prompt, completion = error.prompt_tokens, error.completion_tokens
    is_guessed = prompt is None or completion is None
    most_prompt, most_completion = request.most_tokens
    prompt = most_prompt if prompt is None else prompt
    completion = most_completion if completion is None else completion
    return Failure(request, str(error), attempts, prompt, completion, is_guessed)
