"""Days of stream at high speed, with faults drawn at random: bounded, and nothing goes missing.

SOAK_HOURS=24 pytest tests/pipeline/test_watch_soak.py   # two hours of each day by default
"""

from __future__ import annotations

import os
import random
import re
import resource
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from acceptance.model_server import model_server
from earmark.media.packet_ring import PacketRing
from earmark.pipeline.watch import World, watch
from earmark.run.live_rows import gaps
from earmark.run.run import Run
from live_world import DrawnStream, SetClock

MIDNIGHT = datetime(2026, 3, 2).timestamp()
HOUR = 3600
SOAK_HOURS = int(os.environ.get("SOAK_HOURS", "2"))


def draw_day(rng: random.Random, hours: int) -> str:
    """Quiet hours with bouts of work, silence and outages."""
    pieces, length = list[str](), 0
    while length < hours * HOUR:
        sign = rng.choices(".x-!", weights=[6, 3, 1, 1])[0]
        pieces.append(sign * rng.randint(5, 900))
        length += len(pieces[-1])
    return "." + "".join(pieces)[: hours * HOUR - 6] + "!!!!."


def outages(drawing: str) -> list[tuple[int, int]]:
    """First second and end of each."""
    return [match.span() for match in re.finditer("!+", drawing)]


Days = tuple[list[dict[str, Any]], dict[str, str], list[float]]
"""Events, the drawing of each day, and the peak of memory after it in MB."""


def run_days(run: Path, days: int, hours: int) -> Days:
    rng, clock, events = random.Random(3), SetClock(MIDNIGHT), list[dict[str, Any]]()
    drawings, memory = dict[str, str](), list[float]()
    with model_server("500", "drop", *["ok"] * 40, "429:0", then="ok") as server:
        for day in range(days):
            clock.now = MIDNIGHT + day * 24 * HOUR
            drawing = draw_day(rng, hours)
            drawings[f"{datetime.fromtimestamp(clock.now):%Y-%m-%d}"] = drawing

            def open_stream(_: str, ring: PacketRing, __: int, ___: Any, drawing=drawing):
                return DrawnStream(drawing, ring, clock)

            watch(
                ["rtsp://camera/stream"],
                run=run,
                emit=events.append,
                world=World(clock, open_stream),
                model=server.model,
                frontline="energy",
                calls_per_hour=12,
                keep="2d",
            )
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return events, drawings, memory


@pytest.mark.slow
def test_seven_days_with_faults(tmp_path: Path):
    events, drawings, memory = run_days(tmp_path / "run", days=7, hours=SOAK_HOURS)
    check(tmp_path / "run", events, drawings)
    assert memory[-1] - memory[1] < 64  # MB
    files = sum(path.stat().st_size for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert files < 64 << 20


def test_two_short_days_with_faults(tmp_path: Path):
    events, drawings, _ = run_days(tmp_path / "run", days=2, hours=2)
    check(tmp_path / "run", events, drawings)


def check(run_folder: Path, events: list[dict[str, Any]], drawings: dict[str, str]) -> None:
    times = sorted(
        datetime.fromisoformat(event["asked"]).timestamp()
        for event in events
        if event["event"] in ("answer", "failed")
    )
    assert times
    for number, time in enumerate(times):
        assert sum(other < time + HOUR for other in times[number:]) <= 12
    counts = {name: sum(event["event"] == name for event in events) for name in ("pick", "answer",
              "failed", "dropped", "gap")}  # fmt: skip
    with Run(run_folder) as run:
        rows = run.recordings()
        waiting = len(list((run_folder / "spool").glob("*.json")))
        assert counts["pick"] == counts["answer"] + counts["failed"] + counts["dropped"] + waiting
        assert 1 <= len(rows) <= 3  # two days are kept
        for row in rows:  # every outage is a row, and nothing else is
            rows_of_gaps = [(span.start, span.end) for span, _ in gaps(run, row.id)]
            assert rows_of_gaps == outages(drawings[row.began[:10]])
            assert run.heard(row.id).duration <= 24 * HOUR
    assert counts["gap"] == sum(len(outages(drawing)) for drawing in drawings.values())
