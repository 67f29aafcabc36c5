"""Runs a generator in its own thread, a few items ahead of the reader."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import closing
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Generator[Item, None, None], most: int) -> Generator[Item, None, None]:
    """The same `items`, up to `most` of them generated ahead.

    Errors of the generator are raised here, in order. If reading ends early, the thread closes
    `items` after its next item; nobody waits for that, not even the process at exit.
    """
    sent: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()
    room = threading.Semaphore(most)
    is_over = threading.Event()

    def send_all() -> None:
        end = None
        try:
            with closing(items):
                for item in items:
                    room.acquire()
                    if is_over.is_set():
                        break
                    sent.put((item,))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that reads
            end = error
        sent.put(end)

    thread = threading.Thread(target=send_all, daemon=True)
    thread.start()
    try:
        while isinstance(found := sent.get(), tuple):
            yield found[0]
            room.release()
    finally:
        is_over.set()
        room.release()
    thread.join()
    if found is not None:
        raise found
