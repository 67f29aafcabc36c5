"""Hands are found where they are drawn, and frames are cut to them."""

from __future__ import annotations

import numpy as np
import pytest

from drawn_hand import drawn_hand
from earmark.errors import ModelMissing
from earmark.media import Frame
from earmark.models import ModelStore
from earmark_lab.experiments.captions import (
    GRIDS,
    SIDE,
    HandCrop,
    anchors,
    crop,
    decode,
    letterbox,
)


@pytest.fixture(scope="module")
def hands() -> HandCrop:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("cv2")
    try:
        return HandCrop(weights=ModelStore().find("hands"))
    except ModelMissing as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("across", "down", "size"), [(320, 260, 1.0), (180, 200, 0.6)])
def test_a_drawn_hand_is_found_where_it_is(hands, across, down, size):
    palm, *others = hands.find(drawn_hand(across=across, down=down, size=size))
    assert not others
    top, left, bottom, right = palm
    assert abs((left + right) / 2 - across) < 30 * size
    assert abs((top + bottom) / 2 - (down + 20 * size)) < 40 * size
    assert 80 * size < right - left < 180 * size


def test_no_hand_is_no_box_and_no_crop(hands):
    empty = Frame(0.0, np.full((480, 640, 3), 128, np.uint8))
    assert hands.find(empty) == []
    assert hands(empty) is None


def test_the_crop_holds_the_hand_and_little_else(hands):
    frame = drawn_hand(across=400, down=260, size=0.6)
    cut = hands(frame)
    assert cut is not None and cut.time == frame.time
    assert cut.width * cut.height < 0.4 * frame.width * frame.height
    skin = lambda one: int((one.rgb[..., 0] > 200).sum())  # noqa: E731
    assert skin(cut) > 0.8 * skin(frame)


FRAME = Frame(2.5, np.arange(100 * 200 * 3, dtype=np.uint32).astype(np.uint8).reshape(100, 200, 3))


@pytest.mark.parametrize(
    ("boxes", "around", "rows", "columns"),
    [
        ([(40, 50, 60, 70)], 1.0, (40, 60), (50, 70)),
        ([(40, 50, 60, 70)], 2.0, (30, 70), (40, 80)),
        ([(10, 10, 20, 20), (60, 150, 90, 160)], 1.0, (10, 90), (10, 160)),
        ([(80, -20, 120, 20)], 2.0, (60, 100), (0, 40)),
        ([(300, 300, 310, 310)], 1.0, (99, 100), (199, 200)),
    ],
    ids=["as it is", "twice as large", "two hands", "over the edge", "outside"],
)
def test_crops_stay_inside(boxes, around, rows, columns):
    cut = crop(FRAME, list(map(np.array, boxes)), around=around)
    assert cut.time == 2.5
    assert (cut.rgb == FRAME.rgb[slice(*rows), slice(*columns)]).all()


def test_there_are_as_many_places_as_the_network_has():
    assert anchors().shape == (sum(side * side * shared for side, shared in GRIDS), 2) == (2016, 2)
    assert anchors()[0].tolist() == pytest.approx([0.5 / 24, 0.5 / 24])
    assert anchors()[2].tolist() == pytest.approx([1.5 / 24, 0.5 / 24])
    assert anchors()[-1].tolist() == pytest.approx([11.5 / 12, 11.5 / 12])


def test_of_two_on_top_of_each_other_the_surer_stays():
    places, scores = np.zeros((2016, 18), np.float32), np.full(2016, -9.0, np.float32)
    places[[0, 1, 2000], 2:4] = 40.0
    scores[[0, 1, 2000]] = 2.0, 3.0, 1.0
    surer, other = decode(places, scores, 0.5)
    middles = anchors()[[1, 2000]] * SIDE
    assert [(box[:2] + box[2:]).tolist() for box in (surer, other)] == [
        pytest.approx(2 * middle[::-1]) for middle in middles
    ]
    assert decode(places, scores, 0.99) == []


def test_a_wide_frame_is_put_in_the_middle_of_the_square():
    canvas, scale, left, top = letterbox(Frame(0.0, np.full((200, 400, 3), 255, np.uint8)))
    assert (canvas.shape, scale, left, top) == ((192, 192, 3), 0.48, 0, 48)
    assert canvas[48:144].min() == 1.0 and canvas[:48].max() == canvas[144:].max() == 0.0
