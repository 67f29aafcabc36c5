"""Made recordings: the same from the same seed, with actions that can be heard where they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from earmark.features.encoder import SAMPLE_RATE
from earmark.media import open_recording
from earmark_lab.annotations.actions import Action
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.sites.codecs import FORMATS, through
from earmark_lab.sites.library import SHARES, Library, part_of, read_clips
from earmark_lab.sites.microphone import MICROPHONES, automatic_gain, suppress_noise
from earmark_lab.sites.physics import decibels
from earmark_lab.sites.site import SOUNDS, SiteGenerator, _Scene, write_sites
from earmark_lab.sites.timing import ANNOTATED, WORKERS, schedule, timings_in

MINUTES = 3 / 60


def click(at: float, *, count: int = 3 * SAMPLE_RATE) -> np.ndarray:
    samples = np.random.default_rng(0).normal(0, 1e-3, count).astype(np.float32)
    samples[round(at * SAMPLE_RATE) :][:400] += 0.4 * np.hanning(400) * np.sin(np.arange(400) / 2.5)
    return samples


def work(seconds: Sequence[float], rng: np.random.Generator) -> list[Action]:
    return [Action(start, start + 5) for start in np.arange(0, seconds, 10.0).tolist()]


def test_the_same_seed_makes_the_same_recording_and_another_one_another():
    first, again = (next(SiteGenerator().recordings(hours=MINUTES, seed=3)) for _ in range(2))
    other = next(SiteGenerator().recordings(hours=MINUTES, seed=4))
    assert_array_equal(first.samples, again.samples)
    assert first.actions == again.actions and first.site == again.site
    assert other.site != first.site and not np.array_equal(other.samples, first.samples)


def test_recordings_add_up_to_the_hours_and_timing_families_take_turns():
    made = list(SiteGenerator(ambiences=["none"]).recordings(hours=1.0, seed=0))
    assert sum(each.duration for each in made) == pytest.approx(3600, abs=60)
    assert [each.site.timing for each in made[:3]] == list(WORKERS)[: len(made)][:3]
    for each in made:
        assert each.samples.dtype == np.float32 and np.abs(each.samples).max() <= 1
        assert all(0 <= a.start < a.end <= each.duration for a in each.actions)


@pytest.mark.parametrize("occupancy", [0.1, 0.5])
def test_idle_time_between_bouts_leaves_the_occupancy_asked_for(occupancy):
    rng = np.random.default_rng(1)
    actions = schedule(work, 7200.0, occupancy, rng)
    busy = sum(action.duration for action in actions) / 7200
    assert busy == pytest.approx(occupancy / 2, rel=0.25)  # half of the work is between actions
    assert schedule(work, 600.0, 1.0, rng) == work(600.0, rng)


@pytest.mark.parametrize("group", SOUNDS)
def test_actions_that_are_heard_stand_out_by_the_loudness_drawn(group):
    generator = SiteGenerator(sounds=[group], ambiences=["none"])
    rng = np.random.default_rng(0)
    site = generator._draw("assembly", rng)
    scene = _Scene(site, Library(), rng)
    actions = [Action(start, start + 2.0) for start in range(5, 115, 10)]
    heard = decibels(scene._work(actions, 120 * SAMPLE_RATE), SAMPLE_RATE)
    inside = np.array([heard[int(action.start)] for action in actions])
    audible = inside > -60
    assert np.median(inside[audible]) == pytest.approx(site.loudness_db, abs=9)
    assert 0 < audible.sum() < len(actions)  # some actions are silent
    assert (heard[::10] < -100).all()  # and nothing sounds between them


def test_long_actions_are_heard_in_parts():
    rng = np.random.default_rng(0)
    site = SiteGenerator()._draw("inspection", rng)
    events = list(_Scene(site, Library(), rng)._events(Action(100, 400)))
    assert all(start >= 100 and start + lasts <= 400 for start, lasts in events)
    assert sum(lasts for _, lasts in events) / 300 == pytest.approx(site.audible, abs=0.4)


@pytest.mark.parametrize("name", MICROPHONES)
def test_a_click_is_where_it_was_after_every_microphone(name):
    recorded = MICROPHONES[name](click(1.5), np.random.default_rng(2))
    assert recorded.dtype == np.float32 and len(recorded) == 3 * SAMPLE_RATE
    assert np.isfinite(recorded).all() and np.abs(recorded).max() <= 1.2
    assert abs(int(np.abs(np.diff(recorded)).argmax()) / SAMPLE_RATE - 1.5) < 0.15


@pytest.mark.parametrize("codec", FORMATS)
def test_codecs_keep_length_and_most_of_the_sound(codec):
    times = np.arange(4 * SAMPLE_RATE + 123) / SAMPLE_RATE
    tone = (0.3 * np.sin(2 * np.pi * 700 * times)).astype(np.float32)
    coded = through(tone, codec, 32_000)
    assert len(coded) == len(tone)
    middle = slice(SAMPLE_RATE, 3 * SAMPLE_RATE)
    assert decibels(coded[middle]).mean() == pytest.approx(decibels(tone[middle]).mean(), abs=1.5)
    assert not np.array_equal(coded, tone)


def test_automatic_gain_raises_quiet_sound_more_than_loud_sound():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, 20 * SAMPLE_RATE).astype(np.float32)
    gains = [
        decibels(automatic_gain(noise * scale, 20.0)).mean() - decibels(noise * scale).mean()
        for scale in (0.003, 0.1)
    ]
    assert gains[0] == pytest.approx(20, abs=1) and gains[1] < 3


def test_noise_suppression_lowers_steady_noise_and_keeps_what_is_above_it():
    noise = np.random.default_rng(0).normal(0, 1e-2, 6 * SAMPLE_RATE).astype(np.float32)
    sound = noise.copy()
    sound[3 * SAMPLE_RATE : 3 * SAMPLE_RATE + 4000] += 0.3 * np.sin(np.arange(4000) / 3)
    clean = suppress_noise(sound, strength=1.5)
    before, after = decibels(sound, 4000), decibels(clean, 4000)
    assert after[12] > before[12] - 1.5
    assert np.median(after) < np.median(before) - 2


def test_unknown_families_are_named():
    with pytest.raises(ValueError, match="no group of sounds 'hammers'; there are impacts"):
        SiteGenerator(sounds=["hammers"])
    with pytest.raises(ValueError, match="no part 'all'"):
        SiteGenerator(part="all")
    with pytest.raises(ValueError, match="at least 60 s"):
        next(SiteGenerator().recordings(hours=0.0, seed=0))


@pytest.mark.parametrize("kind", ["opus", "wav"])
def test_written_recordings_are_read_back_with_their_actions(tmp_path, kind):
    made = list(write_sites(SiteGenerator(), tmp_path, hours=MINUTES, seed=5, format=kind))
    annotations = read_annotations(tmp_path / "actions.csv")
    recording = open_recording(tmp_path / f"{made[0].name}.{kind}")
    assert recording.duration == pytest.approx(made[0].duration, abs=0.05)
    starts = [action.start for action in annotations.recordings[made[0].name]]
    assert starts == pytest.approx([action.start for action in made[0].actions], abs=1e-3)


def test_parts_of_the_recorded_sounds_share_no_author(shared_data):
    clips = read_clips(shared_data / "open_sounds" / "sounds.csv")
    authors = {part: {clip.author for clip in clips if clip.part == part} for part in SHARES}
    assert all(len(names) > 40 for names in authors.values())
    assert not authors["train"] & authors["dev"] and not authors["train"] & authors["test"]
    assert {clip.licence for clip in clips} == {"CC0", "CC-BY"}


@pytest.mark.parametrize("name", ANNOTATED)
def test_annotated_timings_keep_their_lengths(shared_data, name):
    timing = timings_in(shared_data, [name], part="train")[name]
    actions = timing(6 * 3600.0, np.random.default_rng(0))
    medians = {"egoexolearn": 1.9, "goalstep": 10.2, "factory10k": 13.0, "captaincook4d": 35.0}
    assert np.median([a.duration for a in actions]) == pytest.approx(medians[name], rel=0.5)
    assert part_of("a name") == part_of("a name")
