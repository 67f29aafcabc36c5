"""Decodes a long recording in a process of its own, so that listening has a core for itself.

    the other process                         │ this one
    read ──▶ decode ──▶ pieces of runs ──▶ shared memory ──▶ resample ──▶ features ──▶ scores

Threads of one process would wait for each other: libav is called for ten microseconds at a time,
and the interpreter's lock is taken again after each. What is decoded is the same to the last bit.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe, current_process
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawArray
from typing import Any

from av.audio.frame import AudioFrame

from earmark.errors import BackendError, EarmarkError, internal_error
from earmark.media.audio_decoder import RunPiece, decode_runs
from earmark.media.child_process import cores, start_process
from earmark.media.recording_part import Part
from earmark.media.source import is_remote, place_of
from earmark.media.storage import Meter

WORTH_A_PROCESS = 1500.0
"""Seconds of sound whose decoding is worth the start of a process."""

_SLOTS, _SLOT_BYTES = 48, 288 << 10
"""Of the shared memory, 14 MB: as much as is decoded ahead. A slot holds a piece of stereo."""


def is_worth_a_process(parts: Sequence[Part]) -> bool:
    """Whether the sound of a recording is better decoded in a process of its own.

    Not where a batch has a process on every core already, nor over a network, which is waited for.
    """
    return (
        parts[-1].end >= WORTH_A_PROCESS
        and cores() > 1
        and not current_process().daemon
        and not any(is_remote(part.uri) for part in parts)
    )


def decode_in_process(
    parts: Sequence[Part], track: int, meter: Meter
) -> Generator[RunPiece, None, None]:
    """What `decode_runs` gives, and raises, decoded in another process, which is started at once.

    `BackendError` where that process was lost.
    """
    pieces = _decode_in_process(parts, track, meter)
    next(pieces)
    return pieces


def _decode_in_process(
    parts: Sequence[Part], track: int, meter: Meter
) -> Generator[Any, None, None]:
    """Nothing at first, once the process is started: from here on, whoever closes this ends it."""
    ours, theirs = Pipe()
    memory = RawArray("B", _SLOTS * _SLOT_BYTES)
    process = start_process(_decoder_main, theirs, memory, tuple(parts), track, meter)
    theirs.close()
    try:
        yield
        yield from _receive(ours, memory, meter)
    except (EOFError, ConnectionError):
        process.join()
        raise BackendError(
            f"{place_of(parts[0].uri)}: the process that decodes its sound was lost (code "
            f"{process.exitcode}); see what it printed, or give it more memory"
        ) from None
    finally:
        process.kill()
        process.join()
        ours.close()


_MessageHeader = tuple[int, float | None, str, str, int, int, Meter]
"""What is sent of a piece beside its samples: its part and when it begins, the kind, layout, number
and rate of the samples, and what has been counted so far."""


def _slots(memory: Any) -> Iterator[memoryview]:
    """The slots of the shared memory in turn, for ever; both processes go through them alike."""
    shared = memoryview(memory).cast("B")
    for number in itertools.count():
        first = number % _SLOTS * _SLOT_BYTES
        yield shared[first : first + _SLOT_BYTES]


def _receive(connection: Connection[Any, Any], memory: Any, meter: Meter) -> Iterator[RunPiece]:
    """The pieces as they come; says after each that its slot is free again."""
    slots = _slots(memory)
    while isinstance(message := connection.recv(), tuple):
        part, begins, kind, layout, samples, sample_rate, counted = message
        frame = AudioFrame(kind, layout, samples)
        frame.sample_rate = sample_rate
        slot = next(slots)
        for plane in frame.planes:
            memoryview(plane)[:] = slot[: plane.buffer_size]
            slot = slot[plane.buffer_size :]
        connection.send_bytes(b"")
        meter.copy_from(counted)
        yield RunPiece(frame, part, begins)
    if isinstance(message, EarmarkError):
        raise message
    meter.copy_from(message)


def _decoder_main(
    connection: Connection[Any, Any], memory: Any, parts: Sequence[Part], track: int, meter: Meter
) -> None:
    """The life of the other process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that listens
    with suppress(EOFError, ConnectionError):  # nobody listens any more
        try:
            slots = _slots(memory)
            for number, (header, planes) in enumerate(_messages(parts, track, meter)):
                if number >= _SLOTS:
                    connection.recv_bytes()  # a slot is free
                slot = next(slots)
                for plane in planes:
                    slot[: len(plane)], slot = plane, slot[len(plane) :]
                connection.send(header)
            connection.send(meter)
        except EarmarkError as error:
            connection.send(error)
        except Exception as error:  # noqa: BLE001 - raised again where it is listened to
            connection.send(internal_error(place_of(parts[0].uri), error))
        while True:  # what was sent is gone once either end is closed
            connection.recv_bytes()


def _messages(
    parts: Sequence[Part], track: int, meter: Meter
) -> Iterator[tuple[_MessageHeader, list[memoryview]]]:
    """What is sent, each with its samples: so many as fit into a slot."""
    for piece in decode_runs(parts, track, meter):
        frame = piece.frame
        planes = [memoryview(plane) for plane in frame.planes]
        width = len(planes[0]) // frame.samples
        most = _SLOT_BYTES // (width * len(planes))
        for first in range(0, frame.samples, most):
            samples = min(most, frame.samples - first)
            begins = piece.begins if first == 0 else None
            kind = frame.format.name, frame.layout.name
            header = (piece.part, begins, *kind, samples, frame.sample_rate, meter)
            yield header, [plane[first * width : (first + samples) * width] for plane in planes]
