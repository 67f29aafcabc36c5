"""Removes secrets from addresses and messages before they are stored, printed or logged.

https://me:key@host/a.mp4?id=3&X-Amz-Signature=5f  ──▶  https://host/a.mp4?id=3&***

A mark, `***`, stays in place of what is removed, so that a reader knows that the address is
incomplete. Redacting twice changes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

HIDDEN = "***"
"""Stands in place of a secret."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_ADDRESS = re.compile(_SCHEME.pattern + r"[^\s\"'<>]*[^\s\"'<>)\].,;:]", re.IGNORECASE)

_NAMES = (
    "api-version camera chapter clip file filename format id name part path v version versionid "
    "video"
)
_HARMLESS = frozenset(_NAMES.split())
"""Names of parameters that identify a file."""

_SECRET = re.compile(
    r"access|auth|cred|expires|jwt|key|pass|pin$|policy|pwd|secret|session|sig|token"
    r"|^(x-.*|pw|sv|se|sr|sp|st|spr|sip|ss|srt|sk[a-z]+)$",
    re.IGNORECASE,
)
"""Names of parameters that hold keys, or parts of a signature (AWS, Google, Azure, CloudFront)."""

_PLAIN = re.compile(r"[\d.,:T_-]*|~[0-9a-f]{8}")
"""Values that may be shown: numbers, dates, and the hash that replaces a hidden value."""

_FILE = re.compile(r"[\w/%+ -]+\.[a-z]\w{1,3}", re.IGNORECASE)
"""A file name: some servers pass it in a parameter named `key`."""

_PAIR = re.compile(
    r"(authorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?|\bbearer\s+(?=\S*\d)"
    r"|\b[\w-]*(?:api[-_]?key|access[-_]?token|password|secret|signature)=)[^\s\"',;&]{6,}",
    re.IGNORECASE,
)
"""A header or parameter with a secret, in a message outside any address."""

_SHORT = 6
"""Secrets with fewer characters are removed only as whole words: others may contain them."""


def redact_url(url: str) -> str:
    """The address without user info, keys and signatures; a text that is no address is unchanged.

    The result does not depend on the signature. The value of an unknown parameter is replaced by a
    short hash, so that the addresses of two recordings stay different.

    >>> redact_url("ftp://me:key@host/a.mp4"), redact_url("https://host/a?id=3&token=5")
    ('ftp://host/a.mp4?***', 'https://host/a?id=3&***')
    """
    if not (found := _SCHEME.match(url)):
        return url
    user, place, query = _split(url, found)
    pieces = [piece for piece in query.split("&") if piece]
    shown = [one for one in map(_redact_parameter, pieces) if one]
    if user or shown != pieces:
        shown.append(HIDDEN)
    return f"{found[0]}{place}{'?' * bool(shown)}{'&'.join(shown)}"


def is_redacted(url: str) -> bool:
    """Whether a part of the address was removed, so that it cannot be opened."""
    return bool(_SCHEME.match(url)) and url.endswith(HIDDEN)


def redact(text: str) -> str:
    """The message without the secrets in the addresses and headers it quotes.

    >>> redact("no answer from https://me:key@host/v1; Authorization: Bearer sk-12345")
    'no answer from https://host/v1?***; Authorization: Bearer ***'
    """
    return _PAIR.sub(rf"\1{HIDDEN}", _ADDRESS.sub(lambda found: redact_url(found[0]), text))


def map_texts(value: Any, clean: Callable[[str], str] = redact) -> Any:
    """The JSON value with `clean` applied to every string in it, names of fields included."""
    if isinstance(value, Mapping):
        return {clean(name): map_texts(one, clean) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(one, clean) for one in value]
    return clean(value) if isinstance(value, str) else value


class SecretFilter:
    """Removes from a server's replies the secrets that were sent to it."""

    def __init__(self, url: str, *keys: str) -> None:
        """Remove the secrets in `url`, and `keys`; empty keys are ignored."""
        forms = {
            form for secret in (*keys, *_secrets_in(url)) for form in (secret, unquote(secret))
        }
        patterns = [
            re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
            for form in sorted(filter(None, forms), key=len, reverse=True)
        ]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def __call__(self, text: str) -> str:
        """`text` with each secret replaced by `HIDDEN`."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text


class RedactingFilter(logging.Filter):
    """Redacts the log messages of a library."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the message; no record is dropped."""
        record.msg, record.args = redact(record.getMessage()), ()
        return True


def _split(url: str, scheme: re.Match[str]) -> tuple[str, str, str]:
    """User info, host with path, and query; the fragment of a web address is dropped."""
    rest, is_web = url[scheme.end() :], scheme[1].lower() in ("http", "https")
    host = re.split("[/?]" if is_web else "/", rest, maxsplit=1)[0]
    port = host.rpartition("]")[2].partition(":")[2]
    is_password = "@" not in host and port and not port.isdecimal()  # with `/` or `?` in it
    user, at, _ = (rest if is_password else host).rpartition("@")
    rest = rest.removeprefix(user + at)
    if is_web:
        rest = rest.partition("#")[0]
    place, _, query = rest.partition("?")
    if not is_web and "=" not in query and query != HIDDEN:
        return user, rest, ""  # a question mark in a file name
    return user, place, query


def _redact_parameter(piece: str) -> str:
    """The parameter as it may be shown; empty if it must be removed."""
    name, is_pair, value = piece.partition("=")
    known = name.lower() if is_pair else ""
    if known in _HARMLESS or (known == "key" and _FILE.fullmatch(value)):
        return piece
    if piece == HIDDEN or _SECRET.search(name):
        return ""
    if _PLAIN.fullmatch(value if is_pair else name):
        return piece
    mark = f"~{hashlib.blake2b(piece.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"
    return f"{name}={mark}" if is_pair else mark


def _secrets_in(url: str) -> Iterator[str]:
    """The password or user name, its basic authorization header, and the hidden parameters."""
    if not (found := _SCHEME.match(url)):
        return
    user, _, query = _split(url, found)
    if user:
        yield user.partition(":")[2] or user
        yield base64.b64encode(unquote(user if ":" in user else f"{user}:").encode()).decode()
    for piece in query.split("&"):
        name, _, value = piece.partition("=")
        is_hidden = _redact_parameter(piece) != piece
        if is_hidden and (_SECRET.search(name) or len(value) > _SHORT):
            yield value or name
