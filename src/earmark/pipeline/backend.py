"""Where the work of a run is done: one protocol, filled by this process, by workers or by Ray.

    map     one function over many recordings        listening, naming sounds
    ask     tasks in, answers into the log           decoding and calling

`local` with one recording or one worker is this very process; `BACKENDS` names the others.
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
"""Each item with its value, or with the reason why there is none."""


class Backend(Protocol):
    """Does the work of a run.

    `map` yields one outcome an item as they finish, in any order; no more items are under way at a
    time than there is room for, however many there are, and a slow reader holds the rest back. The
    function and its items can be pickled and hold no state. Whatever an item raises is its outcome:
    a bug of earmark's is one too, marked as such. An item whose worker is lost is given to another,
    a few times at most; then the loss is its outcome. Every backend gives the same values, to the
    last bit.
    """

    shares_memory: bool
    """Whether functions run in this process, so that they may report to it as they go."""
    is_deferred: bool
    """Whether answers come after the command has ended."""

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        """The outcomes of `work` over `items`."""
        ...

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally:
        """Decode each task's window and ask about it; outcomes go to `log` as they arrive."""
        ...

    def close(self) -> None:
        """Let go of the workers."""
        ...


class InProcessBackend:
    """This very process, one item after the other."""

    shares_memory = True
    is_deferred = False
    open_decoder: Callable[[], Decoder] | None = None
    """What decodes windows, where that is not this process."""

    def close(self) -> None:
        """Nothing to let go of."""

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        """The outcomes of `work` over `items`, in order."""
        return (attempt(work, item) for item in items)

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally:
        """Call from this process; windows are decoded a few ahead of the calls."""
        from earmark.captioning.dispatch import dispatch
        from earmark.pipeline.ask import decode  # selecting need not load what asking takes

        with closing(decode(tasks, log, self.open_decoder)) as requests:
            return dispatch(requests, captioner, limits, log, tally=log.tally)


def attempt(work: Callable[[Item], Value], item: Item) -> tuple[Item, Value | EarmarkError]:
    """`item` with the result of `work`, or with the error: the one boundary around a recording.

    An error that is no `EarmarkError` is a bug of earmark's, and its outcome says so.
    """
    try:
        return item, work(item)
    except EarmarkError as error:
        return item, error
    except Exception as error:  # noqa: BLE001 - its traceback is kept as a note
        return item, internal_error(item, error)


@contextmanager
def open_backend(options: BackendOptions, recordings: int) -> Iterator[Backend]:
    """The backend for so many recordings; this process where one worker is enough."""
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
"""Every backend by name."""
