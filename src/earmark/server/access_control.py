"""Access control: tokens, hosts, origins, rate limits and security headers.

Every request for data needs the token: in the `Authorization` header, or in a cookie that the first
page sets and no script can read. Requests that another site makes a browser send are refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
MOST_GUESSES, GUESS_SECONDS = 20, 60.0
"""Wrong tokens from one address, within so many seconds."""

MOST_CLIENTS = 10_000
MOST_BODY_BYTES = 1 << 22
TOO_LARGE = f"the request has more than {MOST_BODY_BYTES >> 20} MB"
_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?")


@dataclass(slots=True)
class TokenBucket:
    tokens: float
    updated: float = field(default_factory=time.monotonic)

    def take(self, rate: float, size: float) -> bool:
        now = time.monotonic()
        self.tokens = min(size, self.tokens + (now - self.updated) * rate)
        self.updated = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True, eq=False)
class AccessControl:
    app: ASGIApp
    token: str | None
    hosts: tuple[str, ...]
    rate: float = 500.0
    """Requests a second of one client."""
    cookie: str = "earmark"
    clients: dict[str, TokenBucket] = field(default_factory=dict)
    guesses: dict[str, TokenBucket] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = self._refuse(Request(scope)) or self.app
        await answer(scope, _with_limit(receive), _with_headers(send))

    def _refuse(self, request: Request) -> Response | None:
        client = request.client.host if request.client else ""
        if not _take(self.clients, client, self.rate, 2 * self.rate):
            return _refusal(request, 429, "too many requests; wait a moment")
        host = request.headers.get("host", "").lower()
        match = _HOST.fullmatch(host)
        if match is None or match[1] not in self.hosts:
            reason = (
                f"this server does not answer to {host[:80]!r}, only to those it was started with"
            )
            return _refusal(request, 421, reason)
        if int(request.headers.get("content-length") or 0) > MOST_BODY_BYTES:
            return _refusal(request, 413, TOO_LARGE)
        if _is_cross_site(request, host):
            return _refusal(request, 403, "this request comes from another site")
        return None if self.token is None else self._check_token(request, client)

    def _check_token(self, request: Request, client: str) -> Response | None:
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        query_token = request.query_params.get("token", "") if request.scope["path"] == "/" else ""
        candidates = [
            bearer if kind.lower() == "bearer" else "",
            unquote(request.cookies.get(self.cookie, "")),
        ]
        if self._is_token(query_token):
            return self._redirect_with_cookie(request)
        if any(map(self._is_token, candidates)):
            return self._redirect_with_cookie(request) if query_token else None
        is_guess = any((*candidates, query_token))
        rate = MOST_GUESSES / GUESS_SECONDS
        if is_guess and not _take(self.guesses, client, rate, MOST_GUESSES):
            return _refusal(request, 429, "too many wrong tokens; wait a minute")
        reason = "open the address that `earmark serve` printed: it carries the token"
        return _refusal(request, 401, reason)

    def _is_token(self, candidate: str) -> bool:
        assert self.token is not None
        return bool(candidate) and hmac.compare_digest(candidate.encode(), self.token.encode())

    def _redirect_with_cookie(self, request: Request) -> Response:
        # From a proxy that ends TLS; from anybody else it only makes the cookie useless.
        is_secure = request.headers.get("x-forwarded-proto") == "https"
        secure = "; Secure" if is_secure else ""
        value = quote(self.token or "", safe="")
        cookie = f"{self.cookie}={value}; Path=/; HttpOnly; SameSite=Lax{secure}"
        return RedirectResponse("/", 303, {"set-cookie": cookie, "cache-control": "no-store"})


def _take(buckets: dict[str, TokenBucket], client: str, rate: float, size: float) -> bool:
    if len(buckets) > MOST_CLIENTS:
        buckets.clear()
    return buckets.setdefault(client, TokenBucket(size)).take(rate, size)


def cookie_name(port: int) -> str:
    """All ports of a host share their cookies."""
    return f"earmark-{hashlib.sha256(str(port).encode()).hexdigest()[:6]}"


def _is_navigation(request: Request) -> bool:
    mode = request.headers.get("sec-fetch-mode", "navigate")
    wants_page = "text/html" in request.headers.get("accept", "")
    return request.method == "GET" and mode == "navigate" and wants_page


def _is_cross_site(request: Request, host: str) -> bool:
    """Another site made the browser send this; links to pages may come from anywhere."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host:
        return True
    if request.headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return False
    is_page = not request.scope["path"].startswith(("/api", "/media"))
    return not (is_page and _is_navigation(request))


def _with_limit(receive: Receive) -> Receive:
    """A body that does not say how long it is ends the request once it is too long."""
    size = 0

    async def receive_with_limit() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BODY_BYTES:
            raise HTTPException(413, TOO_LARGE)
        return message

    return receive_with_limit


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def _refusal(request: Request, status: int, reason: str) -> Response:
    headers = {"cache-control": "no-store"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status == 429:
        headers["retry-after"] = "60"
    if _is_navigation(request):
        return PlainTextResponse(reason, status, headers)
    return JSONResponse({"detail": reason}, status, headers)
