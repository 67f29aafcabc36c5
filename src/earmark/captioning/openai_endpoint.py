"""One OpenAI-compatible server: sends requests, and explains its errors."""

from __future__ import annotations

import difflib
import email.utils
import json
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from earmark.captioning.chat_protocol import MOST_BYTES, read_json
from earmark.errors import CallError, CallRejected, CallTimeout, UnreadableAnswer, summarise
from earmark.redaction import SecretFilter, redact, redact_url

if TYPE_CHECKING:
    import httpx

    from earmark.media.http_client import HttpClient

NO_KEY = "none"
"""Sent if no key is given: some local servers insist on a key, whatever it is."""

RETRY_STATUSES = frozenset({408, 425, 429})
"""Statuses below 500 after which a retry may help."""

PICTURE = re.compile(r"image|picture|vision|multi-?modal|mmproj", re.IGNORECASE)
REFUSAL = re.compile(r"\bnot\b|n't\b|\bonly\b|unsupported|missing|at most 0", re.IGNORECASE)
"""If both match, the error message says that the model takes no pictures."""

UNPARSED_ANSWER = "produced output that does not match the expected"
"""In llama.cpp's message, with status 500, for an answer that was cut off or that it cannot parse:
a retry would give the same answer."""

NO_SCHEMAS = re.compile(
    r"(?!.*(invalid[^.]{0,20}schema|response_format\.json_schema))"
    r".*(response_format|json_schema|structured output)",
    re.IGNORECASE,
)
"""If it matches, the error message refuses any schema, and not only one that is not valid."""

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
"""Host names of this machine."""

MOST_REDIRECTS = 5
"""Redirects followed within the same server."""

NEWER_LENGTH_LIMIT = "max_completion_tokens"
"""The name of `max_tokens` for OpenAI's newer models; they refuse the old one and say so."""


