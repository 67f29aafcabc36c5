"""The batch backend: decodes windows and writes their calls to batch files."""

from __future__ import annotations

from collections.abc import Iterator

from earmark.captioning.captioner import Captioner
from earmark.captioning.limits import Limits
from earmark.captioning.request import Task
from earmark.captioning.usage import Tally
from earmark.captioning.wrapped_captioner import EvidenceCaptioner
from earmark.distributed.worker_pool import WorkerPool
from earmark.ledger.run_calls import CallRecorder
from earmark.pipeline.batch import write_tasks
from earmark.pipeline.run_plan import BackendOptions


class BatchBackend(WorkerPool):
    """Listens on this machine, and writes calls to OpenAI batch files instead of sending them."""

    is_deferred = True

    def __init__(self, options: BackendOptions) -> None:
        """Write to `options.batch`."""
        if options.batch is None:
            raise ValueError("--engine batch needs --batch FILE to write the requests to")
        super().__init__(options)
        self._path = options.batch

    def ask(
        self,
        tasks: Iterator[Task],
        captioner: Captioner,
        limits: Limits,  # noqa: ARG002 - the log knows them
        log: CallRecorder,
    ) -> Tally:
        """Write as many tasks, pictures included, as the caps allow.

        `import_batch` reads the answers.
        """
        self.close()
        look = captioner.look if isinstance(captioner, EvidenceCaptioner) else None
        for failure in write_tasks(tasks, self._path, log, look, self.open_decoder):
            log.tally.fail(failure)
            log.failed(failure)
        return log.tally
