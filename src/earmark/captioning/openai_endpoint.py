"""One OpenAI-compatible address: the HTTP client, and what its errors mean."""

from __future__ import annotations

import difflib
import email.utils
import json
import math
import re
import time
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from earmark.errors import CallError, CallRejected, CallTimeout, UnreadableAnswer

if TYPE_CHECKING:
    import openai

NO_KEY = "none"
"""Sent where no key is given: servers on one's own machine ask for none, the client insists."""

BUSY = frozenset({408, 425, 429})
"""Statuses below 500 that ask for patience."""

PICTURE = re.compile(r"image|picture|vision|multi-?modal|mmproj", re.IGNORECASE)
REFUSAL = re.compile(r"\bnot\b|n't\b|\bonly\b|unsupported|missing|at most 0", re.IGNORECASE)
"""Words that together mean a model takes no pictures, as servers put it."""

HERE = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine."""

NEWER_LIMIT = "max_completion_tokens"
"""What OpenAI's newer models call `max_tokens`; they refuse the old name and say the new one."""


class Endpoint:
    """Asks one server, once a time, and says in one line what went wrong."""

    def __init__(
        self, url: str, *, api_key: str | None = None, now: Callable[[], float] = time.time
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"a server's address starts with http:// or https://, not {url!r}")
        self.url = url.rstrip("/") + ("" if parts.path.strip("/") else "/v1")
        self._api_key = api_key or NO_KEY
        self._now = now
        self._is_newer = False

    @cached_property
    def _client(self) -> openai.OpenAI:
        import openai

        # A proxy that the environment names leads out of this machine, and never back to it.
        is_here = urlsplit(self.url).hostname in HERE
        own = openai.DefaultHttpxClient(trust_env=False) if is_here else None
        client = openai.OpenAI(
            base_url=self.url, api_key=self._api_key, max_retries=0, http_client=own
        )
        weakref.finalize(self, client.close)  # lets go of its connections when we are gone
        return client

    def models(self, *, timeout: float = 10.0) -> list[str]:
        """Names of the models served, in the server's order."""
        fetch = partial(self._client.get, "/models", cast_to=str)
        reply = self._read(lambda: fetch(options={"timeout": timeout}))
        listed = reply.get("data")
        if not isinstance(listed, list):
            raise UnreadableAnswer(f"{self.url}/models does not list models")
        return [str(model["id"]) for model in listed if isinstance(model, dict) and "id" in model]

    def check_model(self, name: str) -> None:
        """Raises if the server can be asked what it serves and `name` is not among it."""
        try:
            served = self.models()
        except CallRejected as error:
            if isinstance(error, _NoSuchPage):
                return  # a server without a list of models
            raise
        if name not in served and f"{name}:latest" not in served:
            raise CallRejected(self._not_served(name, served))

    def chat(
        self, body: Mapping[str, Any], *, timeout: float, identity: str = ""
    ) -> dict[str, Any]:
        """The server's reply to one chat request, as it came.

        `identity` goes with it as `X-Request-Id`, so that a server's log and the ledger can be
        laid side by side.
        """
        try:
            return self._chat(self._renamed(body), timeout=timeout, identity=identity)
        except CallRejected as error:
            if self._is_newer or NEWER_LIMIT not in str(error):
                raise
            self._is_newer = True
        return self._chat(self._renamed(body), timeout=timeout, identity=identity)

    def _renamed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """`body` with the longest answer called as this server calls it."""
        names = {"max_tokens": NEWER_LIMIT} if self._is_newer else {}
        return {names.get(name, name): value for name, value in body.items()}

    def _chat(self, body: Mapping[str, Any], *, timeout: float, identity: str) -> dict[str, Any]:
        headers = {"X-Request-Id": identity} if identity else {}
        # Not `chat.completions.create`: it takes the message apart and knows no fields but its own.
        send = partial(self._client.post, "/chat/completions", cast_to=str, body=body)
        try:
            return self._read(lambda: send(options={"timeout": timeout, "headers": headers}))
        except _NoSuchPage as error:
            raise self._explain_missing(str(body["model"]), error) from error

    def _read(self, send: Callable[[], str]) -> dict[str, Any]:
        import openai

        try:
            text = send()
        except openai.APIError as error:
            raise self._explain(error) from error
        try:
            reply = json.loads(text)
        except json.JSONDecodeError as error:
            raise UnreadableAnswer(
                f"{self.url} answered with something other than JSON: {text[:60]!r}"
            ) from error
        if not isinstance(reply, dict):
            raise UnreadableAnswer(f"{self.url} answered with JSON that is no chat answer")
        return reply

    def _explain(self, error: openai.APIError) -> CallError:
        import openai

        if isinstance(error, openai.APITimeoutError):
            return CallTimeout(f"{self.url} gave no answer in time")
        if isinstance(error, openai.APIConnectionError):
            return CallTimeout(
                f"{self.url} cannot be reached ({error.__cause__ or error}); "
                f"is the server running? `earmark doctor` looks for one"
            )
        if isinstance(error, openai.APIStatusError):
            return self._explain_status(error)
        return UnreadableAnswer(f"{self.url} gave an unreadable answer: {error.message}")

    def _explain_status(self, error: openai.APIStatusError) -> CallError:
        status, words = error.status_code, _words(error)
        if status not in BUSY and PICTURE.search(words) and REFUSAL.search(words):
            return CallRejected(
                f"{self.url} takes no pictures with this model ({words}); "
                f"serve a vision model, for llama.cpp with its mmproj file"
            )
        if error.code == "insufficient_quota":
            return CallRejected(f"{self.url} says the account is used up: {words}")
        if status in BUSY or status >= 500:
            wait = retry_after(error.response.headers.get("retry-after"), now=self._now())
            return CallTimeout(f"{self.url} answered {status}: {words}", retry_after=wait)
        if status in (401, 403):
            return CallRejected(f"{self.url} refuses the key ({status}): {words}")
        if status == 404:
            return _NoSuchPage(f"{self.url} answered 404: {words}")
        cure = (
            "; leave it to the server with --temperature server" if "temperature" in words else ""
        )
        return CallRejected(f"{self.url} rejects the request ({status}): {words}{cure}")

    def _explain_missing(self, model: str, error: _NoSuchPage) -> CallRejected:
        try:
            served = self.models()
        except CallError:
            return error
        return error if model in served else CallRejected(self._not_served(model, served))

    def _not_served(self, name: str, served: list[str]) -> str:
        near = difflib.get_close_matches(name, served, n=8, cutoff=0.0) or served[:8]
        more = f" and {len(served) - len(near)} more" if len(served) > len(near) else ""
        return f"{self.url} does not serve {name!r}; it serves {', '.join(near) or 'nothing'}{more}"


class _NoSuchPage(CallRejected):
    """The server knows no such page or model (404)."""


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


def _words(error: openai.APIStatusError) -> str:
    """What the server said, in one line of at most 200 characters."""
    body = error.body
    said = body.get("message") if isinstance(body, dict) else body
    text = said if isinstance(said, str) and said else error.message
    return " ".join(text.split())[:200]
