"""Attempts that end in time, with servers that would go on for ever."""

from __future__ import annotations

import logging
from concurrent.futures import Future

import httpx
import pytest

from earmark.media.http_client import BodyTooLarge, HttpClient, _wait
from earmark.media.remote_storage import _size_of
from servers import free_port, range_server


@pytest.fixture
def folder(tmp_path):
    """One file to serve."""
    (tmp_path / "a.bin").write_bytes(b"abc" * 1000)
    return tmp_path


def test_a_body_is_had_whole_or_in_chunks(folder):
    client = HttpClient()
    with range_server(folder) as server:
        request = client.request("GET", server.url("a.bin"))
        _, body = client.send(request, seconds=60.0, limit_bytes=3000)
        assert body == b"abc" * 1000
        with client.stream(request, seconds=60.0) as (response, chunks):
            assert b"".join(chunks) == body and response.status_code == 200


def test_a_body_that_is_not_wanted_is_not_read(folder):
    client = HttpClient()
    with range_server(folder, fault="endless") as server:
        request = client.request("GET", server.url("a.bin"))
        reply = client.start(request, seconds=60.0, limit_bytes=1, has_body=lambda _: False)
        assert reply.result()[1] == b""
        with pytest.raises(BodyTooLarge):
            client.send(request, seconds=60.0, limit_bytes=1 << 20)


@pytest.mark.parametrize("fault", ["drip", "stall"])
def test_an_attempt_ends_whatever_the_server_does(folder, fault):
    client = HttpClient()
    with range_server(folder, fault=fault) as server:
        request = client.request("GET", server.url("a.bin"))
        with pytest.raises(TimeoutError, match="no whole answer within 0 s"):
            client.send(request, seconds=0.2, limit_bytes=1)
        with (
            pytest.raises(TimeoutError, match="no whole answer within 0 s"),
            client.stream(request, seconds=0.2),
        ):
            pass


def test_the_address_in_the_log_of_the_library_holds_no_secret(folder, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("httpx"), "filters", [])
    client = HttpClient()
    with range_server(folder) as server, caplog.at_level(logging.INFO, "httpx"):
        url = server.url("a.bin?api-key=hunter2").replace("//", "//me:hunter2@")
        client.send(client.request("GET", url), seconds=60.0, limit_bytes=3000)
    assert server.url("a.bin") in caplog.text
    assert "hunter2" not in caplog.text


def test_a_closed_client_is_closed_once(folder):
    client = HttpClient()
    client.close()
    client.close()


def test_why_nobody_answers_is_said_in_the_words_of_the_system():
    client = HttpClient()
    request = client.request("GET", f"http://127.0.0.1:{free_port()}/")
    with pytest.raises(httpx.ConnectError, match=r"^Connection refused$"):
        client.send(request, seconds=60.0, limit_bytes=1)


def test_a_body_may_be_as_large_as_it_is_allowed_to_be(folder):
    client = HttpClient(headers={"X-Own": "yes"})
    with range_server(folder) as server:
        request = client.request("GET", server.url("a.bin"))
        assert (request.headers["X-Own"], request.headers["Accept-Encoding"]) == ("yes", "identity")
        assert len(client.send(request, seconds=60.0, limit_bytes=3000)[1]) == 3000
        with pytest.raises(BodyTooLarge):
            client.send(request, seconds=60.0, limit_bytes=2999)


def test_who_is_interrupted_wants_the_answer_no_longer():
    class Interrupted(Future):
        def result(self, timeout=None):  # noqa: ARG002
            raise KeyboardInterrupt

    future = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        _wait(future)
    assert future.cancelled()


@pytest.mark.parametrize(
    ("status", "headers", "size"),
    [
        (206, {"Content-Range": "bytes 0-0/77"}, 77),
        (206, {"Content-Range": "bytes 0-0/*"}, None),
        (206, {}, None),
        (416, {"Content-Range": "bytes */0"}, 0),
        (200, {"Content-Length": "0"}, 0),  # no part can be had of it
        (200, {"Content-Length": "77"}, None),  # ranges are not served
    ],
)
def test_how_large_a_served_file_is(status, headers, size):
    assert _size_of(httpx.Response(status, headers=headers)) == size
