"""Where the events of a watch go besides its caller: a webhook, an MQTT broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from earmark.pipeline.mqtt import Mqtt
from earmark.pipeline.webhook import Webhook
from earmark.settings import Watching

Emit = Callable[[dict[str, Any]], None]

FREQUENT = ("listening", "pick")
"""Events that no webhook gets."""

PATIENCE = 10.0
"""Seconds for which the last events are delivered."""


class Outlet(Protocol):
    """`send` returns at once, whatever the receiver does."""

    def start(self) -> None: ...

    def send(self, event: Mapping[str, Any]) -> None: ...

    def close(self, patience: float) -> None: ...


@dataclass(slots=True)
class Outlets:
    """Emits to the caller first; `with` delivers the last events at the end."""

    emit: Emit
    webhook: Webhook | None = None
    mqtt: Mqtt | None = None

    @classmethod
    def open(cls, settings: Watching, run: Path, emit: Emit) -> Outlets:
        webhook = settings.webhook and Webhook(settings.webhook, settings.webhook_secret or "")
        mqtt = settings.mqtt and Mqtt(settings.mqtt, str(run.resolve()))
        return cls(emit, webhook or None, mqtt or None)

    def __call__(self, event: dict[str, Any]) -> None:
        self.emit(event)
        if self.webhook and event["event"] not in FREQUENT:
            self.webhook.send(event)
        if self.mqtt:
            self.mqtt.send(event)

    def __enter__(self) -> Outlets:
        for outlet in self._outlets():
            outlet.start()
        return self

    def __exit__(self, *_: object) -> None:
        for outlet in self._outlets():
            outlet.close(PATIENCE)

    def _outlets(self) -> list[Outlet]:
        return [outlet for outlet in (self.webhook, self.mqtt) if outlet]