class Endpoint:
    """Makes single calls to one server; errors say in one line what went wrong."""

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        try:
            parts = urlsplit(url)
            _ = parts.port  # raises if it is no number of a port
        except ValueError:  # its message may quote a password
            raise ValueError(
                f"{redact(repr(url))} is no address of a server: check its brackets and its port"
            ) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"a server's address starts with http:// or https://, not {redact(repr(url))}"
            )
        path = parts.path.rstrip("/") or "/v1"
        self.url = parts._replace(path=path, fragment="").geturl()
        self.address = redact_url(self.url).partition("?")[0]
        """The URL without secrets, for messages."""
        self._api_key = api_key or NO_KEY
        self._filter = SecretFilter(url, api_key or "")
        self._uses_newer_limit = False
        self.takes_schemas = True
        """False once the server has refused a schema: the prompt alone asks for JSON then."""

    @cached_property
    def _client(self) -> HttpClient:
        from earmark.media.http_client import HttpClient

        # A proxy from the environment cannot reach servers on this machine.
        is_loopback = urlsplit(self.url).hostname in LOOPBACK_HOSTS
        headers = {"Authorization": f"Bearer {self._api_key}"}
        return HttpClient(uses_proxies=not is_loopback, headers=headers)

    def models(self, *, timeout: float = 10.0) -> list[str]:
        """Names of the models served, in the server's order."""
        reply = self._ask("GET", "/models", timeout=timeout)
        listed = reply.get("data")
        if not isinstance(listed, list):
            raise UnreadableAnswer(f"{self.address}/models does not list models")
        return [str(model["id"]) for model in listed if isinstance(model, dict) and "id" in model]

    def check_model(self, name: str) -> None:
        """Raises if the server lists its models and `name` is not among them."""
        try:
            served = self.models()
        except _NoSuchPage:
            return  # a server without a list of models
        if name not in served and f"{name}:latest" not in served:
            raise CallRejected(self._not_served(name, served))

    def chat(
        self, body: Mapping[str, Any], *, timeout: float, identity: str = ""
    ) -> dict[str, Any]:
        """The server's reply to one chat request, unchanged.

        `identity` is sent as `X-Request-Id`, to match the server's log with the ledger.
        """
        headers = {"X-Request-Id": identity} if identity else {}
        named = dict(body)
        if self._uses_newer_limit and "max_tokens" in named:
            named[NEWER_LENGTH_LIMIT] = named.pop("max_tokens")
        if not self.takes_schemas:
            named.pop("response_format", None)
        try:
            return self._ask(
                "POST", "/chat/completions", timeout=timeout, headers=headers, json=named
            )
        except _NoSuchPage as error:
            raise self._explain_missing(str(body["model"]), error) from error
        except CallRejected as error:  # parallel calls each get this error once
            if NEWER_LENGTH_LIMIT in str(error) and "max_tokens" in named:
                self._uses_newer_limit = True
                return self.chat(body, timeout=timeout, identity=identity)
            if "response_format" not in named or not NO_SCHEMAS.match(str(error)):
                raise
        plain = {name: value for name, value in body.items() if name != "response_format"}
        reply = self.chat(plain, timeout=timeout, identity=identity)
        self.takes_schemas = False  # it was the schema that was refused
        return reply

    def transcribe(
        self, wav: bytes, fields: Mapping[str, Any], *, timeout: float
    ) -> dict[str, Any]:
        """The server's transcript of a WAV file, unchanged."""
        files = {"file": ("speech.wav", wav, "audio/wav")}
        page = "/audio/transcriptions"
        return self._ask("POST", page, timeout=timeout, data=dict(fields), files=files)

    def _ask(self, method: str, page: str, *, timeout: float, **content: Any) -> dict[str, Any]:
        """The server's JSON reply, within `timeout` seconds in all."""
        import httpx

        base = httpx.URL(self.url)
        request = self._client.request(method, base.copy_with(path=base.path + page), **content)
        was_sent = _watch_sending(request)
        try:
            response, raw = self._send(request, time.monotonic() + timeout)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise CallTimeout(
                f"{self.address} gave no answer in time", was_sent=was_sent.is_set()
            ) from error
        except httpx.TransportError as error:
            raise CallTimeout(
                f"{self.address} cannot be reached ({self._filter(summarise(error))}); "
                f"is the server running? `earmark doctor` looks for one",
                was_sent=was_sent.is_set(),
            ) from error
        if not response.is_success:
            raise self._explain_status(response, raw)
        return self._read(raw)

    def _send(self, request: httpx.Request, end: float) -> tuple[httpx.Response, bytes]:
        """The response to `request` and its body; redirects are followed until the time `end`."""
        from earmark.media.http_client import BodyTooLarge

        for _ in range(MOST_REDIRECTS):
            left = end - time.monotonic()
            try:
                response, raw = self._client.send(request, seconds=left, limit_bytes=MOST_BYTES)
            except BodyTooLarge as error:
                raise UnreadableAnswer(
                    f"{self.address} answered with more than {MOST_BYTES >> 20} MB"
                ) from error
            if response.next_request is None:
                return response, raw
            self._check_origin(request.url, response.next_request.url)
            request = response.next_request
        raise CallRejected(f"{self.address} redirects again and again; check the address")

    def _check_origin(self, url: httpx.URL, other: httpx.URL) -> None:
        """Raises if `other` is another server: pictures and keys must not go there."""
        if (url.scheme, url.netloc) != (other.scheme, other.netloc):
            host = self._filter(f"{other.scheme}://{other.netloc.decode('ascii', 'replace')}")
            raise CallRejected(
                f"{self.address} redirects to {host}, another server, which is sent nothing; "
                f"if it is the right one give its address instead"
            )

    def _read(self, raw: bytes) -> dict[str, Any]:
        try:
            reply = read_json(raw, clean=self._filter)
        except ValueError as error:
            start = self._filter(raw.decode("utf-8", "replace"))[:60]
            raise UnreadableAnswer(
                f"{self.address} answered with something other than JSON: {start!r}"
            ) from error
        except MemoryError as error:
            raise UnreadableAnswer(
                f"{self.address} answered with more than there is memory for"
            ) from error
        if not isinstance(reply, dict):
            raise UnreadableAnswer(f"{self.address} answered with JSON that is no chat answer")
        return reply

    def _explain_status(self, response: httpx.Response, raw: bytes) -> CallError:
        status, (words, code) = response.status_code, _error_message(raw, self._filter)
        words = words or f"Error code: {status}"
        if status not in RETRY_STATUSES and PICTURE.search(words) and REFUSAL.search(words):
            return CallRejected(
                f"{self.address} takes no pictures with this model ({words}); "
                f"serve a vision model, for llama.cpp with its mmproj file"
            )
        if code == "insufficient_quota":
            return CallRejected(f"{self.address} says the account is used up: {words}")
        if status in RETRY_STATUSES or status >= 500:
            return self._explain_fault(response, words)
        if status in (401, 403):
            what = "wants a key" if self._api_key == NO_KEY else "refuses the key"
            cure = "it is read from OPENAI_API_KEY (in Python: api_key)"
            return CallRejected(f"{self.address} {what} ({status}): {words}; {cure}")
        if status == 404:
            return _NoSuchPage(f"{self.address} answered 404: {words}")
        server = "--temperature server (in Python: temperature=None)"
        cure = f"; leave it to the server with {server}" if "temperature" in words else ""
        return CallRejected(f"{self.address} rejects the request ({status}): {words}{cure}")

    def _explain_fault(self, response: httpx.Response, words: str) -> CallError:
        """The error for a busy or failing server; a few such failures are permanent."""
        if UNPARSED_ANSWER in words:
            return UnreadableAnswer(
                f"{self.address} cannot read its model's answer, which was probably cut off; allow "
                f"a longer one with --answer-tokens ({words})"
            )
        wait = retry_after(response.headers.get("retry-after"), now=time.time())
        status = response.status_code
        return CallTimeout(f"{self.address} answered {status}: {words}", retry_after=wait)

    def _explain_missing(self, model: str, error: _NoSuchPage) -> CallRejected:
        try:
            served = self.models()
        except CallError:
            return error
        return error if model in served else CallRejected(self._not_served(model, served))

    def _not_served(self, name: str, served: list[str]) -> str:
        near = difflib.get_close_matches(name, served, n=8, cutoff=0.0)
        more = f" and {len(served) - len(near)} more" if len(served) > len(near) else ""
        names = f"{', '.join(near) or 'nothing'}{more}"
        return f"{self.address} does not serve {name!r}; it serves {names}"


