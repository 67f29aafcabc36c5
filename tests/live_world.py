"""Live sources that are made up, on a clock that is set by what they send.

One character is one second: `.` quiet, `x` knocks, `!` the stream is lost, `-` no sound.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from earmark.media import Frame, Sound
from earmark.media.live_stream import Gap, LiveEvent, State
from earmark.media.packet_ring import PacketRing, StoredPacket, StreamFormat
from earmark.media.sound_pieces import SoundPiece
from earmark.media.storage import Meter
from earmark.timeline import Span

RATE = 16_000


class SetClock:
    """Wall-clock time as the streams have it: the furthest of them."""

    def __init__(self, start: float) -> None:
        self.now = start

    def __call__(self) -> float:
        return self.now


class DrawnStream:
    """Sends the seconds of a drawing as fast as they are taken, then ends."""

    def __init__(self, drawing: str, ring: PacketRing, clock: SetClock, *, seed: int = 0) -> None:
        self.drawing, self.ring, self.clock, self.meter = drawing, ring, clock, Meter()
        self.begin = self.until = clock.now
        self._stopped = threading.Event()
        rng = np.random.default_rng(seed)
        self._quiet = (0.003 * rng.standard_normal(RATE)).astype(np.float32)
        self._knock = self._quiet.copy()
        self._knock[::4000] += 0.8
        self._picture = Frame(0.0, np.full((48, 64, 3), 90, np.uint8)).jpeg()
        self._format = StreamFormat.of_jpeg(self._picture, 64, 48, 1.0)

    def stop(self) -> None:
        self._stopped.set()

    def events(self) -> Iterator[LiveEvent]:
        yield State("listening", video="mjpeg 64x48", sound="made 16000 Hz")
        before = "!"
        for second, sign in enumerate(self.drawing):
            if self._stopped.is_set():
                break
            time = self.begin + second
            self.clock.now = max(self.clock.now, time)
            if sign == "!":
                if before != "!":
                    yield State("lost", "unplugged")
                before = sign
                continue
            if before == "!" and second:
                yield State("listening", video="mjpeg 64x48", sound="made 16000 Hz")
                yield Gap(Span(self.until, time), "unplugged")
            yield self._second(time, sign, begins=before == "!" or (sign == "-") != (before == "-"))
            before = sign
        yield State("ended", "the stream ended")

    def _second(self, time: float, sign: str, *, begins: bool) -> SoundPiece:
        ticks = round(time * 1000)
        stored = StoredPacket(time, ticks, ticks, 1000, True, self._picture)
        self.ring.add(stored, self._format)
        self.meter.bytes_read += len(self._picture)
        self.until = time + 1.0
        samples = {"x": self._knock, ".": self._quiet}.get(sign, np.zeros(RATE, np.float32))
        return SoundPiece(Sound(samples, time, RATE), begins, is_silence=sign == "-")
