"""Sound arrives at its time from every container, by either access."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import av
import numpy as np
import pytest
from av.audio.frame import AudioFrame

from earmark import open_recording
from earmark.errors import NoAudioStream, UnreadableFile
from earmark.media import Meter, Source
from earmark.media.audio_decoder import (
    BLOCK,
    RunPiece,
    cut_blocks,
    fill_gaps,
    join_frames,
    place_runs,
)
from making import AudioPlan, click_times, whole_sound

CLICKS = (0.5, 1.25, 3.0)
RATE = 16_000


def heard(path, **options):
    """When the clicks are heard."""
    return click_times(whole_sound(open_recording(path, **options)), RATE)


def near(times):
    return pytest.approx(list(times), abs=0.01)


@pytest.mark.parametrize(
    ("name", "options", "access"),
    [
        ("a.mp4", {}, "index"),
        ("a.mp4", {"layout": "first"}, "index"),
        ("a.mp4", {"b_frames": 2}, "index"),
        ("a.mp4", {"layout": "fragmented"}, "demux"),
        ("a.mov", {}, "index"),
        ("a.mkv", {}, "demux"),
        ("a.webm", {}, "demux"),
        ("a.ts", {}, "demux"),
        ("a.ts", {"b_frames": 2}, "demux"),
        ("a.m4a", {}, "index"),
        ("a.wav", {}, "demux"),
        ("a.flac", {}, "demux"),
        ("a.mp3", {}, "demux"),
        ("a.opus", {}, "demux"),
    ],
    ids=str,
)
def test_clicks_are_heard_at_their_times(media, name, options, access):
    recording = open_recording(media(name, **options))
    meter = Meter()
    sound = whole_sound(recording, meter=meter)
    assert click_times(sound, RATE) == near(CLICKS)
    assert (recording.access, meter.access) == (access, access)
    assert len(sound) == round(recording.duration * RATE)
    assert recording.duration == pytest.approx(4.0, abs=0.001)
    assert sound.dtype == np.float32


def test_raw_aac_cannot_tell_its_priming_from_sound(media):
    assert heard(media("a.aac")) == pytest.approx(np.add(CLICKS, 1024 / 48_000), abs=0.002)


@pytest.mark.parametrize("rate", [48_000, 96_000], ids=["version-1", "version-2"])
@pytest.mark.parametrize("codec", ["pcm_s16be", "pcm_s24le", "pcm_f32le"])
def test_raw_sound_of_every_width_is_found_by_the_index(media, codec, rate):
    plan = AudioPlan(CLICKS, codec=codec, sample_rate=rate, channels=2)
    path = media(f"{codec}.mov", audio=plan)
    assert open_recording(path).access == "index"
    assert heard(path) == near(CLICKS)


@pytest.mark.parametrize("codec", ["libopus", "libmp3lame", "flac", "pcm_s16le"])
def test_every_codec_in_an_mp4_is_on_time(media, codec):
    suffix = "mov" if codec.startswith("pcm") else "mp4"
    path = media(f"{codec}.{suffix}", audio=AudioPlan(CLICKS, codec=codec))
    assert open_recording(path).access == "index"
    assert heard(path) == near(CLICKS)


@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv", "ts"])
class TestClocks:
    """What is missing is silence, and moves nothing."""

    def test_sound_that_starts_late(self, media, suffix):
        path = media(f"late.{suffix}", audio=AudioPlan(CLICKS, start=1.0))
        assert heard(path) == near(CLICKS[1:])

    def test_sound_that_ends_early(self, media, suffix):
        path = media(f"early.{suffix}", audio=AudioPlan(CLICKS, end=2.0))
        sound = whole_sound(open_recording(path))
        assert click_times(sound, RATE) == near(CLICKS[:2])
        assert len(sound) == 4 * RATE
        assert not sound[round(2.1 * RATE) :].any()

    def test_a_hole(self, media, suffix):
        plan = AudioPlan(CLICKS, hole=(1.0, 2.0), noise=0.01)
        path = media(f"hole.{suffix}", audio=plan)
        sound = whole_sound(open_recording(path))
        assert click_times(sound, RATE) == near([0.5, 3.0])
        assert not sound[round(1.1 * RATE) : round(1.9 * RATE)].any()
        assert sound[: round(0.9 * RATE)].any() and sound[round(2.1 * RATE) :].any()

    def test_two_holes_do_not_add_up_to_a_shift(self, media, suffix):
        """A hole of 30 ms is a break, though a packet or two is all that is missing."""
        clicks = (0.5, 1.5, 3.5)
        plan = AudioPlan(clicks, hole=(0.8, 0.83))
        assert heard(media(f"small.{suffix}", audio=plan)) == near(clicks)


@pytest.mark.parametrize("suffix", ["mkv", "ts"])
def test_a_container_that_starts_later_than_zero_starts_at_zero(media, suffix):
    recording = open_recording(media(f"offset.{suffix}", offset=2.0))
    assert recording.duration == pytest.approx(4.0, abs=0.01)
    assert heard(recording.source) == near(CLICKS)


@pytest.mark.parametrize("before", [1.7, 90.0])
def test_a_clock_that_runs_over_loses_nothing(media, before):
    """MPEG-TS counts 33 bits of 1/90000 s and then from 0; libav tells both sides of it apart."""
    duration = before + 2.3
    clicks = (1.0, before, before + 1.0)
    offset = 2**33 / 90_000 - before
    path = media("over.ts", duration=duration, clicks=clicks, offset=offset, fps=2)
    recording = open_recording(path)
    assert recording.duration == pytest.approx(duration, abs=0.6)
    assert click_times(whole_sound(recording), 16_000) == pytest.approx(clicks, abs=0.01)


def test_an_mp4_starts_where_its_edit_list_says(media):
    recording = open_recording(media("offset.mp4", offset=2.0))
    assert recording.duration == pytest.approx(6.0)
    assert heard(recording.source) == near(np.add(CLICKS, 2.0))


def test_a_variable_frame_rate_changes_nothing(media):
    path = media("vfr.mp4", frame_times=(0.0, 0.1, 0.5, 0.6, 2.0, 3.9))
    assert heard(path) == near(CLICKS)
    assert open_recording(path).duration == pytest.approx(4.0)


def test_the_track_asked_for_is_heard(media):
    plans = (AudioPlan(CLICKS), AudioPlan((2.0,), language="deu"))
    for suffix in ("mp4", "mkv"):
        path = media(f"two.{suffix}", audio=plans)
        assert heard(path) == near(CLICKS)
        assert heard(path, audio_track=1) == near([2.0])
        assert open_recording(path).audio_tracks[1].language == "deu"


def test_channels_are_mixed_and_other_rates_resampled(media):
    plan = AudioPlan(CLICKS, channels=6, sample_rate=44_100)
    recording = open_recording(media("surround.mp4", audio=plan))
    assert recording.audio_tracks[0].channels == 6
    assert click_times(whole_sound(recording, sample_rate=8_000), 8_000) == near(CLICKS)


def test_chapters_follow_one_another(media):
    parts = [media(f"GX0{number}0001.MP4".replace("MP4", "mp4")) for number in (1, 2)]
    parts.append(media("GX030001.mkv"))
    recording = open_recording(Source(tuple(map(str, parts))))
    assert recording.duration == pytest.approx(12.0, abs=0.01)
    expected = [click + 4.0 * part for part, click in itertools.product(range(3), CLICKS)]
    meter = Meter()
    assert click_times(whole_sound(recording, meter=meter), RATE) == near(expected)
    assert meter.overlap == 0.0
    assert recording.access == "demux" and recording.size_bytes == sum(
        part.stat().st_size for part in parts
    )


def test_by_index_and_by_demuxing_the_sound_is_the_same(media):
    """The fast way against the slow: every packet demuxed, decoded and resampled by libav."""
    path = media("same.mp4", audio=AudioPlan(CLICKS, noise=0.05, channels=2, sample_rate=44_100))
    resampler = av.AudioResampler("flt", "mono", RATE)
    with av.open(str(path)) as container:
        frames = [f for frame in container.decode(audio=0) for f in resampler.resample(frame)]
        first = float(frames[0].pts * frames[0].time_base)
        frames += resampler.resample(None)
    slow = np.concatenate([frame.to_ndarray()[0] for frame in frames])
    slow = slow[round(-first * RATE) if first < 0 else 0 :]
    fast = whole_sound(open_recording(path))
    count = min(len(slow), len(fast))
    assert count >= 3.9 * RATE
    np.testing.assert_allclose(fast[:count], slow[:count], atol=1e-4)


def test_sound_over_many_blocks_is_continuous(media):
    clicks = tuple(np.arange(0.5, 70.0, 1.0))
    path = media("long.m4a", duration=70.0, audio=AudioPlan(clicks, sample_rate=16_000))
    blocks = list(open_recording(path).sound())
    assert [len(block) for block in blocks] == [BLOCK * RATE, BLOCK * RATE, 10 * RATE]
    assert heard(path) == near(clicks)


def test_damaged_packets_are_silence_and_counted(media, tmp_path):
    path = media("noisy.mkv", audio=AudioPlan(CLICKS, noise=0.05))
    good = open_recording(path)
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        places = [(p.pos, p.size) for p in container.demux(audio=0) if p.size]
    for position, size in places[60:70]:
        data[position + 10 : position + size] = b"\xff" * (size - 10)
    spoiled = tmp_path / "noisy.mkv"
    spoiled.write_bytes(data)
    meter = Meter()
    sound = whole_sound(open_recording(spoiled), meter=meter)
    assert meter.damaged_packets > 0
    assert click_times(sound[2 * RATE :], RATE) == near([1.0])
    assert len(sound) == round(good.duration * RATE)


def test_timestamps_that_start_again_are_counted_as_overlap(media, tmp_path):
    """Two transport streams end to end: the second claims the time of the first."""
    data = media("a.ts").read_bytes()
    path = tmp_path / "twice.ts"
    path.write_bytes(data + data)
    meter = Meter()
    sound = whole_sound(open_recording(path), meter=meter)
    assert click_times(sound, RATE) == near(CLICKS)
    assert meter.overlap == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize(
    ("plan", "missing"),
    [
        (AudioPlan(CLICKS, hole=(1.0, 2.5)), 1.5),
        (AudioPlan(CLICKS, start=1.0), 0.0),
        (AudioPlan(CLICKS, end=2.0), 0.0),
    ],
    ids=["hole", "late", "early"],
)
def test_holes_are_counted_and_the_ends_are_none(media, suffix, plan, missing):
    meter = Meter()
    whole_sound(open_recording(media(f"odd.{suffix}", audio=plan)), meter=meter)
    assert meter.missing == pytest.approx(missing, abs=0.1)


class TestNothingToHear:
    def test_no_audio_stream(self, media):
        recording = open_recording(media("mute.mp4", has_audio=False))
        assert not recording.has_audio and recording.has_video
        with pytest.raises(NoAudioStream, match=r"mute.mp4 has no audio.*packets.*uniform"):
            recording.sound()

    def test_audio_of_zero_length(self, media):
        path = media("empty.mkv", audio=AudioPlan(start=99.0))
        with pytest.raises(NoAudioStream, match=r"zero length.*the rule `uniform`"):
            open_recording(path).sound()

    def test_audio_of_zero_length_by_the_index(self, media, tmp_path):
        data = bytearray(media("a.mp4").read_bytes())
        count = data.rindex(b"stsz") + 12
        data[count : count + 4] = bytes(4)
        path = tmp_path / "empty.mp4"
        path.write_bytes(data)
        with pytest.raises(NoAudioStream, match=r"zero length.*the rule `uniform`"):
            open_recording(path).sound()

    def test_no_such_track(self, media):
        with pytest.raises(
            NoAudioStream, match="no audio track 3; choose an `audio_track` of 0 to 0"
        ):
            open_recording(media("a.mp4"), audio_track=3)
        with pytest.raises(ValueError, match="counted from 0"):
            open_recording(media("a.mp4"), audio_track=-1)

    def test_a_codec_nobody_knows(self, media, tmp_path):
        strange = tmp_path / "strange.mp4"
        data = media("a.mp4").read_bytes().replace(b"mp4a", b"zzzz")
        strange.write_bytes(data.replace(b"esds", b"zzzz"))
        with pytest.raises(NoAudioStream, match=r"cannot decode.*`audio_track`"):
            open_recording(strange)

    def test_nothing_that_can_be_decoded(self, media, tmp_path):
        path = media("flac.mp4", audio=AudioPlan(CLICKS, codec="flac"))
        recording = open_recording(path)
        data = bytearray(path.read_bytes())
        start = data.index(b"mdat") + 4
        data[start : data.index(b"moov") - 4] = b"\x55" * (data.index(b"moov") - 4 - start)
        spoiled = tmp_path / "flac.mp4"
        spoiled.write_bytes(data)
        with pytest.raises(UnreadableFile, match="not one packet of audio track 0"):
            whole_sound(open_recording(spoiled))
        assert recording.duration == open_recording(spoiled).duration


class TestTimeline:
    """Samples of 10 a second, each with a value of its own; a block holds 30 s."""

    def lay(self, *pieces, file=range(10_000), end=0):
        self.meter = Meter()
        placed = [(place, np.array(values, np.float32), file) for place, values in pieces]
        return list(cut_blocks(fill_gaps(placed, end, 10, self.meter), 10))

    def values(self, *pieces, file=range(10_000), end=0):
        sounds = self.lay(*pieces, file=file, end=end)
        return [value for sound in sounds for value in sound.values.tolist()]

    def test_a_hole_is_zeros_and_an_overlap_is_heard_once(self):
        assert self.values((0, [1, 1]), (4, [2, 2])) == [1, 1, 0, 0, 2, 2]
        assert self.values((0, [1, 1, 1]), (1, [2, 2, 2])) == [1, 1, 1, 2]
        assert self.values((2, [1, 1, 1]), (0, [2, 2])) == [0, 0, 1, 1, 1]
        assert self.values((2, [1, 2, 3]), (7, [4, 5]), (8, [6, 7, 8])) == [
            *[0, 0, 1, 2, 3, 0, 0, 4, 5, 7, 8]
        ]
        assert (self.meter.missing, self.meter.overlap) == (0.2, 0.1)

    def test_overlap_is_counted_and_priming_is_not(self):
        self.values((-2, range(5)), (1, range(5)), (6, range(2)))
        assert self.meter.overlap == pytest.approx(0.2)

    def test_nothing_before_the_start_or_past_the_end_of_a_file(self):
        assert self.values((-2, [1, 2, 3])) == [3]
        assert self.values((1, [1, 2, 3]), file=range(2)) == [0, 1]
        assert self.values((5, [1, 2, 3]), file=range(2)) == [0, 0]
        assert self.values((3, [1, 2, 3, 4]), (9, [5]), file=range(5)) == [0, 0, 0, 1, 2]
        assert self.meter.missing == 0, "before the first sound there is none between two"

    def test_silence_before_a_file_and_sound_before_its_start_are_nobody_s(self):
        pieces = (0, [1, 2, 3, 4]), (2, [5, 6, 7])
        assert self.values(*pieces, file=range(3, 10_000)) == [1, 2, 3, 4, 7]
        assert self.meter.overlap == pytest.approx(0.1)

    def test_silence_up_to_the_end(self):
        assert self.values((0, [1]), end=3) == [1, 0, 0]
        assert self.meter.missing == 0
        assert self.values(end=0) == []

    def test_a_hole_of_hours_is_many_blocks(self):
        blocks = self.lay((0, [1]), (36_000, [1]), file=range(36_001), end=36_001)
        assert [len(block) for block in blocks] == [300] * 120 + [1]
        assert [block.start for block in blocks] == [30.0 * n for n in range(121)]

    def test_blocks_are_full_but_for_the_last(self):
        size = round(BLOCK * 10)
        assert [sound.start for sound in self.lay((0, range(size)))] == [0.0], "no empty block"
        assert self.values((size + 5, range(size))) == [0.0] * (size + 5) + list(range(size))
        assert [sound.start for sound in self.lay((size + 5, range(size)))] == [
            *[0.0, BLOCK, 2 * BLOCK]
        ]


def tone(seconds: float, rate: int, pts: float | None) -> AudioFrame:
    """A constant, as loud as can be, from `pts` seconds on."""
    frame = AudioFrame.from_ndarray(np.ones((1, round(seconds * rate)), np.float32), "flt", "mono")
    frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
    frame.pts = None if pts is None else round(pts * rate)
    return frame


@pytest.mark.parametrize(
    ("second", "silent"),
    [
        ((24_000, 1.0), 0.0),  # another rate, without a break
        ((48_000, None), 0.0),  # no stamp: it follows
        ((48_000, 1.01), 0.0),  # a stamp that strays a little
        ((48_000, 1.5), 0.5),
    ],
)
def test_sound_that_changes_or_breaks_off_is_laid_at_its_time(media, second, silent):
    part = replace(open_recording(media("a.wav")).parts[0], duration=10.0)
    rate, pts = second
    joined = join_frames([tone(1.0, 48_000, 0.0), tone(1.0, rate, pts)], part.zero)
    pieces = (RunPiece(frame, 0, begins) for frame, begins in joined)
    blocks = list(place_runs(pieces, [part], RATE, Meter()))
    values = np.trim_zeros(np.concatenate([block.values for block in blocks]), "b")
    assert len(values) / RATE == pytest.approx(2.0 + silent, abs=0.002)
    assert np.mean(np.abs(values) < 0.1) * len(values) / RATE == pytest.approx(silent, abs=0.01)


def test_what_a_chapter_repeats_of_the_one_before_is_no_overlap_of_its_own(media):
    """Its priming lies before it begins."""
    paths = [str(media("a.mkv")), str(media("b.mkv"))]
    meter = Meter()
    whole_sound(open_recording(Source(tuple(paths))), meter=meter)
    assert (meter.overlap, meter.missing) == (
        pytest.approx(0.0, abs=1e-6),
        pytest.approx(0.0, abs=1e-6),
    )
