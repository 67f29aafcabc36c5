"""The protocol of backends, which do the work of a run: this process, worker processes or Ray.

    map     one function over many recordings        listening, naming sounds
    ask     tasks in, answers into the log           decoding and calling

`local` with one recording or one worker runs in this process; `BACKENDS` lists all backends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from itertools import tee
from typing import TYPE_CHECKING, Protocol, TypeVar

from earmark.captioning.dispatch import Failure, Tally
from earmark.captioning.request import Request, Task
from earmark.errors import EarmarkError, internal_error
from earmark.media.prefetch import (
    DecodedFrames,
    Decoder,
    FrameRequest,
    HeldRecordingDecoder,
    prefetch,
)
from earmark.settings import InvalidSetting, Workers

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.run.records import PickFrames
    from earmark.run.tasks import CallRecorder

Item = TypeVar("Item")
Value = TypeVar("Value")


Outcomes = Iterator[tuple[Item, Value | EarmarkError]]
OnSeconds = Callable[[str, float, float], None]

_on_seconds: ContextVar[OnSeconds | None] = ContextVar("_on_seconds", default=None)


@contextmanager
def seconds_told_to(listener: OnSeconds | None) -> Iterator[None]:
    token = _on_seconds.set(listener)
    try:
        yield
    finally:
        _on_seconds.reset(token)


def tell_seconds(name: str, now: float, total: float) -> None:
    """Called by the work of a backend, in whatever process it runs."""
    if listener := _on_seconds.get():
        listener(name, now, total)


class Backend(Protocol):
    """Does the work of a run.

    `map` yields one outcome per item as each finishes, in any order. The number of items in
    progress is bounded, and a slow consumer holds the rest back. The function and its items must be
    picklable and hold no state. An exception on an item is the outcome of that item; if it is a bug
    in earmark, the outcome is an `InternalError`. An item whose worker is lost is given to another
    worker, a few times at most; then the loss is its outcome. All backends give the same values, to
    the last bit.
    """

    on_seconds: OnSeconds | None
    """Told how far the recordings at work are: name, seconds done and in all."""

    def map(
        self, work: Callable[[Item], Value], items: Sequence[Item]
    ) -> Outcomes[Item, Value]: ...

    def ask(self, tasks: Iterator[Task], captioner: Captioner, log: CallRecorder) -> Tally: ...

    def close(self) -> None: ...


class InProcessBackend:
    on_seconds: OnSeconds | None = None
    open_decoder: Callable[[], Decoder] | None = None

    def close(self) -> None: ...

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        for item in items:
            with seconds_told_to(self.on_seconds):
                outcome = attempt(work, item)
            yield outcome

    def ask(self, tasks: Iterator[Task], captioner: Captioner, log: CallRecorder) -> Tally:
        from earmark.captioning.dispatch import dispatch  # `select` starts faster without

        with closing(decode(tasks, log, self.open_decoder)) as requests:
            return dispatch(requests, captioner, log.limits, log, tally=log.tally)


def attempt(work: Callable[[Item], Value], item: Item) -> tuple[Item, Value | EarmarkError]:
    """Raises nothing; an error that is no `EarmarkError` becomes an `InternalError`."""
    try:
        return item, work(item)
    except EarmarkError as error:
        return item, error
    except Exception as error:  # noqa: BLE001 - its traceback is kept as a note
        return item, internal_error(item, error)


def decode(
    tasks: Iterable[Task], log: CallRecorder, open_decoder: Callable[[], Decoder] | None = None
) -> Generator[Request | Failure, None, None]:
    """In the order of `tasks`, decoded a few windows ahead; a `Failure` if that is impossible.

    `open_decoder` makes the decoder of each thread; the default decodes in this process.
    """
    ahead, behind = tee(map(log.add, tasks))  # `ahead` leads by the windows decoded ahead
    requests = (
        FrameRequest(task.recording, task.request.times, partial(show, task.request))
        for task in ahead
    )
    with closing(prefetch(requests, open_decoder or HeldRecordingDecoder)) as results:
        for task, decoded in zip(behind, results, strict=True):
            if decoded.failure:
                yield Failure(task.request, decoded.failure, attempts=0)
                continue
            frames, request = decoded.output
            log.run.keep_frames(task.recording.id, frames)
            yield request


def show(request: Request, decoded: DecodedFrames) -> tuple[PickFrames, Request]:
    from earmark.run.records import PickFrames  # workers listen without the run

    shown = request.showing(decoded.frames)
    thumbnail = shown.frames[len(shown.frames) // 2].thumbnail()
    counts = (decoded.frames_decoded, len(shown.frames), decoded.bytes_read)
    return PickFrames(request.span, thumbnail, *counts, shown.faces_blurred), shown


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
