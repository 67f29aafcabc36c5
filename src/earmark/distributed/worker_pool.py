"""The local backend: worker processes listen and decode, this process calls the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from earmark.distributed.worker_process import WorkerProcesses
from earmark.errors import BackendError, EarmarkError, InternalError
from earmark.media.child_process import cores
from earmark.media.prefetch import (
    THREADS,
    DecodedFrames,
    FrameRequest,
    HeldRecordingDecoder,
)
from earmark.media.recording import Recording
from earmark.pipeline.backend import InProcessBackend, Item, Outcomes, Value
from earmark.pipeline.run_plan import BackendOptions

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.captioning.limits import Limits
    from earmark.captioning.request import Task
    from earmark.captioning.usage import Tally
    from earmark.ledger.run_calls import CallRecorder

DEADLINE = 1800.0
"""Seconds a worker may spend on one item before it is killed; ten hours of sound take 100 on a slow
core."""

DECODING_DEADLINE = 600.0
"""Seconds one window may take; from a key frame ten minutes before it, 4K takes that on a slow
core."""


class WorkerPool(InProcessBackend):
    """Processes of this machine listen and decode; this one calls. With one worker, all is here.

    The listening processes are kept from one `map` to the next, and ended before the calls, which
    may take hours and do not need them.
    """

    def __init__(self, options: BackendOptions, *, deadline: float = DEADLINE) -> None:
        """Use `options.workers` processes, or one per core."""
        self.workers = options.workers or cores()
        self.shares_memory = self.workers == 1
        self.open_decoder = DecoderProcess if self.workers > 1 else None
        self._workers = WorkerProcesses(self.workers, deadline)

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        """The outcomes of `work` over `items`, as they finish."""
        if min(self.workers, len(items)) <= 1:
            return super().map(work, items)
        return self._workers.run(work, items)

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally:
        """End the listening processes, then call from this one; windows are decoded ahead."""
        self.close()
        return super().ask(tasks, captioner, limits, log)

    def close(self) -> None:
        """End the processes; another `map` starts new ones."""
        self._workers.close()


class DecoderProcess:
    """A decoder in its own process: a crash, hang or excess of memory fails only that window.

    Further windows of a recording on which it was lost fail without another attempt.
    """

    def __init__(self, deadline: float = DECODING_DEADLINE) -> None:
        """Kill the process if a window takes longer than `deadline` seconds."""
        self._processes = WorkerProcesses(1, deadline, others=THREADS - 1)
        self._decoder = HeldRecordingDecoder()
        self._lost: dict[Recording, str] = {}

    def __call__(self, request: FrameRequest) -> DecodedFrames:
        """The frames of `request`, or why there are none."""
        if failure := self._lost.get(request.recording):
            return DecodedFrames([], failure=failure)
        ((_, outcome),) = self._processes.run(self._decoder, [request])
        if isinstance(outcome, BackendError):
            self._lost[request.recording] = str(outcome)
        if isinstance(outcome, BackendError | InternalError):
            return DecodedFrames([], failure=str(outcome))
        if isinstance(outcome, EarmarkError):
            raise outcome
        found: DecodedFrames = outcome
        return found

    def close(self) -> None:
        """End the process."""
        self._processes.close()
