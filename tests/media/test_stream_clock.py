"""The wall clock of a stream whose time stamps jump, wrap, stop and drift."""

from __future__ import annotations

import pytest

from earmark.media.stream_clock import DRIFT_WINDOW, PacketTime, StreamClock

SOUND, VIDEO = 1, 0


def place(clock: StreamClock, stamp: float, arrival: float, *, stream: int = SOUND) -> float:
    return clock.place(PacketTime(stream, stamp, 0.02, arrival))


def anchored(stamp: float = 0.0, arrival: float = 1000.0) -> StreamClock:
    clock = StreamClock()
    clock.anchor([PacketTime(SOUND, stamp, 0.02, arrival)])
    place(clock, stamp, arrival)
    return clock


def test_packets_that_a_server_had_waiting_are_placed_in_the_past():
    clock = StreamClock()
    burst = [PacketTime(SOUND, stamp, 1.0, 1000.0) for stamp in (0.0, 1.0, 2.0)]
    clock.anchor([*burst, PacketTime(SOUND, 3.0, 1.0, 1000.4)])
    assert clock.place(burst[0]) == pytest.approx(997.4)


def test_sound_and_pictures_share_one_clock_unless_their_stamps_have_nothing_in_common():
    clock = StreamClock()
    clock.anchor([PacketTime(VIDEO, 5.0, 0.04, 1000.0), PacketTime(SOUND, 5.0, 0.02, 1000.3)])
    assert clock.offsets[VIDEO] == clock.offsets[SOUND] == 995.0
    clock = StreamClock()
    clock.anchor([PacketTime(VIDEO, 5.0, 0.04, 1000.0), PacketTime(SOUND, 90.0, 0.02, 1000.3)])
    assert place(clock, 90.0, 1000.3) == pytest.approx(1000.3)


def test_lost_packets_leave_a_gap():
    assert place(anchored(), 8.0, 1008.1) == pytest.approx(1008.0)


@pytest.mark.parametrize("stamp", [0.0, 95_443.7, 50.0], ids=["reset", "wrap", "forward"])
def test_a_clock_that_jumps_does_not_move_time(stamp: float):
    clock = anchored(stamp=20.0)
    assert place(clock, stamp, 1000.04) == pytest.approx(1000.04)
    assert place(clock, stamp + 0.02, 1000.06) == pytest.approx(1000.06)
    assert clock.jumps == 1


def test_a_file_keeps_its_gaps_however_fast_it_is_read():
    clock = StreamClock({SOUND: 500.0}, trusts_stamps=True)
    assert [place(clock, stamp, 9.0) for stamp in (0.0, 0.02, 30.0)] == [500.0, 500.02, 530.0]
    assert place(clock, 1.0, 9.0) == pytest.approx(530.02)  # stamps that go back do not repeat time


def test_a_camera_whose_clock_is_slow_is_followed_over_hours():
    clock, slow = anchored(), 0.999
    for second in range(1, 36_001):
        placed = place(clock, second * slow, 1000.0 + second)
        assert 0 <= 1000.0 + second - placed < 5.0 + DRIFT_WINDOW * 0.002
    assert clock.jumps
