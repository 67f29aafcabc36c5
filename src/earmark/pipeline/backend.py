"""The protocol of backends, which do the work of a run: this process, worker processes or Ray.

    map     one function over many recordings        listening, naming sounds
    ask     tasks in, answers into the log           decoding and calling

`local` with one recording or one worker runs in this process; `BACKENDS` lists all backends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar

from earmark.errors import EarmarkError, internal_error
from earmark.settings import InvalidSetting, Workers

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.captioning.request import Task
    from earmark.captioning.usage import Tally
    from earmark.media.prefetch import Decoder
    from earmark.run.tasks import CallRecorder
    from earmark.settings import Limits

Item = TypeVar("Item")
Value = TypeVar("Value")


Outcomes = Iterator[tuple[Item, Value | EarmarkError]]


class Backend(Protocol):
    """Does the work of a run.

    `map` yields one outcome per item as each finishes, in any order. The number of items in
    progress is bounded, and a slow consumer holds the rest back. The function and its items must be
    picklable and hold no state. An exception on an item is the outcome of that item; if it is a bug
    in earmark, the outcome is an `InternalError`. An item whose worker is lost is given to another
    worker, a few times at most; then the loss is its outcome. All backends give the same values, to
    the last bit.
    """

    shares_memory: bool

    def map(
        self, work: Callable[[Item], Value], items: Sequence[Item]
    ) -> Outcomes[Item, Value]: ...

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally: ...

    def close(self) -> None: ...


class InProcessBackend:
    shares_memory = True
    open_decoder: Callable[[], Decoder] | None = None

    def close(self) -> None: ...

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        return (attempt(work, item) for item in items)

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally:
        from earmark.captioning.dispatch import dispatch
        from earmark.pipeline.ask import decode  # `select` never asks, and starts faster without

        with closing(decode(tasks, log, self.open_decoder)) as requests:
            return dispatch(requests, captioner, limits, log, tally=log.tally)


def attempt(work: Callable[[Item], Value], item: Item) -> tuple[Item, Value | EarmarkError]:
    """Raises nothing; an error that is no `EarmarkError` becomes an `InternalError`."""
    try:
        return item, work(item)
    except EarmarkError as error:
        return item, error
    except Exception as error:  # noqa: BLE001 - its traceback is kept as a note
        return item, internal_error(item, error)


BACKENDS = {
    "local": "earmark.workers.worker_pool:WorkerPool",
    "ray": "earmark.workers.ray_backend:RayBackend",
}


@contextmanager
def open_backend(options: Workers, recordings: int) -> Iterator[Backend]:
    most = min(options.workers or recordings, recordings)
    if options.engine == "local" and most <= 1:
        yield InProcessBackend()
        return
    if options.engine not in BACKENDS:
        names = ", ".join(BACKENDS)
        raise InvalidSetting("engine", f"there is no backend {options.engine!r}, only {names}")
    module, name = BACKENDS[options.engine].split(":")
    with closing(getattr(import_module(module), name)(options)) as backend:
        yield backend
