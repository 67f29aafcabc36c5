"""Captions from any server with the OpenAI chat API, and a probe whether it looks at pictures.

A server that takes pictures counts more prompt tokens with a picture than without. One that drops
the picture silently counts the same number, and so is detected.
"""

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

from earmark.captioning.chat_protocol import (
    MOST_BYTES,
    NEWER_LENGTH_LIMIT,
    chat_body,
    read_json,
    read_reply,
    token_usage,
)
from earmark.captioning.request import Answer, Question, Request
from earmark.errors import CallError, CallRejected, CallTimeout, UnreadableAnswer, summarise
from earmark.media import Frame
from earmark.redaction import SecretFilter, redact, redact_line, redact_url
from earmark.timeline import Span

if TYPE_CHECKING:
    import httpx

    from earmark.media.http_client import HttpClient

PROBE_PIXELS = 64
NO_KEY = "none"
"""Some local servers insist on a key, whatever it is."""

RETRY_STATUSES = frozenset({408, 425, 429})
PICTURE = re.compile(r"image|picture|vision|multi-?modal|mmproj", re.IGNORECASE)
REFUSAL = re.compile(r"\bnot\b|n't\b|\bonly\b|unsupported|missing|at most 0", re.IGNORECASE)
UNPARSED_ANSWER = "produced output that does not match the expected"
"""In llama.cpp's message, with status 500, for an answer that was cut off or that it cannot parse:
a retry would give the same answer."""

NO_SCHEMAS = re.compile(
    r"(?!.*(invalid[^.]{0,20}schema|response_format\.json_schema))"
    r".*(response_format|json_schema|structured output)",
    re.IGNORECASE,
)

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
MOST_NAMES, LONGEST_NAME = 1000, 200
MOST_REDIRECTS = 5


class OpenAICaptioner:
    """Calls a server such as vLLM, SGLang, llama.cpp, Ollama, LM Studio or a hosted one."""

    def __init__(self, url: str, model: str, api_key: str | None = None) -> None:
        self.endpoint = Endpoint(url, api_key=api_key)
        self.model = model
        self.at_once: int | None = None  # servers differ, so the limits decide

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenAICaptioner, (self.endpoint.url, self.model, self.endpoint.api_key)

    def check(self) -> None:
        self.endpoint.check_model(self.model)

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        body, note = chat_body(request), ""
        started = time.monotonic()
        reply = self.endpoint.chat(body, timeout=timeout, identity=request.identity)
        latency = time.monotonic() - started
        if request.question.schema is not None and not self.endpoint.takes_schemas:
            note = "sent without a schema: the server refuses one"
        return read_reply(reply, request, latency=latency, note=note)


def probe(endpoint: Endpoint, model: str, frame: Frame, *, timeout: float) -> tuple[bool, str]:
    """Whether the server looks at a picture, and how that is known."""
    question = Question(answer_tokens=1, temperature=None)
    span = Span(frame.time, frame.time)
    request = Request("", span, (frame.time,), "What is this?", model, question)
    body = chat_body(request.showing([frame.resized(PROBE_PIXELS, PROBE_PIXELS)]))
    without_picture = body | {"messages": [{"role": "user", "content": request.text}]}

    def count_tokens(body: Mapping[str, Any]) -> int | None:
        try:
            reply = endpoint.chat(body, timeout=timeout)
        except CallTimeout:  # some refuse with a temporary status: try once more
            reply = endpoint.chat(body, timeout=timeout)
        return token_usage(reply)[0]

    plain = count_tokens(without_picture)
    try:
        counted = count_tokens(body)
    except CallError as error:
        return False, str(error)
    if counted is None or plain is None:
        return True, "accepted; the server does not count tokens"
    if counted > plain:
        return True, f"{counted - plain} tokens of picture counted"
    return False, f"{endpoint.address} accepts it but does not look at it"


