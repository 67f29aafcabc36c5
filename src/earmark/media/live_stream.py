"""Hears one live source without end: sound in pieces, video packets into the ring, gaps as events.

packets ──▶ wall clock ──┬──▶ ring            video, and sound for clips
                         └──▶ decode ──▶ mono pieces of a second ──▶ whoever scores them
lost, stalled, ended ──▶ backoff ──▶ opened again: what lies between is a gap
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from av.container import InputContainer
from av.packet import Packet

from earmark.errors import MediaError
from earmark.media.audio_decoder import SOUND_RATES
from earmark.media.container import decode_packet, demux_packets, find_video_stream
from earmark.media.frame import convert_frame
from earmark.media.live_input import LiveInput, file_clock
from earmark.media.packet_ring import PacketRing, StoredPacket, StreamFormat
from earmark.media.sound_pieces import SoundPiece, SoundPieces
from earmark.media.storage import Meter
from earmark.media.stream_clock import Clock, PacketTime, StreamClock, steady_clock
from earmark.timeline import Span

ANCHOR = 2.0
"""Seconds of a new connection that set its clock: some servers send older packets at once."""

LEAST_GAP = 1.0
"""Seconds without sound and pictures."""

LATE_SOUND = 4.0
"""Seconds by which sound may lag behind the pictures before it counts as silent."""

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds between two attempts to connect, doubled each time."""

STEADY = 60.0
"""Seconds of connection after which the next wait is the first one again."""

RAW = ("rawvideo", "wrapped_avframe")
"""Pictures of a capture device: raw ones fill the ring, so `RAW_FPS` are stored, as JPEG."""

RAW_FPS = 4.0


@dataclass(frozen=True, slots=True)
class Gap:
    span: Span
    """Wall clock."""
    reason: str


@dataclass(frozen=True, slots=True)
class State:
    """`connecting`, `listening`, `lost` or `ended`."""

    state: str
    reason: str = ""
    video: str = ""
    sound: str = ""


LiveEvent = SoundPiece | Gap | State


