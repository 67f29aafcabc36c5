from __future__ import annotations

import pickle

import numpy as np
import pytest

from earmark import Span
from earmark.errors import ModelMissing
from earmark.evidence.picture_evidence import TextReader
from earmark.media import Frame
from earmark.models import ModelStore
from earmark.models.catalogue import PPOCR
from made_speech import needs_models

cv2 = pytest.importorskip("cv2", reason="OpenCV draws the text, and is not installed")
SPAN = Span(4.0, 8.0)


def sign(*lines: str, tilt: float = 0.0) -> Frame:
    """A picture with lines of text on it, turned by so many degrees."""
    picture = np.full((480, 640, 3), 205, np.uint8)
    for place, line in enumerate(lines):
        at = (60, 140 + 110 * place)
        cv2.putText(picture, line, at, cv2.FONT_HERSHEY_SIMPLEX, 1.3, (30, 30, 90), 3)
    turn = cv2.getRotationMatrix2D((320, 240), tilt, 1.0)
    turned = cv2.warpAffine(picture, turn, (640, 480), borderValue=(205, 205, 205))
    return Frame(5.0, turned)


@needs_models(*PPOCR)
class TestReading:
    def test_lines_are_read_upright_and_tilted(self):
        reader = pickle.loads(pickle.dumps(TextReader()))
        for tilt in (0.0, 8.0):
            found = reader([sign("EXIT 42", "torque 25 Nm", tilt=tilt)], SPAN)
            assert {entry.text for entry in found} == {"EXIT 42", "torque 25 Nm"}
            assert {(entry.kind, entry.origin, entry.span) for entry in found} == {
                ("read", "pp-ocr", SPAN)
            }
            assert all(entry.confidence > 0.8 for entry in found)

    def test_the_same_line_in_several_frames_is_one(self):
        found = TextReader()([sign("WASH HANDS"), sign("WASH HANDS"), sign()], SPAN)
        assert [entry.text for entry in found] == ["WASH HANDS"]

    def test_nothing_is_read_where_nothing_is_written(self):
        noise = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
        assert TextReader()([Frame(0.0, noise), sign()], SPAN) == []


def test_without_the_files_it_says_how_to_get_them(tmp_path):
    with pytest.raises(ModelMissing, match="earmark models get ppocr-detection"):
        TextReader(store=ModelStore(tmp_path)).check()
