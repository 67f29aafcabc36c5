"""A whole watch in this process, on sources that are made up and a clock that they set."""

from __future__ import annotations

import sqlite3
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

NOON = datetime(2026, 3, 2, 12).timestamp()
DAY = "." * 60 + "x" * 8 + "." * 120 + "x" * 4 + "." * 108


class Watched:
    def __init__(self, run: Path) -> None:
        self.run, self.events = run, list[dict[str, Any]]()

    def __call__(self, *drawings: str, start: float = NOON, **choices: Any) -> Watched:
        clock = SetClock(start)
        streams = iter(drawings)

        def open_stream(_: str, ring: PacketRing, rate: int, __: Any) -> DrawnStream:
            assert rate == 16_000
            return DrawnStream(next(streams), ring, clock)

        addresses = [f"rtsp://me:hunter2@camera{n}/stream" for n, _ in enumerate(drawings)]
        world = World(clock, open_stream)
        chosen = {"latency": 8.0, "frontline": "energy", **choices}
        watch(addresses, run=self.run, emit=self.events.append, world=world, **chosen)
        return self

    def of(self, event: str) -> list[dict[str, Any]]:
        return [row for row in self.events if row["event"] == event]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "run")


def test_a_watch_is_a_run_like_any_other(watched: Watched):
    with model_server(then="ok:A hand knocks.") as server:
        watched(DAY, model=server.model, calls_per_hour=360, burst=8)
        assert len(server.requests) == len(watched.of("answer"))
    with Run(watched.run) as run:
        (row,) = run.recordings()
        assert row.name == "stream 2026-03-02 00:00" and row.path.startswith(
            "rtsp://camera0/stream"
        )
        assert row.duration == pytest.approx(43_200 + len(DAY), abs=8)
        heard, picks = run.heard(row.id), run.picks(row.id)
        assert len(heard) == 10_800 + len(DAY) // 4
        assert heard.rates[10_800:].sum() > 0 and heard.rates[:10_800].sum() == 0
        assert heard.level and heard.level.values[43_200 + 62] > -40
        assert 1 <= len(picks) <= 8 + 1 + len(DAY) // 10
        captions = [pick.caption for pick in picks if pick.caption]
        waiting = len(list((watched.run / "spool").glob("*")))  # the clock stopped with the stream
        assert set(captions) == {"A hand knocks."} and len(captions) + waiting == len(picks)
        assert all(43_200 <= pick.start < row.duration for pick in picks)
        assert all(run.has_thumbnail(row.id, pick.span) for pick in picks)
        assert run.search("knocks")
    assert (watched.run / "report.html").is_file()


def test_no_secret_of_an_address_is_printed_or_stored(watched: Watched):
    watched("....!!!!....", model=None)
    assert "hunter2" not in repr(watched.events)
    for path in watched.run.rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes()


def test_the_rate_is_held_over_all_sources_and_restarts(watched: Watched):
    with model_server() as server:
        for hour in range(3):
            start = NOON + hour * 600
            watched(
                "x" * 600, "x" * 600, start=start, model=server.model, calls_per_hour=30, burst=2
            )
    times = sorted(datetime.fromisoformat(e["time"]).timestamp() for e in watched.of("pick"))
    assert times
    for number, time in enumerate(times):
        later = [other for other in times[number:] if other < time + 3600]
        assert len(later) <= 90
        minute = [other for other in later if other < time + 60]
        assert len(minute) <= 4 + 2


def test_gaps_are_rows_and_stay_in_the_timeline(watched: Watched):
    watched("." * 40 + "!" * 100 + "." * 40, model=None)
    assert [event["seconds"] for event in watched.of("gap")] == [100.0]
    with Run(watched.run) as run:
        (row,) = run.recordings()
        (first, (gap, reason)) = gaps(run, row.id)
        assert (first[0].end, first[1]) == (43_200.0, "not watched yet")
        assert (gap.start, gap.end, reason) == (43_240.0, 43_340.0, "unplugged")
        assert row.duration == pytest.approx(43_380, abs=4)
    watched("." * 40, start=NOON + 1000, model=None)
    with Run(watched.run) as run:
        (*_, last) = gaps(run, row.id)
        assert last[1] == "earmark was not running" and last[0].end == 44_200.0


def test_parts_follow_each_other_and_old_ones_are_forgotten(watched: Watched):
    drawing = "." * 40 + "!" * 20 + ".." * 20 + DAY[:200]
    watched(drawing, model=None, calls_per_hour=900, part="2m", keep="2m", keep_clips=True)
    with Run(watched.run) as run:
        starts = [row.began[11:16] for row in run.recordings()]
    assert starts == ["12:02", "12:04"]
    assert watched.of("forget")[0]["parts"] == ["stream 2026-03-02 12:00"]
    clips = list(watched.run.glob("clips/*/*.mp4"))
    assert clips and len({clip.parent for clip in clips}) <= 2


def test_a_source_without_sound_is_silence_not_a_gap(watched: Watched):
    watched("-" * 120, model=None)
    assert not watched.of("gap")
    with Run(watched.run) as run:
        (row,) = run.recordings()
        assert row.duration == pytest.approx(43_320, abs=4)


def test_picks_wait_for_a_server_that_is_down(watched: Watched):
    with model_server() as server:
        address = server.model
    watched(DAY, model=address, calls_per_hour=360)
    waiting = len(list((watched.run / "spool").glob("*.json")))
    assert waiting == len(watched.of("pick")) > 0 and not watched.of("answer")
    assert watched.of("model")[0]["state"] == "unreachable"
    port = int(address.partition("127.0.0.1:")[2].partition("/")[0])
    with model_server(port=port) as server:
        watched("." * 60, start=NOON + 4000, model=address, calls_per_hour=360)
    assert len(watched.of("answer")) >= waiting
    assert not list((watched.run / "spool").glob("*.json"))


def test_a_refused_picture_is_a_failed_pick_and_not_asked_again(watched: Watched):
    with model_server(then="400") as server:
        watched(DAY, model=server.model, calls_per_hour=360)
        assert len(server.requests) == len(watched.of("failed")) == len(watched.of("pick"))
    with Run(watched.run) as run:
        assert {pick.status for pick in run.picks(run.recordings()[0].id)} == {"failed"}


def test_a_full_disk_keeps_watching_and_says_so(watched: Watched, monkeypatch: pytest.MonkeyPatch):
    """The first writes fail as on a full disk; later ones find room."""
    store, faults = Run.add_pick, iter([True] * 2)

    def add_pick(run: Run, *rest: Any) -> None:
        if next(faults, False):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            from earmark.errors import RunError

            raise RunError("no room left for the run") from error
        store(run, *rest)

    monkeypatch.setattr(Run, "add_pick", add_pick)
    watched(DAY * 2, model=None, calls_per_hour=900)
    assert len(watched.of("dropped")) == 2 and watched.of("full") and watched.of("room")
    with Run(watched.run) as run:
        assert run.picks(run.recordings()[0].id)