class LiveStream:
    """One source. `events` runs in the thread of its caller until `stop`, or the file has ended."""

    def __init__(
        self,
        source: LiveInput,
        ring: PacketRing,
        *,
        sample_rate: int,
        clock: Clock | None = None,
    ) -> None:
        self.source, self.ring, self.meter = source, ring, Meter()
        self._clock = clock or steady_clock()
        self._sound = SoundPieces(sample_rate)
        self._stopped = threading.Event()
        self._formats: dict[int, StreamFormat] = {}
        self._pictures_until = self._raw_until = 0.0
        self._reason = "not watched yet"

    def stop(self) -> None:
        self._stopped.set()

    @property
    def until(self) -> float:
        """Wall-clock time up to which the stream was received, or 0."""
        return max(self._sound.end, self._pictures_until)

    def events(self) -> Iterator[LiveEvent]:
        wait = FIRST_WAIT
        while not self._stopped.is_set():
            yield State("connecting")
            began = self._clock()
            try:
                yield from self._read()
                self._reason = "the stream ended"
            except MediaError as error:
                self._reason = str(error)
            yield from self._sound.flush()
            if (self.source.is_file and self.until) or self._stopped.is_set():
                yield State("ended", self._reason)
                return
            wait = FIRST_WAIT if self._clock() - began > STEADY else min(wait, LONGEST_WAIT)
            yield State("lost", self._reason)
            self._stopped.wait(wait)
            wait *= 2

    def _read(self) -> Iterator[LiveEvent]:
        source = self.source
        clock = StreamClock(trusts_stamps=source.is_file)
        shift = file_clock(Path(source.address)) if source.is_file else None
        with source.open(self._stopped.is_set) as container:
            if source.scheme.startswith("http") and container.duration:
                raise MediaError(f"{source} is a finished recording; use `earmark caption`")
            streams = self._choose_streams(container)
            if shift is not None:
                clock.offsets = {stream.index: shift for stream in streams.values()}
            yield _describe(streams)
            self._formats.clear()
            held: list[tuple[Packet[Any], PacketTime]] | None = [] if shift is None else None
            for packet in demux_packets(container, *streams.values()):
                if self._stopped.is_set():
                    return
                if (stamped := self._stamp(packet)) is None:
                    continue
                if held is None:
                    yield from self._take(packet, clock.place(stamped), streams)
                    continue
                held.append((packet, stamped))
                if stamped.arrival - held[0][1].arrival >= ANCHOR:
                    yield from self._take_held(held, clock, streams)
                    held = None
            yield from self._take_held(held or [], clock, streams)

    def _take_held(
        self,
        held: list[tuple[Packet[Any], PacketTime]],
        clock: StreamClock,
        streams: dict[str, Any],
    ) -> Iterator[LiveEvent]:
        clock.anchor([stamped for _, stamped in held])
        for packet, stamped in held:
            yield from self._take(packet, clock.place(stamped), streams)

    def _choose_streams(self, container: InputContainer) -> dict[str, Any]:
        streams: dict[str, Any] = {}
        video = find_video_stream(container)
        if video is not None and video.codec_context is not None:
            streams["video"] = video
        for audio in container.streams.audio:
            if audio.codec_context is not None and audio.codec_context.sample_rate in SOUND_RATES:
                streams.setdefault("audio", audio)
        if not streams:
            raise MediaError(f"{self.source} has neither sound nor pictures")
        return streams

    def _stamp(self, packet: Packet[Any]) -> PacketTime | None:
        """None for a packet that does not say when it is shown."""
        if not packet.size or packet.pts is None or packet.time_base is None:
            return None
        tick = float(packet.time_base)
        duration = (packet.duration or 0) * tick
        return PacketTime(packet.stream.index, packet.pts * tick, duration, self._clock())

    def _take(
        self, packet: Packet[Any], time: float, streams: dict[str, Any]
    ) -> Iterator[LiveEvent]:
        self.meter.bytes_read += packet.size
        if not self.until:
            self._sound.skip_to(time)
        elif time - self.until > LEAST_GAP:
            yield from self._sound.flush()
            reason = self._reason or "packets are missing"
            yield Gap(Span(self.until, time), reason)
            self._sound.skip_to(time)
        self._reason = ""
        stream = packet.stream
        if stream == streams.get("video"):
            self._store_picture(packet, time)
            self._pictures_until = max(self._pictures_until, time)
            if time - self._sound.end > LATE_SOUND:
                yield from self._sound.be_silent(time - LATE_SOUND / 2)
            return
        self._store(packet, time)
        for frame in decode_packet(stream.codec_context.decode, packet, self.meter):
            if frame.sample_rate in SOUND_RATES:
                yield from self._sound.add(frame, time)
                time += frame.samples / frame.sample_rate

    def _store_picture(self, packet: Packet[Any], time: float) -> None:
        stream: Any = packet.stream
        if stream.codec_context.name not in RAW:
            self._store(packet, time)
        elif time - self._raw_until >= 1 / RAW_FPS:
            self._raw_until = time
            for picture in decode_packet(stream.codec_context.decode, packet, self.meter):
                frame = convert_frame(picture, time)
                data = frame.jpeg(90)
                if stream.index not in self._formats:
                    size = frame.width, frame.height
                    self._formats[stream.index] = StreamFormat.of_jpeg(data, *size, RAW_FPS)
                millisecond = round(time * 1000)
                stored = StoredPacket(time, millisecond, millisecond, 250, True, data)
                self.ring.add(stored, self._formats[stream.index])

    def _store(self, packet: Packet[Any], time: float) -> None:
        if packet.stream.index not in self._formats:
            if not packet.is_keyframe:
                return
            self._formats[packet.stream.index] = StreamFormat.of(packet.stream, packet)
        assert packet.pts is not None
        dts = packet.pts if packet.dts is None else packet.dts
        duration, is_key = packet.duration or 0, bool(packet.is_keyframe)
        stored = StoredPacket(time, packet.pts, dts, duration, is_key, bytes(packet))
        self.ring.add(stored, self._formats[packet.stream.index])


def _describe(streams: dict[str, Any]) -> State:
    video, sound = streams.get("video"), streams.get("audio")
    return State(
        "listening",
        video=f"{video.codec_context.name} {video.width}x{video.height}" if video else "",
        sound=f"{sound.codec_context.name} {sound.codec_context.sample_rate} Hz" if sound else "",
    )


def run_in_thread(stream: LiveStream, take: Callable[[LiveEvent], None]) -> threading.Thread:
    """Hand every event of `stream` to `take` in a thread that ends with the process."""

    def run() -> None:
        for event in stream.events():
            take(event)

    thread = threading.Thread(target=run, name=f"listen to {stream.source}", daemon=True)
    thread.start()
    return thread
