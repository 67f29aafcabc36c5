"""Removes secrets from addresses and messages before they are stored, printed or logged.

https://me:key@host/a.mp4?id=3&X-Amz-Signature=5f  ──▶  https://host/a.mp4?id=3&***

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

# Every pattern takes linear time on any text: none repeats without a bound at each position.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]{1,31}://[^\s\"'<>]*[^\s\"'<>)\].,;:]",
    re.IGNORECASE,
)
"""In a longer run of such letters, the last 32 are taken as the scheme."""

_LONGEST = 10_000
"""Characters; the words beyond are not looked at."""

_NAMES = (
    "api-version camera chapter clip file filename format id name part path v version versionid "
    "video"
)
_HARMLESS = frozenset(_NAMES.split())

_SECRET = re.compile(
    r"access|auth|cred|expires|jwt|key|pass|pin$|policy|pwd|secret|session|sig|token"
    r"|^(x-.*|pw|sv|se|sr|sp|st|spr|sip|ss|srt|sk[a-z]+)$",
    re.IGNORECASE,
)
"""Keys, or parts of a signature (AWS, Google, Azure, CloudFront)."""

_PLAIN = re.compile(r"[\d.,:T_-]*|~[0-9a-f]{8}")
"""Numbers, dates, and the hash that replaces a hidden value."""

_MODEL_NAME = re.compile(r"[\w.:/-]{1,80}")

_FILE = re.compile(r"[\w/%+ -]+\.[a-z]\w{1,3}", re.IGNORECASE)
"""Some servers pass a file name in a parameter named `key`."""

_PAIR = re.compile(
    r"(authorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?|\bbearer\s+(?=\S*\d)"
    r"|(?:api[-_]?key|access[-_]?token|password|secret|signature)=)[^\s\"',;&]{6,}",
    re.IGNORECASE,
)

_SHORT = 6
"""Shorter secrets are removed only as whole words: others may contain them."""


def redact_url(url: str) -> str:
    """The address without user info, keys and signatures; other text is unchanged.

    The value of an unknown parameter is replaced by a short hash, so that the addresses of two
    recordings stay different.

    >>> redact_url("ftp://me:key@host/a.mp4"), redact_url("https://host/a?id=3&token=5")
    ('ftp://host/a.mp4?***', 'https://host/a?id=3&***')
    """
    if not (scheme := _SCHEME.match(url)):
        return url
    user, path, query = _split(url, scheme)
    pieces = [piece for piece in query.split("&") if piece]
    visible = [piece for piece in map(_redact_parameter, pieces) if piece]
    if user or visible != pieces:
        visible.append(HIDDEN)
    return f"{scheme[0]}{path}{'?' * bool(visible)}{'&'.join(visible)}"


def is_redacted(url: str) -> bool:
    return bool(_SCHEME.match(url)) and url.endswith(HIDDEN)


def redact(text: str) -> str:
    """The message without the secrets in the addresses and headers it quotes.

    >>> redact("no answer from https://me:key@host/v1; Authorization: Bearer sk-12345")
    'no answer from https://host/v1?***; Authorization: Bearer ***'
    """
    return _PAIR.sub(rf"\1{HIDDEN}", _ADDRESS.sub(lambda match: redact_model(match[0]), text))


def redact_model(address: str) -> str:
    """The address without its secrets; with the name of a model after the `#`.

    >>> redact_model("http://me:key@host/v1#qwen/3-VL"), redact_model("http://host/a#token=5")
    ('http://host/v1?***#qwen/3-VL', 'http://host/a')
    """
    server, _, name = address.partition("#")
    is_named = _MODEL_NAME.fullmatch(name) and server.partition("?")[0].endswith("/v1")
    return f"{redact_url(server)}#{name}" if is_named else redact_url(address)


def redact_line(text: str, *, most: int = 200) -> str:
    """A long text is cut between words first: half an address might show a secret."""
    words = " ".join(text[:_LONGEST].split())
    if len(text) > _LONGEST:
        words = words.rpartition(" ")[0] or HIDDEN
    return redact(words)[:most]


def map_texts(value: Any, clean: Callable[[str], str] = redact) -> Any:
    """Every string in a JSON value, names of fields included."""
    if isinstance(value, Mapping):
        return {clean(name): map_texts(inner, clean) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [map_texts(item, clean) for item in value]
    return clean(value) if isinstance(value, str) else value


class SecretFilter:
    """Removes from a server's replies the secrets that were sent to it."""

    def __init__(self, url: str, *keys: str) -> None:
        forms = {
            form for secret in (*keys, *_secrets_in(url)) for form in (secret, unquote(secret))
        }
        patterns = [
            pattern
            for form in sorted(filter(None, forms), key=len, reverse=True)
            for pattern in _patterns(form)
        ]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def __call__(self, text: str) -> str:
        return self._pattern.sub(HIDDEN, text) if self._pattern else text


def _patterns(secret: str) -> Iterator[str]:
    """As it is, percent-encoded in part or in whole, and within base64 at any of three offsets."""
    encoded = (
        "".join(rf"%(?i:{byte:02x})" for byte in letter.encode("utf-8", "replace"))
        for letter in secret
    )
    pairs = zip(map(re.escape, secret), encoded, strict=True)
    plain = "".join(f"(?:{letter}|{other})" for letter, other in pairs)
    if len(secret) < _SHORT:
        yield rf"(?<!\w){plain}(?!\w)"
        return
    yield plain
    for offset in range(3):
        data = bytes(offset) + secret.encode("utf-8", "replace")
        # Letters at both ends also depend on what is around the secret.
        inner = base64.b64encode(data).decode()[-(-offset * 8 // 6) : len(data) * 8 // 6]
        yield "".join(_BASE64.get(letter, re.escape(letter)) for letter in inner)


_BASE64 = {"+": "[+-]", "/": "[/_]"}


class RedactingFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """No record is dropped."""
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
    path, _, query = rest.partition("?")
    if not is_web and "=" not in query and query != HIDDEN:
        return user, rest, ""  # a question mark in a file name
    return user, path, query


def _redact_parameter(piece: str) -> str:
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
    if not (scheme := _SCHEME.match(url)):
        return
    user, _, query = _split(url, scheme)
    if user:
        yield user.partition(":")[2] or user
        yield base64.b64encode(unquote(user if ":" in user else f"{user}:").encode()).decode()
    for piece in query.split("&"):
        name, _, value = piece.partition("=")
        is_hidden = _redact_parameter(piece) != piece
        if is_hidden and (_SECRET.search(name) or len(value) > _SHORT):
            yield value or name
