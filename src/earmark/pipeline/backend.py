"""The protocol of backends, which do the work of a run: this process, worker processes or Ray.

    map     one function over many recordings        listening, naming sounds
    ask     tasks in, answers into the log           decoding and calling

`local` with one recording or one worker runs in this process; `BACKENDS` lists all backends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from earmark.errors import EarmarkError, internal_error
from earmark.models.registry import Registry
from earmark.pipeline.run_plan import BackendOptions

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.captioning.limits import Limits
    from earmark.captioning.request import Task
    from earmark.captioning.usage import Tally
    from earmark.ledger.run_calls import CallRecorder
    from earmark.media.prefetch import Decoder

Item = TypeVar("Item")
Value = TypeVar("Value")


Outcomes = Iterator[tuple[Item, Value | EarmarkError]]
"""Each item with its value, or with the error that it raised."""


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
    """Whether functions run in this process, so that they can report progress to it."""
    is_deferred: bool
    """Whether answers arrive only after the command has ended."""

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        """The outcomes of `work` over `items`."""
        ...

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally:
        """Decode and ask about each window; `log` records outcomes as they arrive."""
        ...

    def close(self) -> None:
        """Release the workers."""
        ...


class InProcessBackend:
    """Does the work in this process, one item after the other."""

    shares_memory = True
    is_deferred = False
    open_decoder: Callable[[], Decoder] | None = None
    """Makes the decoder of each thread; None decodes in this process."""

    def close(self) -> None:
        """Do nothing: there are no workers."""

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        """The outcomes of `work` over `items`, in order."""
        return (attempt(work, item) for item in items)

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally:
        """Make the calls from this process; windows are decoded a few ahead of the calls."""
        from earmark.captioning.dispatch import dispatch
        from earmark.pipeline.ask import decode  # `select` never asks, and starts faster without

        with closing(decode(tasks, log, self.open_decoder)) as requests:
            return dispatch(requests, captioner, limits, log, tally=log.tally)


def attempt(work: Callable[[Item], Value], item: Item) -> tuple[Item, Value | EarmarkError]:
    """`item` with the result of `work`, or with the error that it raised; raises nothing itself.

    An error that is no `EarmarkError` is a bug in earmark, and becomes an `InternalError`.
    """
    try:
        return item, work(item)
    except EarmarkError as error:
        return item, error
    except Exception as error:  # noqa: BLE001 - its traceback is kept as a note
        return item, internal_error(item, error)


@contextmanager
def open_backend(options: BackendOptions, recordings: int) -> Iterator[Backend]:
    """The backend for this number of recordings; this process if one worker is enough."""
    most = min(options.workers or recordings, recordings)
    if options.engine == "local" and most <= 1:
        yield InProcessBackend()
        return
    with closing(BACKENDS.named(options.engine)(options)) as backend:
        yield backend


BACKENDS: Registry[Callable[[BackendOptions], Backend]] = Registry(
    "earmark.backends",
    {
        "local": "earmark.distributed.worker_pool:WorkerPool",
        "ray": "earmark.distributed.ray_backend:RayBackend",
        "batch": "earmark.distributed.batch_backend:BatchBackend",
    },
    kind="backend",
)
"""All backends by name."""
