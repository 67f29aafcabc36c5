"""Every exception earmark raises on purpose.

    EarmarkError ─┬─ MediaError ─────┬─ UnreadableFile (missing, empty, cut off, not media)
                  │                  ├─ NoAudioStream
                  │                  ├─ NoVideoIndex   (`packets` needs packet sizes)
                  │                  └─ RemoteError    (refuses ranges, breaks half way)
                  ├─ ModelMismatch   (a gate or encoder given what it was not made for)
                  ├─ ModelMissing    (a checkpoint that is not here, or cannot be fetched)
                  ├─ AnnotationError (spans that cannot be what they claim)
                  ├─ LedgerError     (a run folder in use, damaged or of another version)
                  ├─ MissingExtra    (an optional library is not installed)
                  ├─ PluginError     (what another package declares cannot be loaded)
                  ├─ BackendError     (a cluster that is not there, a worker of another version)
                  ├─ InternalError   (a bug of earmark's, met on one recording)
                  └─ CallError ──────┬─ CallTimeout (ask again)
                                     ├─ CallRejected (do not)
                                     └─ UnreadableAnswer

A wrong argument is a `ValueError`; a state of the world is an `EarmarkError`. Each message says
what, where and what now, in one line.
"""

from __future__ import annotations

import traceback

from earmark.redaction import redact


class EarmarkError(Exception):
    """Something about the world, not about the code, stands in the way."""


class MediaError(EarmarkError):
    """A recording cannot be read as asked."""


class UnreadableFile(MediaError):
    """The file is missing, empty, cut off or not media."""


class NoAudioStream(MediaError):
    """There is nothing to listen to."""


class NoVideoIndex(MediaError):
    """The container keeps no sizes of its video packets."""


class RemoteError(MediaError):
    """A server refused, broke off or cannot serve byte ranges."""


class ModelMismatch(EarmarkError):
    """A model file does not fit what it was given."""


class ModelMissing(EarmarkError):
    """A checkpoint is not on this machine, or cannot be fetched."""


class AnnotationError(EarmarkError):
    """Annotations contradict themselves or the recordings."""


class LedgerError(EarmarkError):
    """A run folder is in use, damaged or of another version."""


class MissingExtra(EarmarkError):
    """An optional library is needed and not installed."""


class PluginError(EarmarkError):
    """What another package declares under an entry point cannot be loaded."""


class BackendError(EarmarkError):
    """The machines that do the work are away, differ, or are lost over and over."""


class InternalError(EarmarkError):
    """A bug of earmark, met while working on one recording; the others go on."""


class CallError(EarmarkError):
    """A vision model did not answer."""


class CallTimeout(CallError):
    """No answer this time: too slow, too busy or cut off; asking again may help."""

    def __init__(
        self, message: str, *, retry_after: float | None = None, was_sent: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the server asks to be left alone; None where it does not say."""
        self.was_sent = was_sent
        """Whether the server had the whole request and may charge for it: it did not refuse it."""


class CallRejected(CallError):
    """The server will not answer this request."""


class UnreadableAnswer(CallError):
    """The server answered with something that cannot be read."""

    def __init__(
        self,
        message: str,
        *,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
    ) -> None:
        super().__init__(message)
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        """What it cost all the same; None where the server does not say."""


def summarise(error: BaseException) -> str:
    """What another library's error says, in a few words on one line, without secrets."""
    return redact(" ".join(str(error).split()))[:200] or type(error).__name__


def internal_error(item: object, error: Exception) -> InternalError:
    """A bug met while working on `item`, in one line, its traceback kept as a note."""
    kind, said = type(error).__name__, summarise(error)
    said = kind if said == kind else f"{kind}: {said}"
    bug = InternalError(
        f"{item}: a bug in earmark ({said}); the other "
        "recordings are not concerned; `earmark --verbose` shows where"
    )
    bug.add_note("".join(traceback.format_exception(error)))
    return bug
