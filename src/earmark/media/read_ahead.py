"""Has a generator run in a thread of its own, a few items ahead of whoever reads it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")

Sent = tuple[tuple[Item, ...], BaseException | None]
"""One item, or none at the end, with what was raised there."""


def read_ahead(items: Generator[Item, None, None], most: int) -> Generator[Item, None, None]:
    """The same `items`, up to `most` of them made before they are asked for.

    What making them raises is raised here, in its place. Where reading ends early, `items` is
    closed by the thread once it has made the next one; nobody waits for that, not even the process
    when it ends.
    """
    sent: SimpleQueue[Sent[Item]] = SimpleQueue()
    room = threading.Semaphore(most)
    is_over = threading.Event()
    work = (items, sent, room, is_over)
    thread = threading.Thread(target=_send_all, args=work, daemon=True)
    thread.start()
    try:
        while (found := sent.get())[0]:
            yield found[0][0]
            room.release()
    finally:
        is_over.set()
        room.release()
    thread.join()
    if found[1] is not None:
        raise found[1]


def _send_all(
    items: Generator[Item, None, None],
    sent: SimpleQueue[Sent[Item]],
    room: threading.Semaphore,
    is_over: threading.Event,
) -> None:
    fault = None
    try:
        with closing(items):
            for item in items:
                room.acquire()
                if is_over.is_set():
                    break
                sent.put(((item,), None))
    except BaseException as error:  # noqa: BLE001 - raised in the thread that reads
        fault = error
    sent.put(((), fault))
