"""Publishes events by MQTT, and describes the watch to Home Assistant (extra `mqtt`, paho-mqtt).

earmark/NODE/status                 online, or offline by the broker if earmark is gone
earmark/NODE/events                 every event
earmark/NODE/SOURCE/connected       ON or OFF
earmark/NODE/SOURCE/alert           the last alert; likewise answer, listening
homeassistant/…/config              what Home Assistant makes of these (MQTT discovery)
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from earmark.errors import MissingExtra
from earmark.redaction import redact_url
from earmark.version import VERSION

DISCOVERY = "homeassistant"
ALERT_SECONDS = 30
"""How long Home Assistant shows an alert as on."""

LONGEST_STATE = 250
"""Characters of a state in Home Assistant; the whole answer is an attribute."""

MOST_WAITING = 1000
"""Messages that wait for a broker that is gone; paho drops further ones."""

PORTS = {"mqtt": 1883, "mqtts": 8883}


@dataclass(slots=True, eq=False)
class Mqtt:
    """One connection, which paho opens again when it is lost; publishing never waits."""

    address: str
    """mqtt(s)://USER:PASSWORD@HOST:PORT"""
    run: str
    """Path of the run: the same for every process that continues it."""
    _client: Any = None
    _described: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        parts = urlsplit(self.address)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("an MQTT broker is an address such as mqtt://user:password@host:1883")

    @property
    def node(self) -> str:
        name = self.run.rstrip("/").rpartition("/")[2]
        return f"{_slug(name)}_{hashlib.sha256(self.run.encode()).hexdigest()[:6]}"

    @property
    def topic(self) -> str:
        return f"earmark/{self.node}"

    def start(self) -> None:
        """Connect in paho's thread; a broker that is not there is waited for."""
        try:
            from paho.mqtt import client as paho
            from paho.mqtt.enums import CallbackAPIVersion
        except ModuleNotFoundError as error:
            raise MissingExtra("MQTT needs paho-mqtt: pip install 'earmark[mqtt]'") from error
        parts = urlsplit(self.address)
        client = paho.Client(CallbackAPIVersion.VERSION2, f"earmark_{self.node}")
        client.max_queued_messages_set(MOST_WAITING)
        client.reconnect_delay_set(1, 60)
        if parts.username:
            client.username_pw_set(unquote(parts.username), unquote(parts.password or ""))
        if parts.scheme == "mqtts":
            client.tls_set()
        client.will_set(f"{self.topic}/status", "offline", qos=1, retain=True)
        client.on_connect = self._on_connect
        client.connect_async(str(parts.hostname), parts.port or PORTS[parts.scheme])
        client.loop_start()
        self._client = client

    def send(self, event: Mapping[str, Any]) -> None:
        """Returns at once."""
        self._publish(f"{self.topic}/events", event)
        source = str(event.get("source", ""))
        if not source:
            return
        self._describe(source)
        topic, kind = f"{self.topic}/{_slug(source)}", str(event["event"])
        if kind == "source":
            connected = "ON" if event.get("state") == "listening" else "OFF"
            self._publish(f"{topic}/connected", connected, retain=True)
        elif kind in ("alert", "answer", "listening"):
            short = str(event.get("term") or event.get("caption", ""))[:LONGEST_STATE]
            self._publish(f"{topic}/{kind}", {"state": short, **event}, retain=kind != "alert")

    def close(self, patience: float) -> None:
        if self._client is None:
            return
        last = self._client.publish(f"{self.topic}/status", "offline", qos=1, retain=True)
        if self._client.is_connected():
            last.wait_for_publish(patience)
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, client: Any, _: Any, __: Any, reason: Any, ___: Any) -> None:
        if not reason.is_failure:
            client.publish(f"{self.topic}/status", "online", qos=1, retain=True)

    def _publish(self, topic: str, value: Any, *, retain: bool = False) -> None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        self._client.publish(topic, text, qos=1, retain=retain)

    def _describe(self, source: str) -> None:
        if source in self._described:
            return
        self._described.add(source)
        for component, name, config in entities(self.topic, self.node, source):
            topic = f"{DISCOVERY}/{component}/earmark_{self.node}/{_slug(source)}_{name}/config"
            self._publish(topic, config, retain=True)


def entities(topic: str, node: str, source: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Component, name and discovery message of each entity of a source."""
    slug = _slug(source)
    shared = {
        "availability_topic": f"{topic}/status",
        "device": {
            "identifiers": [f"earmark_{node}_{slug}"],
            "name": f"earmark {source}",
            "manufacturer": "earmark",
            "sw_version": VERSION,
        },
    }

    def entity(component: str, key: str, **config: Any) -> tuple[str, str, dict[str, Any]]:
        unique = f"earmark_{node}_{slug}_{key}"
        return component, key, {"unique_id": unique, "object_id": unique, **config, **shared}

    state, template = f"{topic}/{slug}", "{{ value_json.state }}"
    return [
        entity("binary_sensor", "connected", name="Connected", device_class="connectivity",
               state_topic=f"{state}/connected"),
        entity("binary_sensor", "alert", name="Alert", device_class="sound",
               state_topic=f"{state}/alert", value_template="ON", off_delay=ALERT_SECONDS,
               json_attributes_topic=f"{state}/alert"),
        entity("sensor", "answer", name="Last answer", state_topic=f"{state}/answer",
               value_template=template, json_attributes_topic=f"{state}/answer"),
        entity("sensor", "calls_left", name="Calls left", state_topic=f"{state}/listening",
               value_template="{{ value_json.calls_left }}", state_class="measurement"),
    ]  # fmt: skip


def _slug(text: str) -> str:
    """For topics and ids: letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", redact_url(text).lower()).strip("_") or "source"
