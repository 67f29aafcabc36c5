from __future__ import annotations

import pytest

from earmark.wall_clock import (
    ClockCorrection,
    camera_time,
    clock_origin,
    describe_began,
    time_of_day,
)

UNKNOWN = ""
MORNING, NOON = "2026-11-16T08:00:00", "2026-11-16T12:00:00"


def test_without_a_correction_the_camera_is_believed():
    assert ClockCorrection().apply([MORNING, UNKNOWN]) == [MORNING, UNKNOWN]


def test_the_earliest_recording_began_at_the_given_time_and_the_others_keep_their_distance():
    times = ClockCorrection(start="2026-11-16 13:00 +02:00").apply([NOON, UNKNOWN, MORNING])
    assert times == ["2026-11-16T17:00:00+02:00", UNKNOWN, "2026-11-16T13:00:00+02:00"]


def test_one_recording_without_a_date_takes_the_given_time():
    assert ClockCorrection(start="2026-11-16 13:00").apply([UNKNOWN]) == ["2026-11-16T13:00:00"]
    assert ClockCorrection(start="2026-11-16 13:00").apply([UNKNOWN] * 2) == [UNKNOWN] * 2


@pytest.mark.parametrize(
    ("offset", "began"),
    [("+02:00", "10:00:00"), ("-0:03:20", "07:56:40"), ("-90", "07:58:30"), ("2:30", "10:30:00")],
)
def test_an_offset_is_added_to_what_the_camera_wrote(offset, began):
    (time,) = ClockCorrection(offset=offset).apply([MORNING])
    assert time_of_day(time, 0.0) == began


@pytest.mark.parametrize("wrong", [{"start": "yesterday"}, {"offset": "two hours"}])
def test_a_clock_that_cannot_be_read_is_named(wrong):
    with pytest.raises(ValueError, match="such as"):
        ClockCorrection(**wrong)


def test_a_container_that_stores_an_instant_is_shown_in_the_zone_of_this_computer(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Europe/Rome")
    time.tzset()
    try:
        began = "2026-11-16T12:00:00+00:00"
        assert time_of_day(began, 61.0) == "13:01:01"
        assert time_of_day(began, 61.0, zone=True) == "13:01:01 +01:00"
        assert describe_began(began, clock_origin(began)) == (
            "2026-11-16 13:00:00 +01:00 (UTC in the file, in the zone of this computer)"
        )
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("began", ["", "nonsense", "9999-12-31T23:59:59"])
def test_an_unknown_or_impossible_time_is_empty(began):
    assert time_of_day(began, 1e9) == ""


@pytest.mark.parametrize(
    ("name", "began"),
    [
        ("holiday.mp4", "2026-11-16T11:00:05+00:00"),
        ("VID_20261116_130004.mp4", "2026-11-16T13:00:05+02:00"),
        ("20261116T163004.mp4", "2026-11-16T16:30:05+05:30"),
        ("DJI_20261116110004_0001_D.MP4", "2026-11-16T11:00:05"),
        ("PXL_20261116_110004123.mp4", "2026-11-16T11:00:05+00:00"),
        ("20251231_235959.mp4", "2026-11-16T11:00:05+00:00"),
        ("20261399_990000.mp4", "2026-11-16T11:00:05+00:00"),
    ],
)
def test_the_name_of_a_file_tells_the_zone_or_that_the_camera_writes_local_time(name, began):
    assert camera_time("2026-11-16T11:00:05+00:00", name) == began


def test_a_zone_in_the_file_is_believed_and_a_correction_is_said():
    assert camera_time("2026-11-16T11:00:05+02:00", "a.mov") == "2026-11-16T11:00:05+02:00"
    assert clock_origin("2026-11-16T11:00:05+02:00") == ""
    assert clock_origin(MORNING, "2026-11-16T13:00:00+02:00") == "corrected"
    assert "as the camera showed it" in clock_origin(MORNING)
