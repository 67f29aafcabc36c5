"""Pictures of a video blurred one by one and encoded anew."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Protocol

from av.video.frame import VideoFrame

from earmark.media.frame import Frame, convert_frame

PictureBox = tuple[int, int, int, int]
"""First row, last, first column, last, in pixels of a frame; the last are not of it."""

CLOCK = 90_000
"""Ticks a second of pictures that are encoded anew."""

HELD = 0.3
"""Seconds that what was found once is blurred for: a face that turns away is still there."""


class Blur(Protocol):
    """Blurs what must not be seen in a frame."""

    def __call__(
        self, frame: Frame, also: Sequence[PictureBox] = ()
    ) -> tuple[Frame, list[PictureBox]]:
        """The frame, blurred also in the boxes `also`; and the boxes found in it."""
        ...

    def smaller(self) -> Blur:
        """The same for videos, of which every picture is searched."""
        ...


class BlurredVideo:
    """The video stream of a clip, encoded from frames that are blurred first."""

    def __init__(self, made: Any, first: Frame, blur: Blur) -> None:
        """Pictures of the size of `first` in the container `made`."""
        self._made, self._blur = made, blur.smaller()
        self._stream = add_video(made, first.width, first.height)
        self._found: deque[tuple[float, list[PictureBox]]] = deque()

    def write(self, pictures: Iterable[VideoFrame], begin: float, end: float) -> None:
        """Show those of `pictures` from `begin` to `end` of the container's time, from 0 on."""
        for picture in pictures:
            if picture.time is None or not begin <= picture.time <= end:
                continue
            frame = self._blurred(convert_frame(picture, picture.time))
            rgb = frame.rgb[: self._stream.height, : self._stream.width]
            shown = VideoFrame.from_ndarray(rgb.copy(), format="rgb24").reformat(format="yuv420p")
            shown.pts, shown.time_base = at_time(picture.time - begin, CLOCK)
            self._made.mux(self._stream.encode(shown))

    def close(self) -> None:
        """Write what the encoder still holds."""
        self._made.mux(self._stream.encode(None))

    def _blurred(self, frame: Frame) -> Frame:
        while self._found and self._found[0][0] < frame.time - HELD:
            self._found.popleft()
        shown, found = self._blur(frame, [box for _, boxes in self._found for box in boxes])
        self._found.append((frame.time, found))
        return shown


def add_video(made: Any, width: int, height: int) -> Any:
    """A stream of pictures of that size, less an odd pixel, that players everywhere show."""
    stream = made.add_stream("libx264", 30, options={"crf": "21", "preset": "veryfast"})
    stream.width, stream.height = width // 2 * 2, height // 2 * 2
    stream.pix_fmt = "yuv420p"
    stream.codec_context.time_base = Fraction(1, CLOCK)
    return stream


def at_time(time: float, rate: int) -> tuple[int, Fraction]:
    """A moment as ticks of a clock, and how long one is."""
    return round(time * rate), Fraction(1, rate)
