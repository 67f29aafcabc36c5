"""Sends many requests at once, within limits, and loses none of what comes back.

calling thread    requests ──▶ admitted by the limits ──▶ queue
worker threads                     begin ◀── one by one ────┘
                                   send, back off, retry ──▶ counted, logged
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from earmark.captioning.captioner import Captioner
from earmark.captioning.limits import Failure, Limits, Tally, UsageCounter
from earmark.captioning.request import Answer, Request
from earmark.errors import CallError, CallTimeout, MediaError, UnreadableAnswer

logger = logging.getLogger(__name__)

AHEAD = 4
"""Requests queued beside those in flight, so that no worker waits for a frame to be decoded."""

_Outcome = Answer | Failure | None
"""None if the run was interrupted before there was one."""


class CallLog(Protocol):
    """Notes what becomes of each call, the moment it is known, so that a crash loses nothing.

    One method at a time, in the thread that made the call. An error raised here ends the run.
    """

    def together(self) -> AbstractContextManager[None]:
        """What is noted within may be written at once, and is when this ends."""
        ...

    def begin(self, request: Request) -> None:
        """`request` is sent when this returns, and not if it raises."""
        ...

    def withdraw(self, request: Request) -> None:
        """An interruption came between two attempts: `request` is in doubt no longer."""
        ...

    def lost(self, request: Request) -> None:
        """An attempt broke off with the server at work: it may be charged for."""
        ...

    def answered(self, request: Request, answer: Answer) -> None:
        """There is an answer."""
        ...

    def failed(self, failure: Failure) -> None:
        """There will be none."""
        ...


def dispatch(
    requests: Iterable[Request | Failure],
    captioner: Captioner,
    limits: Limits,
    log: CallLog,
    *,
    tally: Tally | None = None,
    sleep: Callable[[float], object] | None = None,
) -> Tally:
    """Ask every request once, several at a time, and log each outcome as it arrives.

    Requests are taken from the iterable only as workers come free, so at most `concurrency` and
    a few of them hold frames. Caps are kept by setting aside the most that calls in flight can
    take: what the allowance and the length of the text lead to expect, or the most any call took
    so far. If anything interrupts the run (Ctrl-C, an error of the iterable or of the log) no new
    request is sent, the answers still in flight are awaited and logged, and then the interruption
    goes on its way. A second Ctrl-C does not wait: what has arrived is logged, and calls
    in flight stay begun.

    Args:
        requests: What to ask, with frames; may be made lazily. A window that cannot be shown comes
            as its failure, to be counted and logged.
        captioner: Whom to ask.
        limits: How many at once, how often, how much.
        log: Where outcomes go.
        tally: Counts from where it stands, and is up to date whenever the log is written.
        sleep: Waits so many seconds between attempts; by default one that an interruption ends.
    """
    if captioner.at_once is not None:
        limits = replace(limits, concurrency=min(limits.concurrency, captioner.at_once))
    usage = UsageCounter(limits, Tally() if tally is None else tally)
    _Dispatcher(captioner, limits, usage, log, sleep).run(requests)
    return usage.tally


class _Dispatcher:
    """The queue between the calling thread and its workers; all state is under one lock."""

    def __init__(
        self,
        captioner: Captioner,
        limits: Limits,
        usage: UsageCounter,
        log: CallLog,
        sleep: Callable[[float], object] | None,
    ) -> None:
        self._captioner = captioner
        self._limits = limits
        self._usage = usage
        self._log = log
        self._stopped = threading.Event()
        self._sleep = sleep or self._stopped.wait
        self._rng = random.Random()  # noqa: S311 - spreads retries
        self._changed = threading.Condition()
        self._queue: deque[Request] = deque()
        self._in_flight: list[Request] = []
        self._arrived: deque[tuple[Request, _Outcome]] = deque()
        """Outcomes before they are logged; added to without the lock, so that none is late."""
        self._workers = 0
        self._error: BaseException | None = None
        self._is_over = False

    def run(self, requests: Iterable[Request | Failure]) -> None:
        """Queue `requests` in the calling thread; returns when all have an outcome, or raises."""
        try:
            for request in requests:
                if isinstance(request, Failure):
                    self._settle(request.request, request)
                elif not self._admit(request):
                    break
            self._await_all()
        except BaseException:
            self._stop()
            self._await_all()  # which another interruption ends
            raise
        finally:
            with self._changed:  # what has arrived is logged, and nothing that arrives later
                self._log_arrived()
                self._is_over = True
                self._changed.notify_all()
        if self._error is not None:
            raise self._error

    def _admit(self, request: Request) -> bool:
        """Queue `request` once the limits have room; False if they never will.

        Returns when there is room for another beside it.
        """
        usage = self._usage
        with self._changed:
            self._wait(lambda: not self._held() or not usage.obstacle(self._held(), request))
            usage.tally.stopped = usage.obstacle(self._held(), request)
            if usage.tally.stopped is not None:
                return False
            self._queue.append(request)
            if self._workers < self._limits.concurrency:
                self._workers += 1
                # Not a pool: its threads are joined at exit, whoever is in a hurry.
                threading.Thread(target=self._work, daemon=True).start()
            self._changed.notify_all()
            self._wait(lambda: len(self._held()) < self._limits.concurrency + AHEAD)
        return True

    def _held(self) -> list[Request]:
        """What the limits have set something aside for."""
        return [*self._queue, *self._in_flight]

    def _wait(self, is_so: Callable[[], bool]) -> None:
        """Let the workers go on until `is_so`, or until one has met an error, which is raised."""
        self._changed.wait_for(lambda: self._error is not None or is_so())
        if self._error is not None:
            raise self._error

    def _await_all(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._held())

    def _stop(self, error: BaseException | None = None, *, at: Request | None = None) -> None:
        """Send nothing more, and have the calling thread raise `error`; the queue was not begun.

        An error `at` a request says nothing about what became of it.
        """
        self._stopped.set()
        with self._changed:
            if at is not None:
                self._in_flight.remove(at)
            self._error = self._error or error
            self._queue.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        """Take requests from the queue and ask them, until there are to be no more."""
        while (request := self._begin_next()) is not None:
            try:
                outcome = self._ask(request)
            except BaseException as error:  # noqa: BLE001 - raised in the calling thread
                self._stop(error, at=request)
            else:
                self._settle(request, outcome)

    def _begin_next(self) -> Request | None:
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._queue or self._is_over)
                if self._is_over:
                    return None
                request = self._queue.popleft()
                self._in_flight.append(request)
                try:
                    self._log.begin(request)
                except BaseException as error:  # noqa: BLE001 - raised in the calling thread
                    self._stop(error, at=request)
                else:
                    return request

    def _ask(self, request: Request) -> _Outcome:
        """Ask until there is an answer, or no hope of one."""
        attempt = 1
        while not self._stopped.is_set():
            try:
                answer = self._captioner(request, timeout=self._limits.timeout)
                return replace(answer, attempts=attempt)
            except CallTimeout as error:
                wait = self._limits.backoff(attempt, retry_after=error.retry_after, rng=self._rng)
                obstacle = self._lose(request) if error.was_sent else None
                if hopeless := self._hopeless(attempt, wait, obstacle):
                    return Failure(request, f"{error}{hopeless}", attempt)
            except UnreadableAnswer as error:
                return _paid(request, error, attempt)
            except CallError as error:
                return Failure(request, str(error), attempt)
            except MediaError as error:
                return Failure(request, str(error), attempt - 1)
            logger.info("attempt %d timed out; a retry after %.1f s of backoff", attempt, wait)
            self._sleep(wait)
            attempt += 1
        return None

    def _lose(self, request: Request) -> str | None:
        """Count and log an attempt that may be charged for; why there may be no other, if so."""
        with self._changed:
            self._usage.count(request, None)
            self._log.lost(request)
            others = [one for one in self._held() if one is not request]
            return self._usage.obstacle(others, request)

    def _hopeless(self, attempt: int, wait: float, obstacle: str | None) -> str:
        """Why there is to be no further attempt; empty if there is."""
        if attempt > self._limits.retries:
            return f" (asked {attempt} times)" if attempt > 1 else " (asked once)"
        if wait > self._limits.longest_wait:
            return f" (it asks to be left alone for {wait:.0f} s; the same command asks again)"
        return f" (not asked again: {obstacle})" if obstacle else ""

    def _settle(self, request: Request, outcome: _Outcome) -> None:
        self._arrived.append((request, outcome))
        with self._changed:
            self._log_arrived()
            self._changed.notify_all()

    def _log_arrived(self) -> None:
        """Count and log what has arrived; an error of the log stops the run, not this.

        What arrived while others were being written is written together.
        """
        while self._arrived and not self._is_over:
            try:
                with self._log.together():
                    while self._arrived:
                        self._log_one(*self._arrived.popleft())
            except BaseException as error:  # noqa: BLE001 - raised in the calling thread
                self._stop(error)

    def _log_one(self, request: Request, outcome: _Outcome) -> None:
        if request in self._in_flight:
            self._in_flight.remove(request)
        try:
            if outcome is None:
                self._log.withdraw(request)
                return
            self._usage.count(request, outcome)
            if isinstance(outcome, Answer):
                self._log.answered(request, outcome)
            else:
                self._log.failed(outcome)
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread
            self._stop(error)


def _paid(request: Request, error: UnreadableAnswer, attempts: int) -> Failure:
    """An answer that cannot be used costs what the server said, or else the most it can have."""
    taken, given = error.prompt_tokens, error.completion_tokens
    is_guessed = taken is None or given is None
    most_taken, most_given = request.most_tokens
    taken = most_taken if taken is None else taken
    given = most_given if given is None else given
    return Failure(request, str(error), attempts, taken, given, is_guessed)
