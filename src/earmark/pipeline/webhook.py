"""Sends events to an address, signed as in Standard Webhooks; a slow receiver delays nothing else.

event ──▶ queue ──▶ POST ──▶ 2xx: done
            │         └──── anything else: again after 1, 2, 4 … 60 s, with the same id
            └── full: the oldest is dropped, and counted
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

logger = logging.getLogger(__name__)

MOST_WAITING = 1000
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds after a failed delivery, doubled each time."""

GIVE_UP = 3600.0
"""Seconds after which an event is no longer sent."""

TIMEOUT = 10.0

_REFUSED = (400, 401, 403, 404, 405, 410, 413, 422)
"""Sending the same again is useless."""

_PREFIX = "whsec_"


@dataclass(frozen=True, slots=True)
class Delivery:
    id: str
    event: Mapping[str, Any]
    since: float
    """Monotonic."""


@dataclass(slots=True, eq=False)
class Webhook:
    """Delivers in a thread of its own, in order, until `close`."""

    address: str
    secret: str = ""
    """With `whsec_` before it base64; empty for no signature."""
    dropped: int = 0
    """Events that were never delivered."""
    _waiting: deque[Delivery] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_closed: bool = False
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a webhook is an address such as https://host/path")
        self._key()

    @property
    def place(self) -> str:
        """Without the path, which is often a secret."""
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.hostname}"

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()

    def send(self, event: Mapping[str, Any]) -> None:
        """Returns at once."""
        with self._changed:
            self._waiting.append(Delivery(f"msg_{uuid.uuid4().hex}", event, time.monotonic()))
            while len(self._waiting) > MOST_WAITING:
                self._drop("more wait than are kept")
            self._changed.notify()

    def close(self, patience: float) -> None:
        """What waits is tried for `patience` seconds more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread:
            self._thread.join(patience)
        self._stopped.set()
        with self._changed:
            while self._waiting:
                self._drop("the watch was stopped")

    def headers(self, delivery: Delivery, body: bytes, now: int) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "webhook-id": delivery.id,
            "webhook-timestamp": str(now),
        }
        if self.secret:
            signed = f"{delivery.id}.{now}.".encode() + body
            digest = hmac.new(self._key(), signed, hashlib.sha256).digest()
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        return headers

    def _key(self) -> bytes:
        if not self.secret.startswith(_PREFIX):
            return self.secret.encode()
        try:
            return base64.b64decode(self.secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise ValueError(f"a webhook secret after {_PREFIX} is base64") from None

    def _run(self) -> None:
        with httpx.Client(timeout=TIMEOUT, follow_redirects=False) as client:
            wait = FIRST_WAIT
            while (delivery := self._next()) is not None:
                failure = self._post(client, delivery)
                if not failure:
                    wait = FIRST_WAIT
                    continue
                logger.warning("webhook %s: %s", self.place, failure)
                self._stopped.wait(wait)
                if self._stopped.is_set():
                    return
                wait = min(2 * wait, LONGEST_WAIT)

    def _next(self) -> Delivery | None:
        """The oldest, which stays in the queue; None once all is sent after `close`."""
        with self._changed:
            while not self._waiting:
                if self._is_closed:
                    return None
                self._changed.wait()
            return self._waiting[0]

    def _post(self, client: httpx.Client, delivery: Delivery) -> str:
        """Why it has to be sent again; empty if it is done with."""
        body = json.dumps(delivery.event, ensure_ascii=False).encode()
        try:
            headers = self.headers(delivery, body, int(time.time()))
            status = client.post(self.address, content=body, headers=headers).status_code
        except httpx.HTTPError as error:
            failure = type(error).__name__  # its text quotes the address
        else:
            failure = "" if 200 <= status < 300 else f"status {status}"
            if status in _REFUSED:
                self._done(delivery, f"refused with {failure}")
                return ""
        if failure and time.monotonic() - delivery.since > GIVE_UP:
            self._done(delivery, f"not delivered for {GIVE_UP / 3600:g} h ({failure})")
            return failure
        if not failure:
            self._done(delivery)
        return failure

    def _done(self, delivery: Delivery, reason: str = "") -> None:
        with self._changed:
            if self._waiting and self._waiting[0] is delivery:
                if reason:
                    self._drop(reason)
                else:
                    self._waiting.popleft()

    def _drop(self, reason: str) -> None:
        delivery = self._waiting.popleft()
        self.dropped += 1
        logger.warning(
            "webhook %s: dropped event %s (%s)", self.place, delivery.event.get("event"), reason
        )
