"""How many calls programs may spend, and the captioner that holds to it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from earmark.captioning.captioner import WrappedCaptioner
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
class MeteredCaptioner(WrappedCaptioner):
    """A captioner that spends an allowance: every attempt is a call, answered or not."""

    allowance: CallAllowance

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request`, for one call of the allowance."""
        self.allowance.take()
        return self.captioner(request, timeout=timeout)
