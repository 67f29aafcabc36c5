"""Worker processes of this machine as a backend: they listen and decode, and this one asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from earmark.distributed.decoder_process import DecoderProcess
from earmark.distributed.worker_process import WorkerProcesses
from earmark.media.child_process import cores
from earmark.media.prefetch import Decoder, HeldRecordingDecoder
from earmark.pipeline.backend import InProcessBackend, Item, Outcomes, Value
from earmark.pipeline.run_plan import BackendOptions

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.captioning.limits import Limits, Tally
    from earmark.captioning.request import Task
    from earmark.ledger.run_calls import CallRecorder

DEADLINE = 1800.0
"""Seconds a worker may spend on one item before it is ended; ten hours of sound take 100 on a slow
core."""


class WorkerPool(InProcessBackend):
    """Processes of this machine listen and decode; this one asks. With one worker, all of it here.

    The processes that listen are kept from one `map` to the next, and let go before anything is
    asked: that may take hours, and needs none of them.
    """

    def __init__(self, options: BackendOptions, *, deadline: float = DEADLINE) -> None:
        """Use as many workers as `options` say, or one a core."""
        self.workers = options.workers or cores()
        self.shares_memory = self.workers == 1
        self._workers = WorkerProcesses(self.workers, deadline)

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        """The outcomes of `work` over `items`, as they finish."""
        if min(self.workers, len(items)) <= 1:
            return super().map(work, items)
        return self._workers.run(work, items)

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally:
        """Call from this process; windows are decoded in others, a few ahead of the calls."""
        from earmark.pipeline.ask import ask_here  # selecting need not load what asking takes

        self.close()
        return ask_here(tasks, captioner, limits, log, self.open_decoder)

    def open_decoder(self) -> Decoder:
        """What decodes windows: in this process where there is one worker."""
        return DecoderProcess() if self.workers > 1 else HeldRecordingDecoder()

    def close(self) -> None:
        """Let go of the processes; another `map` starts new ones."""
        self._workers.close()
