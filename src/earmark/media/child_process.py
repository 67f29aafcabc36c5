"""Decodes the sound of a long recording in another process.

the other process                         │ this one
read ──▶ decode ──▶ pieces of runs ──▶ shared memory ──▶ resample ──▶ features ──▶ scores

Threads of one process would wait for the interpreter's lock after each call of libav.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe, current_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import RawArray
from types import ModuleType
from typing import TYPE_CHECKING, Any

from av.audio.frame import AudioFrame

from earmark.errors import BackendError, EarmarkError, internal_error
from earmark.media.audio_decoder import PIECE_BYTES, RunPiece, decode_runs
from earmark.media.source import is_remote, place_of
from earmark.media.storage import Meter

if TYPE_CHECKING:
    from earmark.media.recording import Part

_STARTING = threading.Lock()  # the environment is changed while a process is started
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def cores() -> int:
    with suppress(AttributeError):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_process(
    target: Callable[..., None], *arguments: Any, needs_script: bool = False
) -> SpawnProcess:
    """A process that ends with this one; with `needs_script` it imports the user's script first.

    It uses one thread for linear algebra: threads of several processes spin on the same cores.
    """
    # Spawned, not forked: a fork copies locks that other threads may hold.
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=arguments, daemon=True
    )
    with _STARTING:
        script = sys.modules["__main__"]
        unset = [name for name in _THREADS if name not in os.environ]
        try:
            os.environ.update(dict.fromkeys(unset, "1"))
            if not needs_script:
                sys.modules["__main__"] = ModuleType("__main__")
            process.start()
        finally:
            sys.modules["__main__"] = script
            for name in unset:
                os.environ.pop(name, None)
    return process


WORTH_A_PROCESS = 1500.0  # seconds of sound
_SLOTS = 48  # pieces decoded ahead, 12 MB


def is_worth_a_process(parts: Sequence[Part]) -> bool:
    """Not in a batch, which has a process on every core, nor over a slow network."""
    return (
        parts[-1].end >= WORTH_A_PROCESS
        and cores() > 1
        and not current_process().daemon
        and not any(is_remote(part.uri) for part in parts)
    )


def decode_in_process(
    parts: Sequence[Part], track: int, meter: Meter
) -> Generator[RunPiece, None, None]:
    """As `decode_runs`; closing the generator kills the process."""
    ours, theirs = Pipe()
    memory = RawArray("B", _SLOTS * PIECE_BYTES)
    process = start_process(_decoder_main, theirs, memory, tuple(parts), track, meter)
    theirs.close()
    try:
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


def _slots(memory: Any) -> Iterator[memoryview]:
    shared = memoryview(memory).cast("B")
    return itertools.cycle(
        shared[first : first + PIECE_BYTES] for first in range(0, len(shared), PIECE_BYTES)
    )


def _receive(connection: Connection[Any, Any], memory: Any, meter: Meter) -> Iterator[RunPiece]:
    slots = _slots(memory)
    while isinstance(message := connection.recv(), tuple):
        part, begins, kind, layout, samples, sample_rate, child_meter = message
        frame = AudioFrame(kind, layout, samples)
        frame.sample_rate = sample_rate
        slot = next(slots)
        for plane in frame.planes:
            memoryview(plane)[:] = slot[: plane.buffer_size]
            slot = slot[plane.buffer_size :]
        connection.send_bytes(b"")
        meter.copy_from(child_meter)
        yield RunPiece(frame, part, begins)
    if isinstance(message, EarmarkError):
        raise message
    meter.copy_from(message)


def _decoder_main(
    connection: Connection[Any, Any], memory: Any, parts: Sequence[Part], track: int, meter: Meter
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that listens
    with suppress(EOFError, ConnectionError):  # nobody listens any more
        try:
            slots = _slots(memory)
            for number, piece in enumerate(decode_runs(parts, track, meter)):
                if number >= _SLOTS:
                    connection.recv_bytes()  # a slot is free
                frame, slot = piece.frame, next(slots)
                for plane in frame.planes:
                    slot[: plane.buffer_size] = memoryview(plane)
                    slot = slot[plane.buffer_size :]
                kind = frame.format.name, frame.layout.name, frame.samples, frame.sample_rate
                connection.send((piece.part, piece.begins, *kind, meter))
            connection.send(meter)
        except EarmarkError as error:
            connection.send(error)
        except Exception as error:  # noqa: BLE001 - raised again where it is listened to
            connection.send(internal_error(place_of(parts[0].uri), error))
        while True:  # keep the pipe open until the reader has received everything
            connection.recv_bytes()
