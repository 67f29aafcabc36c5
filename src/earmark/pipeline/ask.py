from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from functools import partial
from itertools import tee

from earmark.captioning.request import Request, Task
from earmark.captioning.usage import Failure
from earmark.media.prefetch import (
    DecodedFrames,
    Decoder,
    FrameRequest,
    HeldRecordingDecoder,
    prefetch,
)
from earmark.run.records import PickFrames
from earmark.run.tasks import CallRecorder


def decode(
    tasks: Iterable[Task],
    log: CallRecorder,
    open_decoder: Callable[[], Decoder] | None = None,
) -> Generator[Request | Failure, None, None]:
    """In the order of `tasks`, decoded a few windows ahead; a `Failure` if that is impossible.

    `open_decoder` makes the decoder of each thread; the default decodes in this process.
    """
    ahead, behind = tee(map(log.add, tasks))  # `ahead` leads by the windows decoded ahead
    wanted = (
        FrameRequest(task.recording, task.request.times, partial(show, task.request))
        for task in ahead
    )
    with closing(prefetch(wanted, open_decoder or HeldRecordingDecoder)) as decoded:
        for task, found in zip(behind, decoded, strict=True):
            if found.failure:
                yield Failure(task.request, found.failure, attempts=0)
                continue
            frames, request = found.output
            log.run.keep_frames(task.recording.key, frames)
            yield request


def show(request: Request, found: DecodedFrames) -> tuple[PickFrames, Request]:
    shown = request.showing(found.frames)
    thumbnail = shown.frames[len(shown.frames) // 2].thumbnail()
    taken = (found.frames_decoded, len(shown.frames), found.bytes_read)
    return PickFrames(request.span, thumbnail, *taken, shown.faces_blurred), shown
