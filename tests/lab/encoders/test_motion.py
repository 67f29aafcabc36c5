"""The visual frontlines see what moves, when it moves, and nothing where nothing does."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from earmark import Recording, open_recording
from earmark.errors import MediaError, MissingExtra
from earmark.media import Meter, find
from earmark.media.frame_reader import scan_video
from earmark_lab.encoders.motion import (
    CompensatedFlow,
    FrameDifference,
    OpticalFlow,
    place_on_clock,
)
from making import make_audio, make_video

cv2 = pytest.importorskip("cv2")
ENCODERS = [FrameDifference(160), OpticalFlow(160), CompensatedFlow(160)]
GROUND = cv2.GaussianBlur(
    np.random.default_rng(0).integers(0, 255, (240, 480), dtype=np.uint8), (0, 0), 3
)
GROUND = cv2.normalize(GROUND, None, 0, 255, cv2.NORM_MINMAX)


def opened(path: Path) -> Recording:
    return open_recording(find([str(path)])[0])


def motion(encoder, recording: Recording) -> np.ndarray:
    return np.concatenate([track.values for track in encoder(recording, meter=Meter())])


def scene(time: float, *, pans: bool, hand: bool) -> np.ndarray:
    """The ground, which pans from 2 s on if it does, with a square that moves from 2 s on."""
    moved = round(max(0.0, time - 2.0) * 40)
    left = moved if pans else 0
    grey = GROUND[60:180, 100 + left : 260 + left].copy()
    if hand:
        place = 20 + moved
        grey[40:80, place : place + 40] = GROUND[:40, :40]
    return np.repeat(grey[..., None], 3, axis=2)


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("motion")

    def film(name: str, *, pans: bool = False, hand: bool = False, fps: float = 25) -> Recording:
        path = folder / f"{name}.mp4"
        if not path.exists():
            draw = lambda time: scene(time, pans=pans, hand=hand)  # noqa: E731
            make_video(path, duration=4.0, fps=fps, draw=draw, group=25)
        return opened(path)

    return film


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda one: type(one).__name__)
class TestContract:
    def test_one_row_a_step_and_nothing_before_it_moves(self, encoder, filmed):
        """moves  ____####"""
        rows = motion(encoder, filmed("hand", hand=True))
        assert len(rows) == 100 and rows.dtype == np.float32
        assert np.isfinite(rows).all() and (rows >= 0).all()
        assert rows[55:95].mean() > 5 * rows[5:45].mean()

    def test_the_frame_rate_does_not_matter_much(self, encoder, filmed):
        slow = motion(encoder, filmed("slow", hand=True, fps=12.5))
        fast = motion(encoder, filmed("fast", hand=True, fps=50))
        assert slow[55:90].mean() == pytest.approx(fast[55:90].mean(), rel=0.5)

    def test_sound_alone_has_no_motion_and_says_so(self, encoder, tmp_path):
        path = make_audio(tmp_path / "a.flac", duration=2.0, clicks=[1.0])
        with pytest.raises(MediaError, match="has no pictures"):
            motion(encoder, opened(path))


def test_taking_the_median_away_leaves_the_hand_and_not_the_head(filmed):
    """A pan moves everything alike: raw flow sees it, compensated flow hardly does."""
    pan, hand = filmed("pan", pans=True), filmed("hand", hand=True)
    raw = {
        name: motion(OpticalFlow(160), one)[60:90].mean()
        for name, one in (("pan", pan), ("hand", hand))
    }
    left = {
        name: motion(CompensatedFlow(160), one)[60:90].mean()
        for name, one in (("pan", pan), ("hand", hand))
    }
    assert left["pan"] < 0.35 * raw["pan"]
    assert left["hand"] > 0.8 * raw["hand"]
    assert raw["pan"] > raw["hand"] and left["pan"] < 3 * left["hand"]


def test_flow_is_measured_in_widths_of_the_picture(filmed):
    """40 pixels a second of 160 are a quarter of the width, 0.01 a step."""
    assert motion(OpticalFlow(160), filmed("pan", pans=True))[60:90].mean() == pytest.approx(
        0.01, rel=0.25
    )


def test_difference_of_white_to_black_is_one():
    black, white = np.zeros((9, 16), np.uint8), np.full((9, 16), 255, np.uint8)
    assert FrameDifference().measure_motion(black, white) == 1.0
    assert FrameDifference().measure_motion(white, black) == 1.0
    assert FrameDifference().measure_motion(white, white) == 0.0


def test_changes_lie_on_the_steps_between_their_pictures():
    """
    changes    |---1---|-----2-----|
    clock      |. . . .|. . . . . .|. .
    """
    tracks = list(place_on_clock([(0.04, 0.2, 1.0), (0.2, 0.44, 2.0)], 14))
    assert np.concatenate([track.values for track in tracks]).tolist() == (
        [0.0] + [1.0] * 4 + [2.0] * 6 + [0.0] * 3
    )


def test_long_recordings_come_in_stretches():
    tracks = list(place_on_clock([(0.0, 70.0, 1.0)], 1751))
    assert [len(track) for track in tracks] == [750, 750, 251]
    assert [track.start for track in tracks] == [0.0, 30.0, 60.0]
    assert tracks[-1].values[-2:].tolist() == [1.0, 0.0]


def test_pictures_too_close_are_passed_over(filmed):
    times = [frame.time for frame in scan_video(filmed("fast", hand=True, fps=50))]
    assert np.diff(times) == pytest.approx([0.04] * (len(times) - 1))


def test_pictures_are_small_and_keep_their_shape(filmed):
    frame = next(scan_video(filmed("hand", hand=True), width_pixels=80))
    assert frame.grey.shape == (60, 80) and frame.grey.dtype == np.uint8
    assert next(scan_video(filmed("hand", hand=True), width_pixels=999)).grey.shape == (120, 160)


def test_all_of_the_video_is_read(filmed):
    recording, meter = filmed("hand", hand=True), Meter()
    list(FrameDifference()(recording, meter=meter))
    assert meter.bytes_read > 0.5 * recording.size_bytes
    assert meter.access == "demux"


def test_without_opencv_flow_names_its_cure(filmed, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtra, match=r"pip install 'earmark\[vision\]'"):
        motion(OpticalFlow(), filmed("hand", hand=True))
