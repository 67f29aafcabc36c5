"""Listens to one live source in a thread of its own, and hands on what was heard.

stream ──▶ stretches of sound ──▶ windows, rated `latency` seconds later ──▶ queue ──▶ watch
       ├── named sounds, gaps, states ─────────────────────────────────────▶
       └── pictures, compressed ──▶ ring
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from queue import Full, Queue
from typing import Protocol

import numpy as np

from earmark.errors import EarmarkError, internal_error
from earmark.evidence.live_sounds import SoundCells, name_live
from earmark.features.sound_tags import PatchTagger
from earmark.features.spectrum import decibels
from earmark.media import Sound
from earmark.media.live_stream import Gap, LiveEvent, State
from earmark.media.packet_ring import PacketRing
from earmark.media.sound_pieces import SoundPiece
from earmark.media.storage import Meter
from earmark.selection.live_windows import LiveListener, LiveWindows


class Stream(Protocol):
    """What `LiveStream` is; tests and simulations bring their own."""

    ring: PacketRing
    meter: Meter

    @property
    def until(self) -> float: ...

    def events(self) -> Iterator[LiveEvent]: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Level:
    """The sound level of about a second."""

    time: float
    decibels: float
    duration: float


@dataclass(frozen=True, slots=True)
class Broken:
    """Listening ended by an error; a bug if it is an `InternalError`."""

    error: EarmarkError


Heard = LiveWindows | SoundCells | Level | Gap | State | Broken


@dataclass(slots=True, eq=False)
class SourceListener:
    name: str
    stream: Stream
    listener: LiveListener
    queue: Queue[tuple[SourceListener, Heard]]
    stopped: threading.Event
    tagger: PatchTagger | None = None
    """Names sounds, if there is a model."""
    state: State = State("connecting")  # noqa: RUF009 - it is frozen
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(
            target=self._run, name=f"listen to {self.name}", daemon=True
        )
        self._thread.start()

    def stop(self, patience: float) -> None:
        """A thread that still runs a network when the interpreter ends would abort the process."""
        self.stream.stop()
        if self._thread:
            self._thread.join(patience)

    def _run(self) -> None:
        try:
            self._listen()
        except EarmarkError as error:
            self._put(Broken(error))
        except Exception as error:  # noqa: BLE001 - the other sources go on
            self._put(Broken(internal_error(self.name, error)))

    def _listen(self) -> None:
        events = self.stream.events()
        for event in events:
            following = self._pass_on(event)
            while following is not None:
                hear = self._hear_silence if following.is_silence else self._hear_stretch
                following = hear(following, events)

    def _hear_stretch(self, first: SoundPiece, events: Iterator[LiveEvent]) -> SoundPiece | None:
        """Rate the windows of a stretch; returns the first piece of the next one, if it came."""
        following: SoundPiece | None = None
        start = first.sound.start

        def sound() -> Iterator[Sound]:
            nonlocal following
            yield replace(first.sound, start=0.0)
            for event in events:
                piece = self._pass_on(event)
                if piece is not None and piece.begins:
                    following = piece
                    return
                if piece is not None:
                    yield replace(piece.sound, start=piece.sound.start - start)
                elif isinstance(event, State) and event.state in ("lost", "ended"):
                    return

        named = sound()
        if self.tagger:
            named = name_live(self.tagger, named, start=start, take=self._put)
        for windows in self.listener.listen(named, start=start):
            self._put(windows)
        return following

    def _hear_silence(self, first: SoundPiece, events: Iterator[LiveEvent]) -> SoundPiece | None:
        """As `_hear_stretch`, for a source that sends pictures alone."""
        length = self.listener.grid.length
        window, piece = int(-(-first.sound.start // length)), first
        while True:
            until = int((piece.sound.start + len(piece.sound) / piece.sound.sample_rate) // length)
            if until > window:
                self._put(self.listener.rate_unheard(window, until - window))
                window = until
            event = next(events, None)
            if event is None or (isinstance(event, State) and event.state in ("lost", "ended")):
                if event is not None:
                    self._pass_on(event)
                return None
            if (following := self._pass_on(event)) is not None:
                if following.begins:
                    return following
                piece = following

    def _pass_on(self, event: LiveEvent) -> SoundPiece | None:
        """Sound, or None: states and gaps go to the queue."""
        if isinstance(event, SoundPiece):
            power = float(np.mean(event.sound.values.astype(float) ** 2)) if event.sound else 0.0
            duration = len(event.sound) / event.sound.sample_rate
            level = float(decibels(np.array([np.sqrt(power)]))[0])
            self._put(Level(event.sound.start, level, duration))
            return event
        if isinstance(event, State):
            self.state = event
        self._put(event)
        return None

    def _put(self, heard: Heard) -> None:
        """Waits while the queue is full: a file that is read faster than it is used."""
        while not self.stopped.is_set():
            try:
                self.queue.put((self, heard), timeout=1.0)
            except Full:
                continue
            return
