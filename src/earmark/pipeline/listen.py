"""Listens to every recording once, and stores its scored windows, or why it failed.

source ──▶ score cache ──▶ listen ──┬──▶ windows, scored and rated ──┐
└── a cached recording              ├──▶ named sounds                ├──▶ ledger
    is not listened to again        └──▶ speech, if the plan asks ───┘
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from earmark.errors import EarmarkError
from earmark.gate.listener import Failed
from earmark.gate.score_cache import listen_cached
from earmark.grid import ScoredRecording
from earmark.media import Recording, Source, open_recording
from earmark.media.recording_description import content_key
from earmark.media.source import stored_path
from earmark.pipeline.backend import Backend
from earmark.pipeline.run_plan import ListenPlan
from earmark.reporting.progress import Progress
from earmark.reporting.text_format import counted

if TYPE_CHECKING:
    from earmark.evidence.sound_listener import SoundListener
    from earmark.evidence.speech_listener import SpeechListener
    from earmark.ledger.ledger import Ledger

logger = logging.getLogger(__name__)

SOUND_ALONE = (
    "has sound and no pictures, so there is nothing to caption; "
    "`earmark select` says which of its moments are worth hearing"
)

Listened = ScoredRecording | Recording | EarmarkError
"""The outcome of a source: scored windows, a recording that has not changed, or an error."""

Known = Mapping[Source, tuple[str, int]]
"""Sources listened to before: the key of their content, and the audio track listened to."""


def listen(
    source: Source, plan: ListenPlan, *, on_seconds: Callable[[float, float], None] | None = None
) -> ScoredRecording:
    """The scored windows of one recording, from the cache or by listening to it.

    `on_seconds` is called with the seconds listened to so far and the seconds in all.

    Raises:
        MediaError: the recording cannot be read as the plan asks.
    """
    line, track = plan.frontline, plan.audio_track
    heard = listen_cached(
        source,
        line,
        plan.cache,
        audio_track=track,
        on_seconds=on_seconds,
        beside=plan.beside.pass_through if plan.beside else None,
    )
    return plan.grid.score_recording(heard, line, survival=plan.survival)


def listen_unless_known(
    source: Source, *, plan: ListenPlan, known: Known, progress: Progress | None
) -> ScoredRecording | Recording:
    """The scored windows of a recording, or only its description if its content is as in `known`.

    Workers run this function; a partial of it can be pickled. `progress` is None unless the worker
    is this process.
    """
    key, track = known.get(source, ("", 0))
    if key and content_key(source) == key:
        return open_recording(source, audio_track=track)
    on_seconds = None if progress is None else progress.at(source.name)
    found = listen(source, plan, on_seconds=on_seconds)
    return ScoredRecording(found.heard.compact(), found.windows)


def listen_all(
    sources: Sequence[Source],
    plan: ListenPlan,
    backend: Backend,
    *,
    known: Known | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Source, Listened]]:
    """Each source with its outcome, as they finish, in any order.

    A source whose content is as in `known` is described, not listened to.
    """
    now = progress or Progress()
    now.update(recordings=len(sources))
    shared = now if backend.shares_memory else None
    work = partial(listen_unless_known, plan=plan, known=known or {}, progress=shared)
    for source, result in backend.map(work, sources):
        if isinstance(result, EarmarkError):
            logger.info("%s could not be listened to", source.path, exc_info=result)
            now.update(missed=now.missed + 1, trouble=str(result))
        elif isinstance(result, Recording):
            logger.info("%s is as it was; its windows are in the ledger", source.path)
            now.update(heard=now.heard + 1, unchanged=now.unchanged + 1)
        else:
            logger.info(
                "%s: %d windows; listening took %.2f s, %d bytes read (%s)",
                source.path,
                result.windows.calls,
                result.heard.seconds,
                result.heard.bytes_read,
                "from the cache" if result.heard.from_cache else result.heard.access,
            )
            seconds = now.seconds_heard + result.heard.recording.duration
            now.update(heard=now.heard + 1, seconds_heard=seconds)
        yield source, result


def listen_each(
    sources: Sequence[Source], plan: ListenPlan, backend: Backend, progress: Progress | None = None
) -> tuple[list[ScoredRecording], tuple[Failed, ...]]:
    """The recordings that could be listened to, in order, and why the others could not."""
    found = dict(listen_all(sources, plan, backend, progress=progress))
    results = [(source, found[source]) for source in sources]
    return (
        [one for _, one in results if isinstance(one, ScoredRecording)],
        tuple(
            Failed(source.path, str(one)) for source, one in results if isinstance(one, Exception)
        ),
    )


def listen_and_store(
    sources: Sequence[Source], plan: ListenPlan, ledger: Ledger, backend: Backend, now: Progress
) -> tuple[dict[str, Recording], int]:
    """Listen to the sources that the ledger does not know yet, and store each as it finishes.

    Returns the recordings by key, in the order of `sources`, and how many failed; copies of one
    recording count once. Only descriptions stay in memory: a few kilobytes per recording.
    """
    from earmark.ledger.records import RecordingRow  # workers import this module without the ledger

    key = plan.grid.key(plan.frontline, audio_track=plan.audio_track)
    known = ledger.known(sources, key=key) if plan.cache is not None else {}
    found: dict[Source, Recording] = {}
    ledger.keep_survival(plan.survival)
    for source, one in listen_all(sources, plan, backend, known=known, progress=now):
        recording = one.heard.recording if isinstance(one, ScoredRecording) else one
        if isinstance(recording, EarmarkError) or recording.video is None:
            is_sound = isinstance(recording, Recording)
            reason = f"{source.name} {SOUND_ALONE}" if is_sound else str(recording)
            ledger.fail_recording(stored_path(source.path), source.path, reason, name=source.id)
            continue
        found[source] = recording
        ledger.add(RecordingRow.of(recording))
        if isinstance(one, ScoredRecording):  # else an earlier run has stored its windows
            ledger.hear(
                recording.key,
                one.windows,
                key=key,
                level=one.heard.level,
                sound_bytes=one.heard.bytes_read,
                access=one.heard.access,
                warnings=one.heard.warnings,
                audio_track=recording.audio_track,
            )
    ledger.drop_past_failures(source.path for source in sources)
    ordered = (found[one] for one in sources if one in found)
    return {one.key: one for one in ordered}, len(sources) - len(found)


def keep_sounds(
    recordings: Iterable[Recording], listener: SoundListener, ledger: Ledger, backend: Backend
) -> None:
    """Store the named sounds of `recordings` as evidence.

    Cached sounds are not computed again. A recording whose sounds cannot be named has none; the
    reason appears when its windows are chosen.
    """
    from earmark.ledger.run_reader import Run  # as above

    origin = listener.origin
    with Run(ledger.folder) as run:
        known = run.recordings_with_evidence("heard", origin=origin)
    wanted = [one for one in recordings if one.has_audio and one.key not in known]
    for one, found in backend.map(listener.evidence, wanted):
        if not isinstance(found, EarmarkError):
            ledger.keep_evidence(one.key, found, kinds=["heard"], origin=origin)


def keep_speech(
    recordings: Iterable[Recording], listener: SpeechListener, ledger: Ledger, backend: Backend
) -> None:
    """Store the transcript of each recording that has none by this transcriber yet.

    A recording that cannot be transcribed, or has only uncertain sentences, is logged as a warning.
    """
    from earmark.ledger.run_reader import Run  # as above

    origin = listener.transcriber.name
    with Run(ledger.folder) as run:
        known = run.transcribed(origin)
    missing = [recording for recording in recordings if recording.key not in known]
    for recording, found in backend.map(listener, missing):
        if isinstance(found, EarmarkError):
            logger.warning("%s: its speech is not written down: %s", recording.name, found)
            continue
        if found.uncertain and not found.entries:
            left_out = counted(found.uncertain, "sentence")
            logger.warning("%s: its speech is too uncertain, %s left out", recording.name, left_out)
        ledger.keep_speech(recording.key, found.entries, by=origin)


def forget_speech(ledger: Ledger) -> None:
    """Delete the transcripts that earlier commands stored, and the meanings computed from them."""
    from earmark.ledger.forgetting import delete_speech, has_speech
    from earmark.search.meaning_index import FILE

    if has_speech(ledger.folder):
        (ledger.folder / FILE).unlink(missing_ok=True)
        delete_speech(ledger.folder)