class _NoSuchPage(CallRejected):
    """The server knows no such page or model (404)."""


def _watch_sending(request: httpx.Request) -> threading.Event:
    """An event that is set once all of `request`, or of its redirect, has been sent."""
    was_sent = threading.Event()

    async def trace(name: str, _: Mapping[str, Any]) -> None:
        if name.endswith(".send_request_body.complete"):
            was_sent.set()

    request.extensions["trace"] = trace
    return was_sent


def retry_after(value: str | None, *, now: float) -> float | None:
    """Seconds a `Retry-After` header asks for, given as seconds or as a date; never negative.

    >>> retry_after("Thu, 01 Jan 1970 00:01:00 GMT", now=45.0)
    15.0
    """
    if value is None:
        return None
    try:
        wait = float(value)
    except ValueError:
        try:
            wait = email.utils.parsedate_to_datetime(value).timestamp() - now
        except (TypeError, ValueError):
            return None
    return None if math.isnan(wait) else max(0.0, wait)


def _error_message(raw: bytes, clean: Callable[[str], str]) -> tuple[str, Any]:
    """The server's error message, one line of at most 200 characters, and its error code."""
    try:
        said = read_json(raw, clean=clean)
        text = json.dumps(said, ensure_ascii=False)
    except ValueError:
        said = text = clean(raw.decode("utf-8", "replace"))
    said = said.get("error", said) if isinstance(said, dict) else said
    words, code = said, None
    if isinstance(said, dict):
        words, code = said.get("message"), said.get("code")
    words = words if isinstance(words, str) and words else text
    return redact(" ".join(words.split()))[:200], code
