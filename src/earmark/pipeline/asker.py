"""Asks about spooled picks, within the rate; a server that is down is asked again later.

spool ──▶ as many as the rate allows ──▶ dispatch ──▶ run
  ▲                                         │
  └──── not there, too busy, too slow ◀─────┘    backoff, then again
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from earmark.captioning.captioner import Captioner
from earmark.captioning.dispatch import Failure, cost_of, dispatch
from earmark.captioning.request import Answer, Question, Request
from earmark.captioning.spool import Spool, SpooledRequest
from earmark.errors import EarmarkError, RunError
from earmark.media.stream_clock import Clock
from earmark.run.tasks import CallRecorder
from earmark.selection.call_rate import CallLog, SpentCall
from earmark.wall_clock import iso_time

FIRST_WAIT, LONGEST_WAIT = 1.0, 120.0
"""Seconds after a server failed, doubled each time."""

SOON = 5.0
"""Seconds for which a watch whose files have all ended waits for the rate."""

Report = Callable[..., None]
"""Called with the name of an event and its fields."""


@dataclass(slots=True, eq=False)
class Asker:
    """Runs in a thread of its own until `stop`."""

    captioner: Captioner
    recorder: CallRecorder
    spool: Spool
    calls: CallLog
    question: Question
    clock: Clock
    report: Report = lambda *_, **__: None
    on_late_call: Callable[[SpentCall], None] = lambda _: None
    """Calls about picks that had to wait are not in the log of the one who picks."""
    changed: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    is_down: bool = False
    cap: str | None = None
    """Why no further call is made, if a cap of the run is reached."""
    _wait: float = FIRST_WAIT
    _thread: threading.Thread | None = None
    _taken: dict[str, SpooledRequest] = field(default_factory=dict)
    _sent: dict[str, float] = field(default_factory=dict)
    """When the last attempt at each call in flight was made."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="ask", daemon=True)
        self._thread.start()

    @property
    def has_to_wait(self) -> bool:
        """For the server, a cap, or the rate: what is in the spool is left to the next process."""
        return self.is_down or self.cap is not None or self.calls.wait(self.clock()) > SOON

    def stop(self, patience: float) -> None:
        """Calls in flight are awaited for `patience` seconds; the rest stays in the spool."""
        self.stopped.set()
        self.changed.set()
        if self._thread:
            self._thread.join(patience)

    def _run(self) -> None:
        try:
            while not self.stopped.is_set():
                self.changed.clear()
                wait = self.ask_once()
                (self.stopped if self.is_down else self.changed).wait(wait)
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            self.error = error

    def ask_once(self) -> float:
        """Ask what the rate allows now; returns the seconds to wait before the next time."""
        wait = self.calls.wait(self.clock())
        if self.cap or not len(self.spool):
            return LONGEST_WAIT
        if wait > 0:
            return min(wait, LONGEST_WAIT)
        limits = self.recorder.limits
        at_once = min(limits.concurrency, max(1, int(self.calls.tokens(self.clock()))))
        batch = self.spool.take(1 if self.is_down else at_once)
        self._taken = {entry.identity: entry for entry in batch}
        before = self.recorder.tally.answered
        own = limits.model_copy(update={"retries": 0, "most_failures": None})
        try:
            tally = dispatch(
                self._requests(batch), self.captioner, own, self, tally=self.recorder.tally
            )
        except RunError as error:  # no room to store an answer: nothing was sent
            self.report("full", reason=str(error))
            self.is_down = not self.recorder.run.make_room()
        else:
            self._note_cap(tally.stopped)
            if self.recorder.tally.answered > before:
                self._wait = FIRST_WAIT
        finally:
            for identity in self._taken:
                self.spool.put_back(identity)
            self._taken = {}
        if not self.is_down:
            return 0.0
        wait, self._wait = self._wait, min(2 * self._wait, LONGEST_WAIT)
        return wait

    def _note_cap(self, reason: str | None) -> None:
        if reason and not self.cap:
            self.cap = reason
            self.report("cap", reason=reason)

    def _requests(self, batch: list[SpooledRequest]) -> Iterator[Request]:
        for entry in batch:
            try:
                yield entry.read(self.question)
            except (OSError, ValueError, KeyError) as error:
                self.report("dropped", reason=f"a waiting pick cannot be read ({error})")
                self._taken.pop(entry.identity, None)
                self.spool.done(entry.identity)

    # The log of calls that `dispatch` writes.

    def together(self) -> AbstractContextManager[None]:
        return self.recorder.together()

    def begin(self, request: Request) -> None:
        self.recorder.begin(request)
        call = SpentCall(self.clock())
        self.calls.add(call)
        self._sent[request.identity] = call.time
        entry = self._taken.get(request.identity)
        if entry and call.time - entry.picked > LONGEST_WAIT / 2:
            self.on_late_call(call)

    def withdraw(self, request: Request) -> None:
        self.recorder.run.withdraw(request)

    def lost(self, request: Request, *, was_sent: bool) -> None:
        self.recorder.lost(request, was_sent=was_sent)

    def answered(self, request: Request, answer: Answer) -> None:
        self._set_down(False)
        spend = cost_of(self.recorder.limits, request, answer)
        self.recorder.run.keep(request, answer, spend=spend)
        if answer.evidence:
            self.recorder.note_evidence(request, answer.evidence)
        self._settle(request, "answer", caption=answer.text, model=answer.model,
                     latency=round(answer.latency, 3))  # fmt: skip

    def failed(self, failure: Failure) -> None:
        request = failure.request
        if failure.may_retry:
            self.recorder.run.withdraw(request)
            self._set_down(True, failure.reason)
            return
        self.recorder.run.fail(
            request, failure.reason, was_sent=failure.attempts > 0, tokens=failure.tokens,
            spend=self.recorder.limits.price(*failure.tokens),
        )  # fmt: skip
        self._settle(request, "failed", reason=failure.reason)

    def _settle(self, request: Request, event: str, **fields: Any) -> None:
        entry = self._taken.pop(request.identity, None)
        self.spool.done(request.identity)
        picked = {"waited": round(self.clock() - entry.picked, 3)} if entry else {}
        sent = self._sent.pop(request.identity, None)
        asked = {} if sent is None else {"asked": iso_time(sent)}
        self.report(event, request=request, **fields, **picked, **asked)

    def _set_down(self, is_down: bool, reason: str = "") -> None:
        if is_down != self.is_down:
            self.is_down = is_down
            state = "unreachable" if is_down else "answering"
            self.report("model", state=state, reason=reason, waiting=len(self.spool))


def raise_error(asker: Asker) -> None:
    if asker.error is not None and not isinstance(asker.error, EarmarkError):
        raise asker.error
    if asker.error is not None:
        raise EarmarkError(str(asker.error)) from asker.error
