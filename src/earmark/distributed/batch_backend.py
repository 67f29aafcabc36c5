"""Batch files as a backend: windows are decoded, and their calls written instead of sent."""

from __future__ import annotations

from collections.abc import Iterator

from earmark.captioning.captioner import Captioner, EvidenceCaptioner
from earmark.captioning.limits import Failure, Limits, Tally
from earmark.captioning.openai_batch import write_batch
from earmark.captioning.request import Request, Task
from earmark.distributed.worker_pool import WorkerPool
from earmark.ledger.run_calls import CallRecorder
from earmark.pipeline.batch import decoded_requests, requests_within
from earmark.pipeline.run_plan import BackendOptions


class BatchBackend(WorkerPool):
    """Listens here, and instead of calling writes the calls into OpenAI batch files."""

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
        limits: Limits,
        log: CallRecorder,
    ) -> Tally:
        """Write the tasks, pictures included, that the caps have room for.

        The answers come with `import_batch`.
        """
        self.close()
        failures: list[Failure] = []
        look = captioner.look if isinstance(captioner, EvidenceCaptioner) else None
        requests = decoded_requests(tasks, log, failures, look, self.open_decoder)
        asked = _counted(requests_within(limits, requests, log.tally), log.tally)
        log.tally.files = tuple(map(str, write_batch(asked, self._path)))
        for failure in failures:
            log.tally.fail(failure)
            log.failed(failure)
        return log.tally


def _counted(requests: Iterator[Request], tally: Tally) -> Iterator[Request]:
    for request in requests:
        tally.written += 1
        yield request
