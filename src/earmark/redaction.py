"""Hides what is secret in addresses and messages before they are kept, printed or logged.

https://me:key@host/a.mp4?id=3&X-Amz-Signature=5f  ──▶  https://host/a.mp4?id=3&***

What is hidden leaves a mark, so that whoever finds the address later knows that it is not whole.
Redacting twice changes nothing.
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
"""In place of a secret."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_ADDRESS = re.compile(_SCHEME.pattern + r"[^\s\"'<>]*[^\s\"'<>)\].,;:]", re.IGNORECASE)

_NAMES = (
    "api-version camera chapter clip file filename format id name part path v version versionid "
    "video"
)
_HARMLESS = frozenset(_NAMES.split())
"""Parameters that say which file is meant."""

_SECRET = re.compile(
    r"access|auth|cred|expires|jwt|key|pass|pin$|policy|pwd|secret|session|sig|token"
    r"|^(x-.*|pw|sv|se|sr|sp|st|spr|sip|ss|srt|sk[a-z]+)$",
    re.IGNORECASE,
)
"""Names of keys, and of what comes and goes with a signature (AWS, Google, Azure, CloudFront)."""

_PLAIN = re.compile(r"[\d.,:T_-]*|~[0-9a-f]{8}")
"""Numbers and dates, and what stands for a value that is not shown."""

_FILE = re.compile(r"[\w/%+ -]+\.[a-z]\w{1,3}", re.IGNORECASE)
"""A file's name, which some servers call a key."""

_PAIR = re.compile(
    r"(authorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?|\bbearer\s+(?=\S*\d)"
    r"|\b[\w-]*(?:api[-_]?key|access[-_]?token|password|secret|signature)=)[^\s\"',;&]{6,}",
    re.IGNORECASE,
)
"""A header or a parameter that stands in a message by itself."""

_SHORT = 6
"""Characters below which a secret may be a part of many a word."""


def redact_url(url: str) -> str:
    """The address without user info, keys and signatures; what is no address as it is.

    Signed anew, it stays the same. Of a parameter whose name says nothing, a few digits of a hash
    are left, so that two recordings do not become one.

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
    """Whether something was hidden in the address, so that it cannot be opened."""
    return bool(_SCHEME.match(url)) and url.endswith(HIDDEN)


def redact(text: str) -> str:
    """A message without what is secret in the addresses and headers it quotes.

    >>> redact("no answer from https://me:key@host/v1; Authorization: Bearer sk-12345")
    'no answer from https://host/v1?***; Authorization: Bearer ***'
    """
    return _PAIR.sub(rf"\1{HIDDEN}", _ADDRESS.sub(lambda found: redact_url(found[0]), text))


def map_texts(value: Any, clean: Callable[[str], str] = redact) -> Any:
    """A JSON value with every text of it cleaned, names included."""
    if isinstance(value, Mapping):
        return {clean(name): map_texts(one, clean) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(one, clean) for one in value]
    return clean(value) if isinstance(value, str) else value


class SecretFilter:
    """Cuts the secrets a server was sent out of what it sends back."""

    def __init__(self, url: str, *keys: str) -> None:
        """Those in `url`, and `keys`; empty ones are none."""
        forms = {
            form for secret in (*keys, *_secrets_in(url)) for form in (secret, unquote(secret))
        }
        patterns = [
            re.escape(form) if len(form) >= _SHORT else rf"(?<!\w){re.escape(form)}(?!\w)"
            for form in sorted(filter(None, forms), key=len, reverse=True)
        ]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def __call__(self, text: str) -> str:
        """`text` with none of them in it."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text


class RedactingFilter(logging.Filter):
    """Redacts what a library logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the message, and let it pass."""
        record.msg, record.args = redact(record.getMessage()), ()
        return True


def _split(url: str, scheme: re.Match[str]) -> tuple[str, str, str]:
    """User info, host with path, and query; a fragment is left out."""
    rest, is_web = url[scheme.end() :], scheme[1].lower() in ("http", "https")
    if is_web:
        rest = rest.partition("#")[0]
    place, _, query = rest.partition("?")
    if not is_web and "=" not in query and query != HIDDEN:
        place, query = rest, ""  # a file's name
    host, slash, path = place.partition("/")
    port = host.rpartition("]")[2].partition(":")[2]
    if "@" not in host and port and not port.isdecimal() and "@" in rest:
        user, _, place = rest.rpartition("@")  # a password with a slash in it
        return user, place.partition("?")[0], query if "?" in place else ""
    user, _, host = host.rpartition("@")
    return user, f"{host}{slash}{path}", query


def _redact_parameter(piece: str) -> str:
    """A parameter as it may be shown; empty where it may not."""
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
    if not (found := _SCHEME.match(url)):
        return
    user, _, query = _split(url, found)
    if user:
        yield user.partition(":")[2] or user
        yield base64.b64encode(unquote(user if ":" in user else f"{user}:").encode()).decode()
    for piece in query.split("&"):
        name, _, value = piece.partition("=")
        hides = _redact_parameter(piece) != piece
        if hides and (_SECRET.search(name) or len(value) > _SHORT):
            yield value or name
