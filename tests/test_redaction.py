"""What is secret stays out of everything; what says which file is meant stays in."""

from __future__ import annotations

import base64
import logging
import re
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.errors import UnreadableFile, summarise
from earmark.media import Source, find
from earmark.media.source import absolute_path, name_of, stored_path
from earmark.media.source_listing import Shard
from earmark.redaction import (
    HIDDEN,
    RedactingFilter,
    SecretFilter,
    is_redacted,
    redact,
    redact_line,
    redact_url,
)

SIGNED = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA&X-Amz-Date=20260101T000000Z"
HIDES = {
    "https://me:hunter2@host/a.mp4": "https://host/a.mp4?***",
    "https://hunter2@host": "https://host?***",
    "ftp://me:hunter2@host/a.mp4": "ftp://host/a.mp4?***",
    "s3://key:hunter2@bucket/a#1.mp4": "s3://bucket/a#1.mp4?***",
    "http://me:hun/ter2@host/a.mp4": "http://host/a.mp4?***",
    "http://me:hun?ter2@host/a.mp4?token=x": "http://host/a.mp4?***",
    "http://me:hun?ter2@host/a.mp4?id=3": "http://host/a.mp4?id=3&***",
    "https://me:hunter2#1@host/a.mp4#t=3": "https://host/a.mp4?***",
    f"https://host/a.mp4?{SIGNED}&X-Amz-Signature=hunter2": "https://host/a.mp4?***",
    "https://host/a.mp4?sv=2022&se=2026-01-01&sp=r&sig=hunter2": "https://host/a.mp4?***",
    "https://host/a.mp4?Expires=1&Key-Pair-Id=K&Signature=hunter2": "https://host/a.mp4?***",
    "https://host/a?id=3&api-key=hunter2&v=a%20b": "https://host/a?id=3&v=a%20b&***",
    "https://host/a?KEY=hunter2": "https://host/a?***",
    "https://host/a?access_token=hunter2#token=hunter2": "https://host/a?***",
    "http://[::1]:80/v1?apikey=hunter2": "http://[::1]:80/v1?***",
}
KEEPS = (
    "cam/a.mp4",
    "cam/what?token=1.mp4",
    "C:/a.mp4",
    "s3://bucket/what?.mp4",
    "s3://bucket/a@b.mp4",
    "https://host/a@b.mp4?id=17&part=2",
    "https://host/get?key=day%201/a.mp4",
    "https://host/a?n=12&at=2026-01-01",
)


@pytest.mark.parametrize(("url", "shown"), HIDES.items())
def test_what_is_secret_in_an_address_is_hidden_and_leaves_a_mark(url, shown):
    assert redact_url(url) == shown == redact_url(shown)
    assert is_redacted(shown)
    assert redact(f"no answer ({url}); {url}, again") == f"no answer ({shown}); {shown}, again"


@pytest.mark.parametrize("url", KEEPS)
def test_what_is_not_secret_is_kept(url):
    assert redact_url(url) == url
    assert not is_redacted(url)


def test_a_value_nobody_knows_is_told_from_others_and_not_shown():
    one, other = (redact_url(f"https://host/a?q={word}") for word in ("hunter2", "hunter3"))
    assert one != other and is_redacted(one)
    assert "hunter" not in one + other
    assert redact_url(one) == one


@pytest.mark.parametrize(
    "said",
    [
        "Authorization: Bearer sk-hunter2",
        '{"Authorization": "Basic aHVudGVyMg=="}',
        "got the header 'bearer sk-hunter2'",
        "cannot GET /v1?x=1&api-key=hunter2&y=2",
    ],
)
def test_headers_and_parameters_in_a_message_are_hidden(said):
    assert "hunter2" not in redact(said) and "aHVudGVyMg" not in redact(said)
    assert "***" in redact(said)


def test_a_message_without_secrets_is_left_alone():
    for said in ("Basic kitchen tools; a bearer carries a box", "no key: https://host/a?id=1."):
        assert redact(said) == said


def test_a_server_repeats_no_secret_in_any_form():
    clean = SecretFilter("http://me:hunt%20er2@host/v1?api-key=sesame", "sk-1234")
    said = "hunt er2, hunt%20er2, bWU6aHVudCBlcjI=, sesame, sk-1234"
    assert clean(said) == ", ".join(["***"] * 5)
    assert clean("me, host and api-key are no secrets") == "me, host and api-key are no secrets"


@pytest.mark.parametrize("before", ["", "x", "Bearer ", "key="])
@pytest.mark.parametrize("after", ["", ";", " and more"])
def test_a_server_repeats_no_key_in_base64_or_percent_encoded(before, after):
    key = "sk-Proj/+4711?x=é~"
    clean, said = SecretFilter("http://host", key), f"{before}{key}{after}"
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        cleaned = clean(encode(said.encode()).decode())
        assert "***" in cleaned and len(cleaned) <= 3 + 4 * (len(before) + len(after) + 6) / 3
    every = "".join(f"%{byte:02x}" for byte in key.encode())
    for text in (quote(key, safe=""), quote(key), every):
        assert clean(f"{before}{text}{after}") == f"{before}***{after}"


