"""The flow over real files: what is heard, what is chosen, what is said of the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

import av
import numpy as np
import pytest

from earmark import Selection, plan, select
from earmark.errors import MediaError
from earmark.media import Source, find
from earmark.pipeline import select as select_module
from earmark.pipeline.listen import listen
from earmark.pipeline.session import open_session
from making import AudioPlan, make_video

CLICKS = [9.0, 9.5, 25.0, 41.3, 41.9]


@pytest.fixture(scope="module")
def clicking(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("media") / "clicking.mp4"
    make_video(path, duration=60.0, clicks=CLICKS)
    return path


@pytest.fixture(scope="module")
def silent(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("media") / "silent.mp4"
    make_video(path, duration=40.0, clicks=[])
    return path


@pytest.fixture(scope="module")
def mute(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("media") / "mute.mp4"
    make_video(path, duration=20.0, has_audio=False)
    return path


@pytest.fixture
def unheard(monkeypatch) -> None:
    """Nobody may listen."""

    def listen_each(*_: object, **__: object) -> NoReturn:
        raise AssertionError("somebody listened")

    monkeypatch.setattr(select_module, "listen_each", listen_each)


def starts(selection: Selection) -> list[float]:
    return [pick.start for chosen in selection.recordings for pick in chosen.picks]


@pytest.mark.parametrize("nothing", [[], (), ""])
def test_nothing_given_is_said(nothing):
    with pytest.raises(ValueError, match="no recording was given: name a file, a folder"):
        select(nothing)


def test_a_folder_without_recordings_is_told_as_on_the_command_line(tmp_path):
    with pytest.raises(MediaError, match="is a directory with no media in it; name a media file"):
        select(tmp_path)


@pytest.mark.parametrize("frontline", ["energy", "flux", "log-mel"])
def test_the_clicks_are_picked_and_the_instant_is_the_click(clicking, frontline):
    selection = select([clicking], budget="3", rule="rank", frontline=frontline)
    (chosen,) = selection.recordings
    assert starts(selection) == [8.0, 24.0, 40.0]
    for pick in chosen.picks:
        assert min(abs(pick.instant - click) for click in CLICKS) < 0.06
    assert chosen.access == "index"
    assert chosen.bytes_read < chosen.bytes_total
    assert chosen.windows == 15


def test_zeroing_every_video_packet_changes_no_pick(clicking, tmp_path):
    blank = tmp_path / "blank.mp4"
    data = bytearray(clicking.read_bytes())
    with av.open(str(clicking)) as container:
        for packet in container.streams.video[0].index_entries:
            data[packet.pos : packet.pos + packet.size] = bytes(packet.size)
    assert bytes(data) != clicking.read_bytes()
    blank.write_bytes(data)
    before, after = (select([path], budget="40%") for path in (clicking, blank))
    assert before.recordings[0].picks == after.recordings[0].picks


@pytest.mark.parametrize(
    ("stream", "frontline", "said"),
    [
        ("audio", "energy", "damaged packets of sound, treated as silence"),
        ("video", "frame-difference", "damaged packets of video, skipped"),
    ],
)
def test_damage_costs_its_own_time_and_is_said(clicking, tmp_path, stream, frontline, said):
    data = bytearray(clicking.read_bytes())
    with av.open(str(clicking)) as container:
        (track,) = getattr(container.streams, stream)
        for packet in list(track.index_entries)[100:150]:
            data[packet.pos : packet.pos + packet.size] = b"\xff" * packet.size
    spoiled = tmp_path / "spoiled.mp4"
    spoiled.write_bytes(data)
    (chosen,) = select([spoiled], frontline=frontline).recordings
    assert [said in note for note in chosen.notes] == [True]


@pytest.mark.parametrize("suffix", ["mp4", "ts"])
def test_a_hole_in_the_sound_moves_nothing_and_is_said(tmp_path, suffix):
    plan = AudioPlan(CLICKS, hole=(12.0, 20.0))
    path = make_video(tmp_path / f"hole.{suffix}", duration=60.0, audio=plan)
    selection = select([path], budget="3", rule="rank", frontline="energy")
    assert starts(selection) == [8.0, 24.0, 40.0]
    assert selection.recordings[0].notes == ("gaps in the sound, 8.0 s in all, treated as silence",)


def test_a_silent_track_falls_back_to_strata_and_says_so(silent):
    (chosen,) = select([silent], budget="30%").recordings
    assert [pick.window for pick in chosen.picks] == [1, 5, 8]
    assert chosen.rule == "strata"
    assert any("silent" in note for note in chosen.notes)
    assert any("strata was used" in note for note in chosen.notes)


def test_a_forecast_is_a_range_as_far_as_that_was_measured(clicking):
    (by_gate,) = select([clicking], budget="30%").recordings
    told = by_gate.forecast_range
    assert told.expected == by_gate.forecast
    assert 0 <= told.low <= told.expected <= told.high <= 1
    (by_rank,) = select([clicking], budget="30%", rule="rank").recordings
    (by_level,) = select([clicking], budget="30%", frontline="energy").recordings
    assert by_rank.forecast_range is by_level.forecast_range is None
    forecast = plan([clicking], coverage=0.6)
    assert forecast.goal.coverage == pytest.approx(0.6, abs=0.15)
    for rung in forecast.rungs:
        assert rung.range.low <= rung.coverage == rung.range.expected <= rung.range.high
    assert forecast.rungs[-1].range.low == pytest.approx(1.0)


def test_the_number_of_actions_is_a_range_as_far_as_that_was_measured(clicking):
    (by_gate,) = select([clicking], budget="30%").recordings
    told = by_gate.actions_range
    assert 0 <= told.low < by_gate.actions == told.expected < told.high
    (by_level,) = select([clicking], budget="30%", frontline="energy").recordings
    assert by_level.actions > 0 and by_level.actions_range is None
    forecast = plan([clicking])
    assert (forecast.actions, forecast.actions_range) == (by_gate.actions, told)


@pytest.mark.parametrize("frontline", ["auto", "energy"])
def test_nothing_is_expected_of_what_nothing_was_heard_in(silent, mute, clicking, frontline):
    by = {"frontline": frontline, "workers": 1}
    chosen = select([silent, mute, clicking], budget="30%", **by).recordings
    assert [one.forecast is None for one in chosen] == [True, True, False]
    assert [one.actions is None for one in chosen] == [True, True, False]
    assert all(one.picks for one in chosen)
    rungs = plan([silent, mute], **by).rungs
    assert {rung.coverage for rung in rungs} == {None}
    with pytest.raises(ValueError, match="nothing was heard in these recordings"):
        plan([silent, mute], coverage=0.5, **by)


def test_a_price_makes_no_call_where_nothing_was_heard_and_says_why(silent, mute):
    for chosen in select([silent, mute], budget="auto").recordings:
        assert not chosen.picks
        assert any(note.startswith("nothing in its sound") for note in chosen.notes)
        assert not any("is expected to bring" in note for note in chosen.notes)


def test_a_silent_window_is_shown_at_its_middle(silent):
    (chosen,) = select([silent], budget="30%").recordings
    assert [pick.instant for pick in chosen.picks] == [pick.span.middle for pick in chosen.picks]


@pytest.fixture(scope="module")
def busy(tmp_path_factory) -> Path:
    """A minute without sound: still, but for pictures that change all over from 24 to 40 s."""
    path = tmp_path_factory.mktemp("media") / "busy.mp4"
    noise = np.random.default_rng(1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"g": "50", "crf": "30"})
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        still = np.full((64, 64, 3), 90, dtype=np.uint8)
        for number in range(600):
            is_busy = 240 <= number < 400
            picture = noise.integers(0, 255, (64, 64, 3), dtype=np.uint8) if is_busy else still
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def test_where_nothing_is_heard_auto_reads_the_packets_and_says_so(busy):
    (chosen,) = select([busy], budget="4").recordings
    assert chosen.rule == "coverage"
    assert chosen.frontline == "packets:drift=600.0"
    assert any("sizes of the video packets were read instead" in note for note in chosen.notes)
    assert not any("--frontline" in note for note in chosen.notes), "it was done"
    assert sum(24 <= pick.start < 40 for pick in chosen.picks) >= 2
    assert chosen.forecast is None
    (named,) = select([busy], budget="4", frontline="gate").recordings
    assert (named.rule, named.frontline) == ("strata", "gate")
    (cheap,) = select([busy], budget="auto").recordings
    assert len(cheap.picks) <= 1  # motion says where, and not that there is much


def test_no_audio_falls_back_to_strata_and_says_so_with_the_ways_out(mute, clicking):
    selection = select([mute, clicking], budget="25%")
    assert not selection.failures
    (blind, heard) = selection.recordings
    assert (blind.rule, blind.access, heard.rule) == ("strata", "none", "coverage")
    assert any("strata was used" in note for note in blind.notes)
    assert any(note.startswith("no audio stream") for note in blind.notes)
    assert any(re.search("hardly differ.*the frontline `packets`", note) for note in blind.notes)


@pytest.mark.parametrize("track", [1, 2])
def test_a_track_that_was_chosen_and_is_not_there_is_an_error(mute, clicking, track):
    selection = select([mute, clicking], audio_track=track)
    assert [f"has no audio track {track}" in row.error for row in selection.failures] == [True] * 2


def test_a_silent_track_beside_one_that_sounds(tmp_path):
    tracks = (AudioPlan(), AudioPlan(), AudioPlan(CLICKS), AudioPlan((2.0,)))
    path = make_video(tmp_path / "four.mp4", duration=60.0, audio=tracks)
    cache = tmp_path / "cache"
    options = {"budget": "3", "rule": "rank", "frontline": "energy"}
    first = select([path], cache=cache, **options)
    assert starts(first) == [8.0, 24.0, 40.0]
    (chosen,) = first.recordings
    assert "audio track 0 is silent, so track 2 was listened to" in chosen.notes
    heard = listen(
        Source((str(path),)), open_session([path], cache=cache, **options).listening
    ).heard
    assert (heard.from_cache, heard.recording.audio_track) == (True, 2)
    (asked,) = select([path], audio_track=1, **options).recordings
    assert asked.rule == "strata"


@pytest.mark.parametrize(
    ("rule", "frontline"), [("uniform", "auto"), ("coverage", "packets"), ("strata", "auto")]
)
def test_without_audio_the_ways_out_work(mute, rule, frontline):
    selection = select([mute], budget="2", rule=rule, frontline=frontline)
    assert not selection.failures
    assert len(selection.recordings[0].picks) == 2


def test_a_blind_rule_reads_no_sound(clicking):
    (chosen,) = select([clicking], rule="strata").recordings
    assert (chosen.access, chosen.frontline, chosen.bytes_read) == ("none", "none", 0)


def test_one_budget_over_many_goes_where_actions_are_expected(clicking, silent):
    selection = select([clicking, silent], budget="5", across=True)
    assert selection.calls == 5
    assert selection.windows == 25


def test_several_audio_tracks_are_said(tmp_path):
    path = tmp_path / "two.mp4"
    make_video(path, duration=12.0, audio=[AudioPlan(clicks=[1.0]), AudioPlan(clicks=[9.0])])
    first = select([path], budget="1", rule="rank", frontline="flux")
    second = select([path], budget="1", rule="rank", frontline="flux", audio_track=1)
    assert (starts(first), starts(second)) == ([0.0], [8.0])
    assert any("2 audio tracks, of which track 0" in note for note in first.recordings[0].notes)


def test_a_file_that_was_cut_off_gives_what_it_has_and_says_so(tmp_path):
    whole = make_video(tmp_path / "whole.mp4", duration=40.0, clicks=[5.0, 33.0], layout="first")
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.6)])
    (chosen,) = select([cut], budget="1", rule="rank", frontline="flux").recordings
    assert chosen.picks[0].start == 4.0
    assert chosen.duration < 40.0
    assert any("cut off" in note for note in chosen.notes)


def test_left_out_windows_are_explained(clicking):
    (chosen,) = select([clicking], budget="2", explain=4).recordings
    assert len(chosen.left_out) == 4
    assert {left.window for left in chosen.left_out}.isdisjoint(
        pick.window for pick in chosen.picks
    )
    assert all(left.reason for left in chosen.left_out)


def heard(source, **choices):
    return listen(source, open_session(**choices).listening)


class TestCache:
    def test_a_second_run_reads_no_media(self, clicking, tmp_path):
        source = find([str(clicking)])[0]
        first = heard(source, frontline="flux", cache=tmp_path)
        again = heard(source, frontline="flux", budget="7", window=2.0, cache=tmp_path)
        assert (first.heard.from_cache, again.heard.from_cache) == (False, True)
        assert again.heard.recording == first.heard.recording
        assert len(again) == 30
        np.testing.assert_array_equal(again.heard.scores.values, first.heard.scores.values)

    def test_a_renamed_file_is_found_and_a_changed_one_is_not(self, clicking, tmp_path):
        choices = {"cache": tmp_path / "cache", "frontline": "energy"}
        path = tmp_path / "a.mp4"
        path.write_bytes(clicking.read_bytes())
        heard(find([str(path)])[0], **choices)
        moved = path.rename(tmp_path / "b.mp4")
        again = heard(find([str(moved)])[0], **choices)
        assert again.heard.from_cache
        assert again.heard.recording.source.uris == (str(moved),)
        make_video(moved, duration=30.0, clicks=[1.0])
        assert not heard(find([str(moved)])[0], **choices).heard.from_cache

    def test_a_damaged_entry_is_listened_to_again(self, clicking, tmp_path):
        choices = {"cache": tmp_path, "frontline": "energy"}
        source = find([str(clicking)])[0]
        heard(source, **choices)
        (entry,) = tmp_path.rglob("*.npz")
        entry.write_bytes(entry.read_bytes()[:100])
        assert not heard(source, **choices).heard.from_cache
        assert heard(source, **choices).heard.from_cache

    def test_another_frontline_is_another_entry(self, clicking, tmp_path):
        source = find([str(clicking)])[0]
        heard(source, frontline="energy", cache=tmp_path)
        assert not heard(source, frontline="flux", cache=tmp_path).heard.from_cache


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        ({"budget": "0%"}, "budget"),
        ({"budget": "101%"}, "budget"),
        ({"budget": "-5"}, "budget"),
        ({"budget": "lots"}, "25%"),
        ({"rule": "best"}, "uniform, strata"),
        ({"frontline": "ears"}, "energy, flux"),
        ({"window": 0.0}, "window"),
        ({"audio_track": -1}, "audio_track: .* 0, not -1"),
    ],
)
@pytest.mark.usefixtures("unheard")
def test_a_wrong_choice_is_refused_before_anything_is_heard(clicking, choices, complaint):
    with pytest.raises(ValueError, match=complaint):
        select([clicking], **choices)


@pytest.mark.parametrize(
    ("choices", "complaint"), [({"coverage": 1.5}, "up to 1"), ({"window": 0.0}, "window")]
)
@pytest.mark.usefixtures("unheard")
def test_a_wrong_forecast_is_refused_before_anything_is_heard(clicking, choices, complaint):
    with pytest.raises(ValueError, match=complaint):
        plan([clicking], **choices)
