"""A watch in a real browser while it runs: its sources, the rate, and a timeline that grows."""

from __future__ import annotations

import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")
pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from chromium import CHROMIUM, DRIVER, chromium
from earmark.media.packet_ring import PacketRing
from earmark.pipeline.watch import World, watch
from live_world import DrawnStream, SetClock
from served import TOKEN, run_named, serving

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="Debian's chromium and chromium-driver are not installed"
)
NOON = datetime(2026, 3, 2, 12).timestamp()
PATIENCE = 300.0
HOUR = "." * 60 + "x" * 8 + "." * 52
DRAWING = HOUR * 3 + "!" * 100 + HOUR * 3


class Stage:
    """Runs a watch in a thread, up to the second that it is let go to."""

    def __init__(self, run: Path) -> None:
        self.may_go_on = threading.Event()
        self.waits = threading.Event()
        self.thread = threading.Thread(target=self._watch, args=(run,), daemon=True)
        self.thread.start()

    def _watch(self, run: Path) -> None:
        clock = SetClock(NOON)

        def open_stream(_: str, ring: PacketRing, __: int, ___: Any) -> DrawnStream:
            return DrawnStream(DRAWING, ring, clock)

        watch(
            ["rtsp://camera/stream"], run=run, emit=self._emit, world=World(clock, open_stream),
            frontline="energy", latency=8.0, calls_per_hour=60,
        )  # fmt: skip

    def _emit(self, event: dict[str, Any]) -> None:
        if event["event"] == "gap":
            self.waits.set()
            assert self.may_go_on.wait(PATIENCE)


def test_the_page_of_a_watch_follows_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "hall")
    assert stage.waits.wait(PATIENCE)
    with serving(tmp_path) as client, chromium(tmp_path / "profile") as driver:
        wait = WebDriverWait(driver, PATIENCE)
        run = run_named(client, "hall")
        driver.get(f"{client.base_url}/?token={TOKEN}")
        driver.get(f"{client.base_url}/run/{run}")

        def says(selector: str, words: str) -> None:
            wait.until(lambda d: words in d.find_element(By.CSS_SELECTOR, selector).text)

        says(".live", "watching")
        says(".live", "60 calls per hour")
        says(".sources", "listening")
        wait.until(lambda d: d.find_elements(By.CSS_SELECTOR, ".rows > *"))
        (row,) = client.get(f"/api/runs/{run}/recordings").json()["rows"]
        driver.get(f"{client.base_url}/run/{run}/{row['row']['id']}")
        line = wait.until(lambda d: d.find_element(By.CSS_SELECTOR, "canvas.time-line"))
        wait.until(lambda _: line.get_attribute("aria-valuemax"))
        before = int(line.get_attribute("aria-valuemax"))
        assert "shows 11:0" in line.get_attribute("aria-description")  # the last hour
        stage.may_go_on.set()
        wait.until(lambda _: int(line.get_attribute("aria-valuemax")) > before + 100)
        stage.thread.join(PATIENCE)
        timeline = client.get(
            f"/api/runs/{run}/recordings/{row['row']['id']}/timeline",
            params={"start": 43_000, "end": 44_000, "cells": 100},
        ).json()
        assert [gap["text"] for gap in timeline["gaps"]] == ["not watched yet", "unplugged"]
        driver.get(f"{client.base_url}/run/{run}")
        says(".live", "not running")
        errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not errors
