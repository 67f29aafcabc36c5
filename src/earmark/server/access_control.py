"""Who may ask what: tokens, hosts, origins, rates and the headers of every response.

No request reaches data but with the token: in the `Authorization` header, or in a cookie that the
first page sets and no script can read. What a browser sends on behalf of another site is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
GUESSES, GUESS_SECONDS = 20, 60.0
"""Wrong tokens from one address within so many seconds, after which it has to wait."""


@dataclass(slots=True)
class Bucket:
    """So many requests a second, and as many at once as fit."""

    tokens: float
    at: float = field(default_factory=time.monotonic)

    def take(self, rate: float, size: float) -> bool:
        """Whether there is room for one more now."""
        now = time.monotonic()
        self.tokens = min(size, self.tokens + (now - self.at) * rate)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True, eq=False)
class AccessControl:
    """Lets requests through to `app` that may be answered."""

    app: Asgi
    token: str | None
    """None asks for none."""
    hosts: tuple[str, ...]
    """Names this server may be called by."""
    rate: float = 500.0
    """Requests a second of one client."""
    cookie: str = "earmark"
    clients: dict[str, Bucket] = field(default_factory=dict)
    guesses: dict[str, Bucket] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        refused = self._refuse(scope, headers)
        if refused is None:
            await self.app(scope, receive, _with_headers(send))
        elif refused[0] == 303:
            await _redirect(send, self._set_cookie(scope), refused[1])
        else:
            await _say(send, *refused, is_page=_is_navigation(scope, headers))

    def _refuse(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Status and reason where the request may not be answered; 303 and where to go instead."""
        client = (scope.get("client") or ("",))[0]
        if len(self.clients) > 10_000:
            self.clients.clear()
        if not self.clients.setdefault(client, Bucket(2 * self.rate)).take(
            self.rate, 2 * self.rate
        ):
            return 429, "too many requests; wait a moment"
        host = headers.get("host", "").lower()
        if _name_of(host) not in self.hosts:
            return 421, f"this server does not answer to {host[:80]!r}; see --allow-host"
        if _is_foreign(scope, headers, host):
            return 403, "this request comes from another site"
        if self.token is None:
            return None
        return self._check_token(scope, headers, client)

    def _check_token(
        self, scope: Scope, headers: dict[str, str], client: str
    ) -> tuple[int, str] | None:
        kind, _, given = headers.get("authorization", "").partition(" ")
        cookies = SimpleCookie(headers.get("cookie", ""))
        kept = cookies[self.cookie].value if self.cookie in cookies else ""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        asked = query.get("token", [""])[0] if scope["path"] == "/" else ""
        tries = [given if kind.lower() == "bearer" else "", kept, asked]
        if any(self._is_token(one) for one in tries[:2]):
            return None if not asked else (303, "/")
        bucket = self.guesses.setdefault(client, Bucket(GUESSES))
        if any(tries) and not bucket.take(GUESSES / GUESS_SECONDS, GUESSES):
            return 429, "too many wrong tokens; wait a minute"
        if self._is_token(asked):
            return 303, "/"
        return 401, "open the address that `earmark serve` printed: it carries the token"

    def _is_token(self, given: str) -> bool:
        assert self.token is not None
        return bool(given) and hmac.compare_digest(given.encode(), self.token.encode())

    def _set_cookie(self, scope: Scope) -> str:
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax{secure}"


def cookie_name(port: int) -> str:
    """Of a server at `port`: cookies do not tell ports apart."""
    return f"earmark-{hashlib.sha256(str(port).encode()).hexdigest()[:6]}"


def _name_of(host: str) -> str:
    """A host without its port."""
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def _is_navigation(scope: Scope, headers: dict[str, str]) -> bool:
    """Whether a person opens a page, and no script asks."""
    mode = headers.get("sec-fetch-mode", "navigate")
    wants_page = "text/html" in headers.get("accept", "")
    return scope["method"] == "GET" and mode == "navigate" and wants_page


def _is_foreign(scope: Scope, headers: dict[str, str], host: str) -> bool:
    """Whether another site makes a browser ask; links to pages may come from anywhere."""
    site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host:
        return True
    if site in ("same-origin", "none"):
        return False
    is_page = not scope["path"].startswith(("/api", "/media"))
    return not (is_page and _is_navigation(scope, headers))


def _with_headers(send: Send) -> Send:
    async def told(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = {name for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *(
                    (name.encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.encode() not in given
                ),
            ]
        await send(message)

    return told


async def _say(send: Send, status: int, reason: str, *, is_page: bool) -> None:
    body = reason.encode() if is_page else json.dumps({"detail": reason}).encode()
    kind = "text/plain; charset=utf-8" if is_page else "application/json"
    headers = {"content-type": kind, "content-length": str(len(body)), "cache-control": "no-store"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status == 429:
        headers["retry-after"] = "60"
    await _answer(send, status, headers, body)


async def _redirect(send: Send, cookie: str, place: str) -> None:
    headers = {"location": place, "set-cookie": cookie, "cache-control": "no-store"}
    await _answer(send, 303, headers, b"")


async def _answer(send: Send, status: int, headers: dict[str, str], body: bytes) -> None:
    every = [(name.encode(), value.encode()) for name, value in (HEADERS | headers).items()]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": body})
