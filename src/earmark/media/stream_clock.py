"""Places the packets of a live stream on the wall clock.

time stamps   90.0 90.04 90.08 ──── 97.12 97.16    0.00 0.04     lost packets, then a reset clock
wall clock    12.0 12.04 12.08 ──── 19.12 19.16   19.20 19.24    a gap stays a gap; a reset is none

The first seconds of a connection set the offset: the packet that was the least delayed says how
far the clock of the stream is from ours. Afterwards time follows the stream, unless its stamps and
our clock disagree.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

JUMP = 1.0
"""Seconds between packets of one stream from which stamps are compared with the wall clock."""

SLACK = 5.0
"""Seconds by which arrival may differ from the stamps: segments of HLS arrive at once."""

DRIFT = 5.0
"""Seconds by which all packets of `DRIFT_WINDOW` are late or early before the offset follows."""

DRIFT_WINDOW = 300.0

MOST_APART = 2.0
"""Seconds between the offsets of sound and pictures up to which they share one."""

Clock = Callable[[], float]
"""Wall-clock time in seconds since 1970."""


def steady_clock() -> Clock:
    """Like `time.time`, but setting the clock of the machine does not make it jump."""
    zero = time.time() - time.monotonic()
    return lambda: zero + time.monotonic()


@dataclass(frozen=True, slots=True)
class PacketTime:
    stream: int
    stamp: float
    """Container time."""
    duration: float
    arrival: float
    """Wall clock."""


@dataclass(slots=True)
class StreamClock:
    """One connection. `place` gives each packet its wall-clock time, and says if a stamp jumped."""

    offsets: dict[int, float] = field(default_factory=dict)
    trusts_stamps: bool = False
    """Of a file: packets come as fast as it is read, so arrival says nothing."""
    jumps: int = 0
    _last: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    """Time, duration and arrival of the last packet of each stream."""
    _since: float | None = None
    _least_lag: float = 0.0

    def anchor(self, packets: list[PacketTime]) -> None:
        """Set the offset from the packets of the first seconds."""
        for packet in packets:
            offset = packet.arrival - packet.stamp
            known = self.offsets.get(packet.stream, offset)
            self.offsets[packet.stream] = min(known, offset)
        if self.offsets and max(self.offsets.values()) - min(self.offsets.values()) < MOST_APART:
            shared = min(self.offsets.values())
            self.offsets = dict.fromkeys(self.offsets, shared)

    def place(self, packet: PacketTime) -> float:
        if packet.stream not in self.offsets:  # a stream that begins later
            shared = next(iter(self.offsets.values()), packet.arrival - packet.stamp)
            self.offsets[packet.stream] = shared
        placed = packet.stamp + self.offsets[packet.stream]
        if packet.stream in self._last:
            before, duration, arrival = self._last[packet.stream]
            step, elapsed = placed - before, packet.arrival - arrival
            is_lost = step > 0 and (self.trusts_stamps or abs(step - elapsed) <= SLACK)
            if abs(step) > JUMP and not is_lost:
                self.jumps += 1
                placed = before + max(duration, 0.0 if self.trusts_stamps else elapsed)
                self.offsets[packet.stream] = placed - packet.stamp
        if not self.trusts_stamps:
            placed += self._follow(packet.arrival, packet.arrival - placed)
        self._last[packet.stream] = placed, packet.duration, packet.arrival
        return placed

    def _follow(self, now: float, lag: float) -> float:
        """The correction if every packet of the last minutes was late or early by `DRIFT`."""
        if self._since is None:
            self._since, self._least_lag = now, lag
        self._least_lag = least = min(self._least_lag, lag)
        if now - self._since < DRIFT_WINDOW:
            return 0.0
        self._since = None
        if abs(least) <= DRIFT:
            return 0.0
        self.jumps += 1
        self.offsets = {stream: offset + least for stream, offset in self.offsets.items()}
        self._last = {
            stream: (at + least, duration, arrival)
            for stream, (at, duration, arrival) in self._last.items()
        }
        return least
