"""Marked actions by themselves in a quiet room."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from earmark_lab.annotations.actions import Action, Annotations
from earmark_lab.sites.talk import talk
from earmark_lab.training.settings import Settings
from earmark_lab.training.synthetic_recordings import APART, LONE_LENGTH, cut_actions, gather_lone
from earmark_lab.training.synthetic_sound import ALONE, WORK, Voices

RATE = 16_000
SETTINGS = Settings(made=1)


def write(path: Path, *loud: tuple[float, float], seconds: int = 60) -> None:
    """A quiet recording with some loud stretches."""
    rng = np.random.default_rng(3)
    samples = (rng.standard_normal(seconds * RATE) * 0.001).astype(np.float32)
    for start, end in loud:
        place = slice(round(start * RATE), round(end * RATE))
        samples[place] += (rng.standard_normal(place.stop - place.start) * 0.1).astype(np.float32)
    with av.open(str(path), "w") as file:
        stream = file.add_stream("pcm_s16le", rate=RATE)
        whole = (samples.clip(-1, 1) * 32767).astype(np.int16)[None]
        frame = av.AudioFrame.from_ndarray(whole, format="s16", layout="mono")
        frame.sample_rate = RATE
        for packet in (*stream.encode(frame), *stream.encode(None)):
            file.mux(packet)


@pytest.fixture
def marked(tmp_path: Path) -> tuple[Annotations, Path]:
    folder = tmp_path / "media"
    folder.mkdir()
    write(folder / "P01_1.wav", (10, 12), (30, 33))
    write(folder / "P02_1.wav")
    spans = {
        "P01_1": (Action(10.0, 12.0), Action(30.0, 33.0), Action(45.0, 47.0)),
        "P02_1": (Action(10.0, 12.0),),
    }
    return Annotations(spans, {}), folder


def test_each_person_whose_actions_are_heard_has_a_recording(marked, tmp_path):
    annotations, folder = marked
    made = gather_lone(annotations, folder, SETTINGS, cache=tmp_path / "kept")
    assert list(made) == ["P01_alone"]
    alone = made["P01_alone"]
    assert alone.duration == LONE_LENGTH
    assert alone.takes[0].shape == (LONE_LENGTH * 25, 16)
    assert {round(action.duration, 2) for action in alone.actions} <= {2.0, 3.0}
    for before, after in zip(alone.actions, alone.actions[1:], strict=False):
        assert after.start >= before.end + APART
    level = alone.features[:, :8].mean(axis=1)
    for action in alone.actions:
        inside = level[round(action.start * 25) : round(action.end * 25)]
        assert inside.mean() > np.median(level) + 1


def test_with_voices_there_is_a_recording_with_talk_that_is_kept(marked, tmp_path):
    rng = np.random.default_rng(3)
    voices = Voices([[talk(2 * RATE, rng).astype(np.float32) for _ in range(4)]])
    made = gather_lone(*marked, SETTINGS, cache=tmp_path / "kept", voices=voices)["P01_alone"]
    again = gather_lone(*marked, SETTINGS, cache=tmp_path / "kept", voices=voices)["P01_alone"]
    assert len(made.takes) == 1 and made.with_talk is not None and again.with_talk is not None
    assert (made.with_talk.labels == again.with_talk.labels).all()
    assert (made.with_talk.features == again.with_talk.features).all()
    assert {ALONE, WORK} <= set(made.with_talk.labels.tolist())


def test_a_silent_action_is_not_taken(marked):
    from earmark import open_recording
    from earmark.media import find

    annotations, folder = marked
    source = next(one for one in find([folder]) if "P01" in one.name)
    heard = [(open_recording(source), annotations.recordings["P01_1"])]
    lengths = sorted(len(clip) for clip in cut_actions(heard, np.random.default_rng(0)))
    assert lengths == [2 * RATE, 3 * RATE]


def test_what_was_made_is_kept_and_comes_out_the_same(marked, tmp_path):
    annotations, folder = marked
    first = gather_lone(annotations, folder, SETTINGS, cache=tmp_path / "kept")
    (kept,) = [path for path in (tmp_path / "kept").iterdir() if "P02" not in path.name][:1]
    again = gather_lone(annotations, folder, SETTINGS, cache=tmp_path / "kept")
    other = gather_lone(annotations, folder, SETTINGS, cache=tmp_path / "other")
    for made in (again, other):
        assert made["P01_alone"].actions == first["P01_alone"].actions
        np.testing.assert_array_equal(made["P01_alone"].takes[0], first["P01_alone"].takes[0])
    kept.write_bytes(b"damaged")
    assert list(gather_lone(annotations, folder, SETTINGS, cache=tmp_path / "kept")) == list(first)


@pytest.mark.parametrize(
    "settings", [replace(SETTINGS, made=0), replace(SETTINGS, context_channels=0, loudness=0.0)]
)
def test_nothing_is_made_for_a_gate_that_wants_none(settings, marked, tmp_path):
    assert gather_lone(*marked, settings, cache=tmp_path) == {}


def test_a_damaged_file_of_the_cache_is_made_again(marked, tmp_path):
    first = gather_lone(*marked, SETTINGS, cache=tmp_path / "kept")["P01_alone"]
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(path.read_bytes()[:-200])  # still begins as an archive does
    again = gather_lone(*marked, SETTINGS, cache=tmp_path / "kept")["P01_alone"]
    np.testing.assert_array_equal(again.takes[0], first.takes[0])
