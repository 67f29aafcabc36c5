"""Faces are found at any size of frame, blurred for good, and nothing else is touched."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from earmark.errors import ModelMissing
from earmark.evidence.face_blur import FaceBlur, decode
from earmark.media import Frame
from earmark.models import ModelStore
from face_film import portrait, require_faces


@pytest.mark.parametrize("side", [512, 300, 160])
def test_a_face_is_found_where_it_is_and_blurred_to_a_few_colours(side: int):
    require_faces()
    frame = portrait(side)
    shown, found = FaceBlur()(frame)
    ((top, bottom, left, right),) = found
    middle = np.array([(top + bottom) / 2, (left + right) / 2]) / side
    assert np.abs(middle - [0.23, 0.44]).max() < 0.05
    assert len(np.unique(shown.rgb[top:bottom, left:right].reshape(-1, 3), axis=0)) <= 16
    outside = np.ones(frame.rgb.shape[:2], bool)
    outside[top:bottom, left:right] = False
    assert (shown.rgb[outside] == frame.rgb[outside]).all()
    assert shown.rgb is not frame.rgb and shown.time == frame.time


def test_a_large_frame_with_several_faces_and_one_with_none():
    require_faces()
    wide = np.full((540, 1600, 3), 90, np.uint8)
    for place, side in ((0, 512), (600, 256), (1000, 128)):
        wide[:side, place : place + side] = portrait(side).rgb
    blur = pickle.loads(pickle.dumps(FaceBlur()))
    assert len(blur.find(Frame(0.0, wide))) == 3
    plain = Frame(1.0, np.full((90, 160, 3), 90, np.uint8))
    assert blur(plain) == (plain, [])
    assert blur.jpeg(b"") == b"" and blur.jpeg(plain.thumbnail()) == plain.thumbnail()


def test_what_was_found_before_is_blurred_too():
    require_faces()
    plain = Frame(1.0, np.arange(90 * 160 * 3, dtype=np.uint8).reshape(90, 160, 3))
    shown, _ = FaceBlur()(plain, [(10, 50, 20, 60)])
    assert len(np.unique(shown.rgb[10:50, 20:60].reshape(-1, 3), axis=0)) <= 16
    assert (shown.rgb[50:] == plain.rgb[50:]).all()


def test_of_places_on_one_face_the_surest_counts():
    heat, size, offset = np.zeros((8, 8)), np.zeros((2, 8, 8)), np.zeros((2, 8, 8))
    heat[2, 3], heat[2, 4], heat[6, 6] = 0.9, 0.8, 0.3
    size[:, 2, :] = np.log(4)  # places across and down: 16 pixels
    first, second = decode(heat, size, offset, 0.2)
    assert first.tolist() == [2, 6, 18, 22]  # around (2.5, 3.5) places of four pixels
    assert second.tolist() == [24, 24, 28, 28]


def test_without_the_model_it_says_what_now(tmp_path):
    with pytest.raises(ModelMissing, match=r"nothing is sent: .*earmark models get centerface"):
        FaceBlur(ModelStore(tmp_path)).check()


def test_weights_of_the_same_size_that_find_nothing_are_refused(tmp_path):
    require_faces()
    store, own = ModelStore(tmp_path), ModelStore().find("centerface")
    data = bytearray(own.read_bytes())
    data[-1_000_000:-1000] = bytes(999_000)
    store.path("centerface").write_bytes(data)
    with pytest.raises(ModelMissing, match=r"nothing is sent: .*is damaged or another file"):
        FaceBlur(store).check()
    store.path("centerface").write_bytes(own.read_bytes())
    FaceBlur(store).check()
    store.path("centerface").write_bytes(data)
    with pytest.raises(ModelMissing, match="is damaged or another file"):
        FaceBlur(store).find(Frame(0.0, np.zeros((64, 64, 3), dtype=np.uint8)))
