"""Windows decoded in a process of their own, which is ended where it hangs, and replaced."""

from __future__ import annotations

from earmark.distributed.worker_process import WorkerProcesses
from earmark.errors import BackendError, EarmarkError, InternalError
from earmark.media.prefetch import THREADS, DecodedFrames, FrameRequest, HeldRecordingDecoder
from earmark.media.recording import Recording

DEADLINE = 600.0
"""Seconds one window may take; from a key frame ten minutes before it, 4K takes that on a slow
core."""


class DecoderProcess:
    """A decoder whose crash, hang or hunger for memory costs the window it was at.

    The other windows of a recording that it was ended at fail without another try.
    """

    def __init__(self, deadline: float = DEADLINE) -> None:
        """End the process where a window takes longer than `deadline` seconds."""
        self._processes = WorkerProcesses(1, deadline, beside=THREADS - 1)
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
        """Let go of the process."""
        self._processes.close()
