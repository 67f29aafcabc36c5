"""Frames as upright 8-bit RGB pictures of standard dynamic range.

Pictures of high dynamic range (PQ and HLG transfer) are converted to linear light in units of
reference white (203 cd/m², ITU-R BT.2408), then to the BT.709 primaries, tone-mapped by `x (1 + x /
25) / (1 + x)` (extended Reinhard, peak five times white) and encoded as sRGB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
from av.codec.context import CodecContext
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import Colorspace, Interpolation
from numpy.typing import NDArray

from earmark.timeline import FloatArray

Pixels = NDArray[np.uint8]  # `(height, width, 3)`, red, green and blue

PictureBox = tuple[int, int, int, int]
"""First and last row, first and last column, in pixels; the last are exclusive."""
LightCurve = Callable[[FloatArray], FloatArray]
_UNSPECIFIED = 2
_HD_HEIGHT = 720  # pictures without a colour space are BT.709 from this height on, BT.601 below
_WHITE = 203.0
_PEAK = 5.0

# BT.2020 to BT.709 primaries in linear light (ITU-R BT.2087).
_TO_709 = np.array(
    [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]],
    np.float32,
)


THUMBNAIL_PIXELS = 320


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    time: float
    rgb: Pixels

    @property
    def width(self) -> int:
        return int(self.rgb.shape[1])

    @property
    def height(self) -> int:
        return int(self.rgb.shape[0])

    def resized(self, width: int, height: int) -> Frame:
        if min(width, height) < 1:
            raise ValueError(f"a picture needs at least one pixel, not {width} x {height}")
        shrinks = width <= self.width and height <= self.height
        interpolation = Interpolation.AREA if shrinks else Interpolation.BICUBIC
        picture = VideoFrame.from_ndarray(np.ascontiguousarray(self.rgb), format="rgb24")
        picture = picture.reformat(width=width, height=height, interpolation=interpolation)
        return Frame(self.time, cast(Pixels, picture.to_ndarray()))

    @classmethod
    def from_jpeg(cls, data: bytes, time: float = 0.0) -> Frame:
        decoder = CodecContext.create("mjpeg", "r")
        packet: Packet[Any] = Packet(data)
        (decoded,) = cast("list[VideoFrame]", [*decoder.decode(packet), *decoder.decode(None)])
        picture = decoded.reformat(format="rgb24", src_colorspace=Colorspace.ITU601)
        return cls(time, cast(Pixels, picture.to_ndarray()))

    def thumbnail(self) -> bytes:
        width = min(THUMBNAIL_PIXELS, self.width)
        height = max(1, round(self.height * width / self.width))
        return self.resized(width, height).jpeg(quality=80)

    def jpeg(self, quality: int = 85) -> bytes:
        """`quality` from 1 (small) to 100 (good)."""
        if not 1 <= quality <= 100:
            raise ValueError(f"JPEG quality goes from 1 to 100, not {quality}")
        encoder = CodecContext.create("mjpeg", "w")
        encoder.width, encoder.height = self.width, self.height
        encoder.pix_fmt = "yuvj420p"
        encoder.time_base = Fraction(1, 1)
        # mjpeg's own scale goes from 2 (good) to 31 (small).
        scale = str(round(31 - 29 * (quality - 1) / 99))
        encoder.options = {"qmin": scale, "qmax": scale}
        picture = VideoFrame.from_ndarray(np.ascontiguousarray(self.rgb), format="rgb24")
        picture = picture.reformat(format="yuvj420p", dst_colorspace=Colorspace.ITU601)
        packets = [*encoder.encode(picture), *encoder.encode(None)]
        return b"".join(bytes(packet) for packet in packets)


def usual_colorspace(height_pixels: int) -> Colorspace:
    return Colorspace.ITU709 if height_pixels >= _HD_HEIGHT else Colorspace.ITU601


def convert_frame(picture: VideoFrame, time: float, *, longest: int | None = None) -> Frame:
    """Its longer side has at most `longest` pixels."""
    scale = min(1.0, (longest or math.inf) / max(picture.width, picture.height))
    size: dict[str, Any] = {}
    if scale < 1:
        sides = {"width": picture.width, "height": picture.height}
        size = {name: max(2, round(side * scale / 2) * 2) for name, side in sides.items()}
        size["interpolation"] = Interpolation.AREA
    is_unspecified = picture.colorspace == _UNSPECIFIED
    space = usual_colorspace(picture.height) if is_unspecified else None
    curve = _CURVES.get(picture.color_trc)
    form = "rgb48le" if curve else "rgb24"
    rgb: Any = picture.reformat(format=form, src_colorspace=space, **size).to_ndarray()
    if curve:
        rgb = _tone_map(rgb, curve)
    quarter_turns = round(picture.rotation / 90) % 4
    return Frame(time, np.ascontiguousarray(np.rot90(rgb, quarter_turns)))


def _tone_map(deep: NDArray[np.uint16], curve: LightCurve) -> Pixels:
    table = curve(np.linspace(0.0, 1.0, 1 << 16)).astype(np.float32)
    light = np.maximum(table[deep] @ _TO_709.T, 0.0)
    rolled = light * (1.0 + light / _PEAK**2) / (1.0 + light)
    return np.round(255.0 * _srgb(np.clip(rolled, 0.0, 1.0))).astype(np.uint8)


def _pq_light(signal: FloatArray) -> FloatArray:
    """SMPTE ST 2084, in units of reference white."""
    root = signal ** (32.0 / 2523.0)
    raised = np.maximum(root - 107.0 / 128.0, 0.0) / (2413.0 / 128.0 - 2392.0 / 128.0 * root)
    return np.asarray(10_000.0 / _WHITE * raised ** (16384.0 / 2610.0))


def _hlg_light(signal: FloatArray) -> FloatArray:
    """ARIB STD-B67, in units of reference white, which has the signal 0.75."""
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    scene = np.where(signal <= 0.5, signal**2 / 3.0, (np.exp((signal - c) / a) + b) / 12.0)
    # The display's curve (BT.2100, gamma 1.2) by channel: near enough for a caption.
    white = ((np.exp((0.75 - c) / a) + b) / 12.0) ** 1.2
    return np.asarray(scene**1.2 / white)


_CURVES: dict[int, LightCurve] = {16: _pq_light, 18: _hlg_light}
"""By the numbers of transfer characteristics in ITU-T H.273."""


def _srgb(light: FloatArray) -> FloatArray:
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
