"""Every exception earmark raises on purpose.

    EarmarkError ─┬─ MediaError ─────┬─ UnreadableFile (missing, empty, cut off, not media)
                  │                  ├─ NoAudioStream
                  │                  ├─ NoVideoIndex   (`packets` needs packet sizes)
                  │                  └─ RemoteError    (no byte ranges, connection lost)
                  ├─ ModelMismatch   (a gate or encoder got input it was not made for)
                  ├─ ModelMissing    (a checkpoint is not on this machine, or cannot be fetched)
                  ├─ AnnotationError (spans that contradict each other or the recording)
                  ├─ RunError        (a run folder is in use, damaged or of another version)
                  ├─ MissingExtra    (an optional library is not installed)
                  ├─ PluginError     (another package's entry point cannot be loaded)
                  ├─ BackendError    (no cluster, or a worker of another version)
                  ├─ InternalError   (a bug in earmark, while working on one recording)
                  └─ CallError ──────┬─ CallTimeout (asking again may help)
                                     ├─ CallRejected (asking again will not help)
                                     └─ UnreadableAnswer

A wrong argument raises `ValueError`; a problem outside the code raises an `EarmarkError`. Each
message says in one line what is wrong, where, and what to do.
"""

from __future__ import annotations

import traceback

from earmark.redaction import redact_line


class EarmarkError(Exception):
    """A problem outside the code: a file, a model, a server or a run folder."""


class MediaError(EarmarkError):
    """A recording cannot be read in the way that was asked for."""


class UnreadableFile(MediaError):
    """The file is missing, empty, cut off or not media."""


class NoAudioStream(MediaError):
    """The recording has no audio stream."""


class NoVideoIndex(MediaError):
    """The container does not store the sizes of its video packets."""


class RemoteError(MediaError):
    """A server refused the request, closed the connection or cannot serve byte ranges."""


class ModelMismatch(EarmarkError):
    """A model file does not fit the input or the models it is used with."""


class ModelMissing(EarmarkError):
    """A checkpoint is not on this machine, or cannot be fetched."""


class AnnotationError(EarmarkError):
    """Annotations contradict each other or the recordings."""


class RunError(EarmarkError):
    """A run folder is in use, damaged or of another version."""


class MissingExtra(EarmarkError):
    """A needed optional library is not installed."""


class PluginError(EarmarkError):
    """The entry point of another package cannot be loaded."""


class BackendError(EarmarkError):
    """The workers cannot be reached, run another version, or are lost repeatedly."""


class InternalError(EarmarkError):
    """A bug in earmark, while working on one recording; the others are processed all the same."""


class CallError(EarmarkError):
    """A vision model did not answer."""


class CallTimeout(CallError):
    """The server was too slow, too busy or cut the connection; asking again may help."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        was_sent: bool = False,
        was_reached: bool = True,
        is_form: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds; None if the server did not say."""
        self.was_sent = was_sent
        """The server received the whole request without refusing it, so may charge it."""
        self.was_reached = was_reached
        """False if there was no connection: the attempt does not count."""
        self.is_form = is_form
        """The server refuses a field that the next attempt leaves out; this is no retry."""


class CallRejected(CallError):
    """The server refuses this request; sending it again will not help."""


class UnreadableAnswer(CallError):
    """The server sent an answer that cannot be parsed."""

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
        """Charged all the same; None if the server did not say."""


def summarise(error: BaseException) -> str:
    """One line, redacted, at most 200 characters; the type's name if the message is empty."""
    return redact_line(str(error)) or type(error).__name__


def internal_error(item: object, error: Exception) -> InternalError:
    bug = InternalError(
        f"{item}: {describe_bug(error)}; the other "
        "recordings are not concerned; `earmark --verbose` shows where"
    )
    bug.add_note("".join(traceback.format_exception(error)))
    return bug


_PLUGIN_GROUPS = tuple(
    f"earmark.{kind}" for kind in ("rules", "frontlines", "captioners", "readers", "exporters")
)


def describe_bug(error: Exception) -> str:
    kind, message = type(error).__name__, summarise(error)
    message = kind if message == kind else f"{kind}: {message}"
    plugin = plugin_of(error)
    return f"a bug in {f'the plug-in {plugin}' if plugin else 'earmark'} ({message})"


def plugin_of(error: Exception) -> str:
    """The package that adds something to earmark and in which `error` was raised, or called."""
    from importlib.metadata import entry_points

    added = {
        entry.module.partition(".")[0]: entry.dist.name if entry.dist else entry.module
        for group in _PLUGIN_GROUPS
        for entry in entry_points(group=group)
    }
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    packages = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    own = ("earmark", "earmark_lab")
    return next((added[name] for name in reversed(packages) if name in added.keys() - own), "")