class Endpoint:
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
        self.api_key = (api_key or "").strip()
        if not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ValueError("the key contains characters that no key has; check OPENAI_API_KEY")
        self._filter = SecretFilter(url, self.api_key)
        self._uses_newer_limit = False
        self.takes_schemas = True
        """False once the server has refused a schema: the prompt alone asks for JSON then."""
        self._answers_without_schema = False

    @cached_property
    def _client(self) -> HttpClient:
        from earmark.media.http_client import HttpClient

        # A proxy from the environment cannot reach servers on this machine.
        is_loopback = urlsplit(self.url).hostname in LOOPBACK_HOSTS
        headers = {"Authorization": f"Bearer {self.api_key or NO_KEY}"}
        return HttpClient(uses_proxies=not is_loopback, headers=headers)

    def models(self, *, timeout: float = 10.0) -> list[str]:
        listed = self.ask("GET", "/models", timeout=timeout).get("data")
        if not isinstance(listed, list):
            raise UnreadableAnswer(f"{self.address}/models does not list models")
        models = [model for model in listed if isinstance(model, dict) and "id" in model]
        return [str(model["id"])[:LONGEST_NAME] for model in models]

    def check_model(self, name: str) -> None:
        try:
            served = self.models()
        except _NoSuchPage:
            return  # a server without a list of models
        if name not in served and f"{name}:latest" not in served:
            raise CallRejected(self._not_served(name, served))

    def chat(
        self, body: Mapping[str, Any], *, timeout: float, identity: str = ""
    ) -> dict[str, Any]:
        """One request, never two: callers count them.

        `identity` is sent as `X-Request-Id`, to match the server's log with the run.
        """
        headers = {"X-Request-Id": identity} if identity else {}
        sent = dict(body)
        if self._uses_newer_limit and "max_tokens" in sent:
            sent[NEWER_LENGTH_LIMIT] = sent.pop("max_tokens")
        if not self.takes_schemas:
            sent.pop("response_format", None)
        is_without_schema = "response_format" in body.keys() - sent.keys()
        try:
            reply = self.ask(
                "POST", "/chat/completions", timeout=timeout, headers=headers, json=sent
            )
        except _NoSuchPage as error:
            raise self._explain_missing(str(body["model"]), error) from error
        except CallRejected as error:  # parallel calls each get this error once
            if NEWER_LENGTH_LIMIT in str(error) and "max_tokens" in sent:
                self._uses_newer_limit = True
            elif "response_format" in sent and NO_SCHEMAS.match(str(error)):
                self.takes_schemas = False
            else:
                # Unless it has answered without, it was not the schema that was refused.
                self.takes_schemas |= is_without_schema and not self._answers_without_schema
                raise
            raise CallTimeout(str(error), is_form=True) from error
        self._answers_without_schema |= is_without_schema
        return reply

    def ask(self, method: str, page: str, *, timeout: float, **content: Any) -> dict[str, Any]:
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
                was_reached=not isinstance(error, httpx.ConnectError),
            ) from error
        if not response.is_success:
            raise self._explain_status(response, raw)
        return self._read(raw)

    def _send(self, request: httpx.Request, end: float) -> tuple[httpx.Response, bytes]:
        from earmark.media.http_client import BodyTooLarge

        for _ in range(MOST_REDIRECTS):
            seconds = end - time.monotonic()
            try:
                response, raw = self._client.send(request, seconds=seconds, limit_bytes=MOST_BYTES)
            except BodyTooLarge as error:
                raise UnreadableAnswer(
                    f"{self.address} answered with more than {MOST_BYTES >> 20} MB"
                ) from error
            if response.next_request is None:
                return response, raw
            url, other = request.url, response.next_request.url
            if (url.scheme, url.netloc) != (other.scheme, other.netloc):
                host = self._filter(f"{other.scheme}://{other.netloc.decode('ascii', 'replace')}")
                raise CallRejected(  # pictures and keys must not go there
                    f"{self.address} redirects to {host}, another server, which is sent nothing; "
                    f"if it is the right one give its address instead"
                )
            request = response.next_request
        raise CallRejected(f"{self.address} redirects again and again; check the address")

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
                f"{self.address} accepts no pictures with this model ({words}); "
                f"serve a vision model, for llama.cpp with its mmproj file"
            )
        if code == "insufficient_quota":
            return CallRejected(f"{self.address} says the account is used up: {words}")
        if status in RETRY_STATUSES or status >= 500:
            return self._explain_fault(response, words)
        if status in (401, 403):
            what = "refuses the key" if self.api_key else "needs a key"
            cure = "it is read from OPENAI_API_KEY (in Python: api_key)"
            return CallRejected(f"{self.address} {what} ({status}): {words}; {cure}")
        if status == 404:
            return _NoSuchPage(f"{self.address} answered 404: {words}")
        has_cure = "temperature" in words
        cure = "; leave it to the server with `temperature` = server" if has_cure else ""
        return CallRejected(f"{self.address} rejects the request ({status}): {words}{cure}")

    def _explain_fault(self, response: httpx.Response, words: str) -> CallError:
        if UNPARSED_ANSWER in words:
            return UnreadableAnswer(
                f"{self.address} cannot read its model's answer, which was probably cut off; allow "
                f"more `answer_tokens` ({words})"
            )
        wait = retry_after(response.headers.get("retry-after"), now=time.time())
        what = f"{self.address} answered {response.status_code}: {words}"
        return CallTimeout(what, retry_after=wait)

    def _explain_missing(self, model: str, error: _NoSuchPage) -> CallRejected:
        try:
            served = self.models()
        except CallError:
            return error
        return error if model in served else CallRejected(self._not_served(model, served))

    def _not_served(self, name: str, served: list[str]) -> str:
        near = difflib.get_close_matches(name, served[:MOST_NAMES], n=8, cutoff=0.0)
        more = f" and {len(served) - len(near)} more" if len(served) > len(near) else ""
        names = f"{', '.join(near) or 'nothing'}{more}"
        return f"{self.address} does not serve {name!r}; it serves {names}"


class _NoSuchPage(CallRejected): ...


def _watch_sending(request: httpx.Request) -> threading.Event:
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
    try:
        reply = read_json(raw, clean=clean)
        text = json.dumps(reply, ensure_ascii=False)
    except ValueError:
        reply = text = clean(raw.decode("utf-8", "replace"))
    error = reply.get("error", reply) if isinstance(reply, dict) else reply
    message, code = error, None
    if isinstance(error, dict):
        message, code = error.get("message"), error.get("code")
    return redact_line(message if isinstance(message, str) and message else text), code