def test_a_short_secret_is_cut_out_where_it_stands_alone():
    assert SecretFilter("http://me:an@host")("a pan and an egg") == "a pan and *** egg"


def test_nothing_is_cut_where_nothing_is_secret():
    assert SecretFilter("http://host/v1", "")("A hand stirs.") == "A hand stirs."


def test_a_library_logs_no_secret(caplog):
    logger = logging.getLogger("earmark.test.redaction")
    logger.addFilter(RedactingFilter())
    with caplog.at_level(logging.INFO):
        logger.info("GET %s %d", "https://me:hunter2@host/a", 200)
    assert caplog.messages == ["GET https://host/a?*** 200"]


def test_an_error_of_a_library_is_summarised_without_secrets():
    assert summarise(OSError("cannot\n reach ftp://me:key@host/")) == "cannot reach ftp://host/?***"
    assert summarise(OSError()) == "OSError"


def test_a_recording_is_known_by_its_address_without_secrets():
    source = Source(("https://me:key@host/a.mp4?token=1", "b.mp4"))
    assert source.paths == ("https://host/a.mp4?***", "b.mp4")
    assert source.name == "https://host/a.mp4?*** and 1 more"
    assert stored_path(source.uris[0]) == source.path
    assert absolute_path(source.uris[0]) == source.uris[0], "still to be opened"
    assert name_of("https://me:key@host") == "host"


def test_an_address_signed_anew_stays_in_its_shard():
    signed = [Source((f"https://host/a.mp4?X-Amz-Signature={n}",)) for n in range(8)]
    assert len({Shard(1, 2).holds(source) for source in signed}) == 1


def test_two_recordings_that_differ_in_secrets_alone_are_refused():
    paths = [f"https://host/get?session={n}" for n in (1, 2)]
    with pytest.raises(
        UnreadableFile, match=r"two addresses are both https://host/get\?\*\*\* once"
    ):
        find(paths)
    assert len(find([f"https://host/get?q=word{n}" for n in (1, 2)])) == 2


def test_the_address_of_a_model_keeps_its_name_and_no_secret():
    told = redact("ask http://me:hunter2@host/v1?api-key=sesame#qwen/3-VL, or none")
    assert told == "ask http://host/v1?***#qwen/3-VL, or none"


def redact_slowly(text: str) -> str:
    """Quadratic: tries every letter as the start of an address, and of the name of a parameter."""
    address = re.compile(r"[a-z][a-z0-9+.-]+://[^\s\"'<>]*[^\s\"'<>)\].,;:]", re.IGNORECASE)
    pair = re.compile(
        r"(authorization[\"']?\s*[:=]\s*[\"']?(?:\w+\s+)?|\bbearer\s+(?=\S*\d)"
        r"|\b[\w-]*(?:api[-_]?key|access[-_]?token|password|secret|signature)=)[^\s\"',;&]{6,}",
        re.IGNORECASE,
    )
    return pair.sub(rf"\1{HIDDEN}", address.sub(lambda match: redact_url(match[0]), text))


PIECES = [*"aZ9-_.:/@=&?;,\"' \n", "http", "://", "password", "api-key", "authorization", "bearer "]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_the_linear_patterns_redact_as_the_quadratic_ones_do(text):
    assert redact(text) == redact_slowly(text)


def seconds(text: str) -> float:
    """The least processor time of three to redact `text`, in an address and outside one."""
    times = []
    for _ in range(3):
        start = time.thread_time()
        redact(text)
        redact(f"https://{text}")
        redact_url(f"https://host/?{text}")
        SecretFilter("http://me:hunter2@host", "sk-1234")(text)
        times.append(time.thread_time() - start)
    return min(times)


@pytest.mark.parametrize(
    "unit",
    ["a", ".", "/", "a@", "a-", "a:", "ab://", '"ab://', "a&", "authorization: ", "bearer a", " "],
)
def test_redacting_takes_linear_time(unit):
    size = 1 << 12
    short, long = (seconds(unit * (count // len(unit))) for count in (size, 8 * size))
    assert long < 24 * short, "8 if the time is linear, 64 if it is quadratic"
    redact(unit * (1_000_000 // len(unit)))


def test_a_long_message_is_cut_between_words_before_it_is_redacted():
    secret = "https://me:hunter2@host/a"
    for start in range(9_960, 10_001):
        text = f"https://host/?token={'a' * (start - 21)} {secret} and {'more ' * 9}"
        assert "hunter" not in redact_line(text)
    assert redact_line("a b\n" * 9_000) == ("a b " * 50)
    assert redact_line("a" * 1_000_000) == HIDDEN
