"""How many calls programs may spend, and the captioner that holds to it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from earmark.captioning.captioner import Captioner
from earmark.captioning.request import Answer, Request
from earmark.errors import CallRejected


@dataclass(slots=True, eq=False)
class CallAllowance:
    """Calls that were granted, and how many of them are left; for many threads."""

    granted: int
    left: int = field(init=False)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.granted < 0:
            raise ValueError(f"calls that are granted are 0 or more, not {self.granted}")
        self.left = self.granted

    def take(self) -> None:
        """Spend one call.

        Raises:
            CallRejected: none is left.
        """
        with self.lock:
            if self.left < 1:
                raise CallRejected(f"all {self.granted} calls that were granted are spent")
            self.left -= 1


@dataclass(frozen=True, slots=True)
class MeteredCaptioner:
    """A captioner that spends an allowance: every attempt is a call, answered or not."""

    asked: Captioner
    allowance: CallAllowance

    @property
    def model(self) -> str:
        """The name that goes into a request's identity."""
        return self.asked.model

    @property
    def at_once(self) -> int | None:
        """Calls it can work on side by side."""
        return self.asked.at_once

    def check(self) -> None:
        """Raises, in one line, if no call could succeed; costs no call."""
        self.asked.check()

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request`, for one call of the allowance."""
        self.allowance.take()
        return self.asked(request, timeout=timeout)
