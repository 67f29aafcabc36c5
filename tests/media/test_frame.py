"""Pictures are resized, written as JPEG and brought down from high dynamic range."""

from __future__ import annotations

import io
from fractions import Fraction

import av
import numpy as np
import pytest

from earmark import open_recording
from earmark.media import Frame
from earmark.media.frame import _hlg_light, _pq_light, _srgb, convert_frame
from making import make_video, numbered_picture, read_number

PQ, HLG = 16, 18


def decode(jpeg: bytes) -> np.ndarray:
    with av.open(io.BytesIO(jpeg)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


def test_a_jpeg_holds_the_picture():
    frame = Frame(1.0, numbered_picture(4711))
    jpeg = frame.jpeg(90)
    assert jpeg[:2] == b"\xff\xd8" and jpeg[-2:] == b"\xff\xd9"
    assert read_number(decode(jpeg)) == 4711
    assert np.abs(decode(jpeg).astype(int) - frame.rgb).mean() < 3
    assert len(frame.jpeg(10)) < len(frame.jpeg(60)) < len(frame.jpeg(100))


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (161, 121)], ids=str)
def test_any_size_of_jpeg(size):
    frame = Frame(0.0, numbered_picture(5)).resized(*size)
    assert decode(frame.jpeg()).shape == (size[1], size[0], 3)


def test_resizing_keeps_the_picture():
    frame = Frame(1.5, numbered_picture(1234))
    larger = frame.resized(320, 240)
    assert (larger.width, larger.height, larger.time) == (320, 240, 1.5)
    assert read_number(larger.resized(160, 120).rgb) == 1234
    smaller = frame.resized(80, 60).resized(160, 120)
    assert read_number(smaller.rgb) == 1234


@pytest.mark.parametrize(("quality", "scale"), [(1, 31), (50, 17), (85, 6), (100, 2)])
def test_quality_is_the_scale_of_the_tables(quality, scale):
    """The second entry of the table for brightness is 16 at a scale of 8."""
    jpeg = Frame(0.0, numbered_picture(7)).jpeg(quality)
    table = jpeg[jpeg.index(b"\xff\xdb") + 5 :]
    assert table[1] == 2 * scale


def test_a_thumbnail_is_small_and_of_the_same_shape():
    shapes = {(640, 480): (320, 240), (100, 50): (100, 50), (2000, 2): (320, 1)}
    for (width, height), (across, down) in shapes.items():
        frame = Frame(0.0, np.zeros((height, width, 3), np.uint8))
        assert Frame.from_jpeg(frame.thumbnail(), 2.0).rgb.shape == (down, across, 3)
    assert Frame.from_jpeg(frame.thumbnail(), 2.0).time == 2.0


def test_bad_wishes():
    frame = Frame(0.0, numbered_picture(1))
    with pytest.raises(ValueError, match="from 1 to 100, not 0"):
        frame.jpeg(0)
    with pytest.raises(ValueError, match="from 1 to 100, not 101"):
        frame.jpeg(101)
    with pytest.raises(ValueError, match="at least one pixel"):
        frame.resized(0, 10)


def grey(level: float, transfer: int) -> np.ndarray:
    """A 10-bit grey picture of one signal level, as it comes from a decoder."""
    picture = av.VideoFrame(64, 64, "yuv420p10le")
    for plane, value in zip(picture.planes, (64 + 876 * level, 512, 512), strict=True):
        rows = np.full(plane.buffer_size // 2, round(value), "<u2")
        plane.update(rows.tobytes())
    picture.colorspace, picture.color_primaries, picture.color_trc = 9, 9, transfer
    picture.color_range = 1
    return convert_frame(picture, 0.0).rgb


@pytest.mark.parametrize(("transfer", "white"), [(PQ, 0.5807), (HLG, 0.75)])
def test_high_dynamic_range_comes_out_ordinary(transfer, white):
    """Black stays black, greys rise, and what is brighter than white is not clipped at once."""
    levels = [0.0, white / 2, white, (white + 1) / 2, 1.0]
    shown = [int(np.median(grey(level, transfer))) for level in levels]
    assert shown == sorted(shown) and shown[0] <= 2 and shown[-1] >= 250
    assert 180 <= shown[2] <= 200  # x (1 + x / 25) / (1 + x) at 1 is 0.52, in sRGB 190.
    assert shown[3] > shown[2] + 10
    assert np.ptp(grey(white, transfer)) <= 2


def shown_as(light: float) -> float:
    """What light in units of reference white comes out as: rolled off up to 5 times white, sRGB."""
    rolled = min(1.0, light * (1 + light / 25) / (1 + light))
    return 255 * (12.92 * rolled if rolled <= 0.0031308 else 1.055 * rolled ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize("nits", [0.05, 0.5, 3.0, 20.0, 100.0, 203.0, 500.0, 1000.0])
def test_perceptual_quantizer_signals_are_the_light_they_stand_for(nits):
    """By the inverse of the curve, as ST 2084 writes it."""
    power = (nits / 10_000) ** 0.1593017578125
    signal = ((0.8359375 + 18.8515625 * power) / (1 + 18.6875 * power)) ** 78.84375
    assert np.median(grey(signal, PQ)) == pytest.approx(shown_as(nits / 203), abs=1.6)
    assert _pq_light(np.array([signal]))[0] == pytest.approx(nits / 203, rel=1e-6)


@pytest.mark.parametrize("scene", [0.0005, 0.005, 0.04, 1 / 12, 0.1, 0.265, 0.5, 0.9])
def test_hybrid_log_gamma_signals_are_the_light_they_stand_for(scene):
    """By the inverse of the curve, as BT.2100 writes it; white is the signal 0.75, 26.5 %."""
    log = 0.17883277 * np.log(max(12 * scene - 0.28466892, 1e-9)) + 0.55991073
    signal = np.sqrt(3 * scene) if scene <= 1 / 12 else log
    expected = shown_as((scene / 0.26496) ** 1.2)
    assert _hlg_light(np.array([signal]))[0] == pytest.approx((scene / 0.26496) ** 1.2, rel=1e-4)
    assert np.median(grey(signal, HLG)) == pytest.approx(expected, abs=1.6)


@pytest.mark.parametrize("light", [0.0, 0.001, 0.0031308, 0.0032, 0.2, 1.0])
def test_light_is_encoded_as_a_screen_shows_it(light):
    shown = 12.92 * light if light <= 0.0031308 else 1.055 * light ** (1 / 2.4) - 0.055
    assert _srgb(np.array([light], np.float32))[0] == pytest.approx(shown, rel=1e-5)


def test_the_colours_of_plain_video_are_kept(tmp_path):
    colours = np.zeros((720, 96, 3), np.uint8)
    colours[:, :32], colours[:, 32:64], colours[:, 64:] = (
        (200, 30, 30),
        (30, 200, 30),
        (30, 30, 200),
    )
    path = make_video(
        tmp_path / "colours.mp4",
        duration=0.2,
        has_audio=False,
        size=(96, 720),
        draw=lambda _: colours,
        matrix="bt709",
    )
    (frame,) = open_recording(path).frames([0.1])
    for column in (16, 48, 80):
        assert np.abs(frame.rgb[360, column].astype(int) - colours[360, column]).max() < 12
    assert Fraction(frame.width, frame.height) == Fraction(96, 720)
