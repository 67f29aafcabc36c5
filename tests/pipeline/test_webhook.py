"""Webhooks to a real server: signed, in order, sent again, never waited for."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from earmark.pipeline.outlets import Outlets
from earmark.pipeline.webhook import MOST_WAITING, Webhook
from webhook_receiver import PATIENCE, receiver

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()


def deliver(address: str, count: int, secret: str = SECRET) -> Webhook:
    webhook = Webhook(address, secret)
    webhook.start()
    for number in range(count):
        webhook.send({"event": "alert", "number": number})
    webhook.close(PATIENCE)
    return webhook


def test_an_event_is_signed_as_in_standard_webhooks() -> None:
    with receiver() as server:
        deliver(server.address, 1)
    ((headers, body),) = server.received
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(b"0123456789abcdef01234567", signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()


def test_what_fails_is_sent_again_with_the_same_id_and_in_order() -> None:
    with receiver(500, 429) as server:
        assert deliver(server.address, 3).dropped == 0
    assert [event["number"] for event in server.events()] == [0, 0, 0, 1, 2]
    assert len({headers["webhook-id"] for headers, _ in server.received}) == 3


def test_what_is_refused_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    with receiver(410) as server:
        assert deliver(server.address, 2, secret="").dropped == 1
    assert [event["number"] for event in server.events()] == [0, 1]
    assert "webhook-signature" not in server.received[0][0]
    assert "refused with status 410" in caplog.text and "hunter2" not in caplog.text


def test_a_receiver_that_hangs_delays_nobody_and_the_queue_is_bounded() -> None:
    with receiver() as server:
        server.go_on.clear()
        webhook = Webhook(server.address)
        webhook.start()
        for number in range(MOST_WAITING + 500):
            webhook.send({"event": "answer", "number": number})
        assert not server.received  # none was waited for
        assert webhook.dropped == 500
        server.go_on.set()
        webhook.close(PATIENCE)
    assert server.events()[-1]["number"] == MOST_WAITING + 499


def test_frequent_events_are_not_posted() -> None:
    with receiver() as server, Outlets(lambda _: None, Webhook(server.address)) as outlets:
        for name in ("listening", "pick", "gap"):
            outlets({"event": name})
    assert [event["event"] for event in server.events()] == ["gap"]


@pytest.mark.parametrize(
    "address, secret", [("ftp://host/a", ""), ("https://", ""), ("https://host/a", "whsec_%")]
)
def test_what_is_no_webhook(address: str, secret: str) -> None:
    with pytest.raises(ValueError, match="webhook"):
        Webhook(address, secret)
