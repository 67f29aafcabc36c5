"""MQTT to a real mosquitto, in a process of its own."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest

from earmark.pipeline.mqtt import Mqtt
from live_servers import free_port

PATIENCE = 120.0


@contextmanager
def mosquitto(folder: Path, port: int) -> Iterator[str]:
    command = shutil.which(
        "mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin:/opt/homebrew/sbin"
    )
    if not command:
        pytest.skip("needs mosquitto")
    passwords, settings = folder / "passwords", folder / "mosquitto.conf"
    passwords.write_text("me:hunter2\n")
    passwords.chmod(0o600)
    subprocess.run(["mosquitto_passwd", "-U", str(passwords)], check=True)
    user = "\nuser root" if sys.platform == "linux" else ""
    settings.write_text(f"listener {port} 127.0.0.1\npassword_file {passwords}{user}\n")
    with subprocess.Popen([command, "-c", str(settings)], stderr=subprocess.DEVNULL) as process:
        try:
            yield f"mqtt://me:hunter2@127.0.0.1:{port}"
        finally:
            process.kill()


class Subscriber:
    """All messages of a broker, retained ones first."""

    def __init__(self, port: int) -> None:
        self.messages: queue.Queue[tuple[str, str, bool]] = queue.Queue()
        self.seen: dict[str, str] = {}
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        self.client.username_pw_set("me", "hunter2")
        self.client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
        self.client.on_message = lambda _, __, message: self.messages.put(
            (message.topic, message.payload.decode(), message.retain)
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.client.connect("127.0.0.1", port)
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        self.client.loop_start()

    def wait_for(self, topic: str, text: str) -> None:
        while text not in self.seen.get(topic, ""):
            name, payload, _ = self.messages.get(timeout=PATIENCE)
            self.seen[name] = payload

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def test_home_assistant_finds_the_source_and_its_states(tmp_path: Path) -> None:
    port = free_port()
    with mosquitto(tmp_path, port) as address:
        subscriber, mqtt = Subscriber(port), Mqtt(address, "/runs/hall")
        mqtt.start()
        top = mqtt.topic
        subscriber.wait_for(f"{top}/status", "online")
        for event in (
            {"event": "source", "source": "front door", "state": "listening"},
            {"event": "answer", "source": "front door", "caption": "A dog. " * 100},
            {"event": "alert", "source": "front door", "term": "glass breaking"},
            {"event": "listening", "source": "front door", "calls_left": 7},
        ):
            mqtt.send(event)
        subscriber.wait_for(f"{top}/front_door/connected", "ON")
        subscriber.wait_for(f"{top}/front_door/answer", "A dog.")
        subscriber.wait_for(f"{top}/front_door/alert", "glass breaking")
        subscriber.wait_for(f"{top}/front_door/listening", "7")
        answer = json.loads(subscriber.seen[f"{top}/front_door/answer"])
        assert len(answer["state"]) <= 255 and answer["caption"] == "A dog. " * 100
        check_discovery(subscriber.seen, top)
        mqtt.close(PATIENCE)
        subscriber.wait_for(f"{top}/status", "offline")
        subscriber.close()


def check_discovery(seen: dict[str, str], top: str) -> None:
    """By the rules of Home Assistant's MQTT discovery."""
    configs = {t: json.loads(p) for t, p in seen.items() if t.startswith("homeassistant/")}
    kinds = [topic.split("/")[1] for topic in configs]
    assert sorted(kinds) == ["binary_sensor", "binary_sensor", "sensor", "sensor"]
    for topic, config in configs.items():
        assert len(topic.split("/")) == 5 and topic.endswith("/config")
        assert config["state_topic"] in seen
        assert config["availability_topic"] == f"{top}/status"
        assert config["device"]["identifiers"] and config["unique_id"]
    assert len({config["unique_id"] for config in configs.values()}) == 4


def test_a_broker_that_comes_late_gets_what_was_sent_before(tmp_path: Path) -> None:
    port = free_port()
    mqtt = Mqtt(f"mqtt://me:hunter2@127.0.0.1:{port}", "/runs/hall")
    mqtt.start()
    mqtt.send({"event": "alert", "source": "hall", "term": "scream"})  # returns at once
    with mosquitto(tmp_path, port):
        subscriber = Subscriber(port)
        subscriber.wait_for(f"{mqtt.topic}/events", "scream")
        subscriber.close()
        mqtt.close(PATIENCE)


def test_the_broker_says_when_earmark_is_gone(tmp_path: Path) -> None:
    port = free_port()
    program = (
        "import sys, time; from earmark.pipeline.mqtt import Mqtt;"
        "m = Mqtt(sys.argv[1], '/runs/hall'); m.start(); time.sleep(600)"
    )
    with mosquitto(tmp_path, port) as address:
        subscriber, topic = Subscriber(port), Mqtt(address, "/runs/hall").topic
        with subprocess.Popen([sys.executable, "-c", program, address]) as process:
            subscriber.wait_for(f"{topic}/status", "online")
            process.kill()
        subscriber.wait_for(f"{topic}/status", "offline")
        subscriber.close()


@pytest.mark.parametrize("address", ["http://host", "mqtt://", "host:1883"])
def test_what_is_no_broker(address: str) -> None:
    with pytest.raises(ValueError, match="MQTT broker"):
        Mqtt(address, "/runs/hall")


def test_the_node_is_the_same_for_every_process_and_differs_between_runs() -> None:
    nodes: list[Any] = [Mqtt("mqtt://h", run).node for run in ("/a/hall", "/a/hall", "/b/hall")]
    assert nodes[0] == nodes[1] != nodes[2]
