"""Listens to every recording once, and stores its scored windows, or why it failed.

source ──▶ score cache ──▶ listen ──┬──▶ windows, scored and rated ──┐
└── a cached recording              ├──▶ named sounds                ├──▶ run
    is not listened to again        └──▶ speech, if the plan asks ───┘
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from earmark.errors import EarmarkError, MediaError
from earmark.evidence.evidence_entry import TRACK
from earmark.gate.listener import Failed, listen_cached
from earmark.grid import ScoredRecording
from earmark.media import Recording, Source, open_recording
from earmark.media.atomic_file import files_of_recording
from earmark.media.recording_description import content_key, continues
from earmark.media.source import is_remote, stored_path
from earmark.pipeline.backend import Backend, tell_seconds
from earmark.pipeline.session import ListenJob
from earmark.report.progress import Progress
from earmark.text_format import counted

if TYPE_CHECKING:
    from earmark.evidence.sound_track import SoundListener
    from earmark.evidence.speech_listener import SpeechListener
    from earmark.run.records import HeardRow, RecordingRow
    from earmark.run.run import Run

logger = logging.getLogger(__name__)

SOUND_ALONE = (
    "has sound but no video, so there is nothing to caption; "
    "`earmark select` lists the moments worth hearing"
)

Listened = ScoredRecording | Recording | EarmarkError

Known = Mapping[Source, tuple[str, int]]


def listen(
    source: Source, plan: ListenJob, *, on_seconds: Callable[[float, float], None] | None = None
) -> ScoredRecording:
    """`on_seconds` is called with the seconds listened to so far and in all."""
    heard = listen_cached(
        source,
        plan.frontline,
        plan.cache,
        audio_track=plan.audio_track,
        on_seconds=on_seconds,
        beside=plan.beside.pass_through if plan.beside else None,
    )
    scored = plan.grid.score_recording(heard, plan.frontline, lengths=plan.lengths)
    if plan.taste and plan.beside and heard.recording.has_audio:
        return plan.taste.weigh(scored, plan.beside.evidence(heard.recording))
    return scored


def listen_unless_known(
    source: Source, *, plan: ListenJob, known: Known
) -> ScoredRecording | Recording:
    """Only the description if the content is as in `known`; a partial of this is pickled."""
    key, track = known.get(source, ("", 0))
    if key and content_key(source) == key:
        return open_recording(source, audio_track=track)
    scored = listen(source, plan, on_seconds=partial(tell_seconds, source.name))
    return replace(scored, heard=scored.heard.compact())


def listen_all(
    sources: Sequence[Source],
    plan: ListenJob,
    backend: Backend,
    *,
    known: Known | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Source, Listened]]:
    now = progress or Progress()
    now.recordings, backend.on_seconds = len(sources), now.at
    now.enter("listening")
    work = partial(listen_unless_known, plan=plan, known=known or {})
    for source, result in backend.map(work, sources):
        if isinstance(result, EarmarkError):
            logger.info("%s could not be listened to", source.path, exc_info=result)
            now.at_work.pop(source.name, None)
            now.update(missed=now.missed + 1, trouble=str(result))
        elif isinstance(result, Recording):
            logger.info("%s is unchanged; its windows are already in the run", source.path)
            now.update(heard=now.heard + 1, unchanged=now.unchanged + 1)
        else:
            logger.info(
                "%s: %d windows; listening took %.2f s, %d bytes read (%s)",
                source.path,
                len(result),
                result.heard.seconds,
                result.heard.bytes_read,
                "from the cache" if result.heard.from_cache else result.heard.access,
            )
            duration = result.heard.recording.duration
            now.heard, now.seconds_heard = now.heard + 1, now.seconds_heard + duration
            now.advance(duration, source.name)
        yield source, result


def listen_each(
    sources: Sequence[Source], plan: ListenJob, backend: Backend, progress: Progress | None = None
) -> tuple[list[ScoredRecording], tuple[Failed, ...]]:
    results = dict(listen_all(sources, plan, backend, progress=progress))
    scored, failures = [], []
    for source in sources:
        result = results[source]
        if isinstance(result, ScoredRecording):
            scored.append(result)
        else:
            failures.append(Failed(source.path, str(result)))
    return scored, tuple(failures)


def listen_and_store(
    sources: Sequence[Source], plan: ListenJob, run: Run, backend: Backend, now: Progress
) -> tuple[dict[str, Recording], int]:
    """Listen to the sources that the run does not know yet, and store each as it finishes.

    Returns the recordings by key, in the order of `sources`, and how many failed. A copy of another
    becomes a row that says so, and has not failed. Only descriptions stay in memory: a few
    kilobytes per recording.
    """
    from earmark.run.records import RecordingRow  # workers import this module without the run

    key = plan.grid.key(plan.frontline, plan.lengths, audio_track=plan.audio_track)
    if plan.taste:
        key = f"{key} {plan.taste}"
    known = run.known(sources, key=key) if plan.cache is not None else {}
    recordings: dict[Source, Recording] = {}
    for source, result in listen_all(sources, plan, backend, known=known, progress=now):
        recording = result.heard.recording if isinstance(result, ScoredRecording) else result
        if isinstance(recording, EarmarkError) or recording.video is None:
            is_sound = isinstance(recording, Recording)
            reason = f"{source.name} {SOUND_ALONE}" if is_sound else str(recording)
            run.fail_recording(stored_path(source.path), source.path, reason, name=source.id)
            continue
        earlier = run.recording_at(source.path)
        recordings[source] = recording = named_as(recording, earlier)
        run.add(RecordingRow.of(recording))
        if isinstance(result, ScoredRecording):  # else an earlier run has stored its windows
            heard, windows = result.heard, result
            if earlier and earlier.id == recording.id and earlier.content != recording.key:
                logger.info("%s has grown to %.1f s", source.path, recording.duration)
                for path in cached_files(plan.cache.folder, earlier.content) if plan.cache else ():
                    path.unlink(missing_ok=True)
                windows = with_instants_of(windows, run.heard(recording.id))
                run.forget_ends(recording.id)
            run.hear(
                recording.id,
                windows,
                key=key,
                level=heard.level,
                sound_bytes=heard.bytes_read,
                access=heard.access,
                warnings=heard.warnings,
                audio_track=recording.audio_track,
            )
    run.drop_past_failures(source.path for source in sources)
    if sources and not run.recordings() and all(is_remote(source.uris[0]) for source in sources):
        reasons = [failed.reason for failed in run.failed_recordings()]
        more = f" (and {counted(len(reasons) - 1, 'further failure')})" if len(reasons) > 1 else ""
        raise MediaError(f"{reasons[0]}{more}")
    ordered: dict[str, Recording] = {}
    for source in (source for source in sources if source in recordings):
        first = ordered.setdefault(recordings[source].id, recordings[source])
        if first.source != source:
            run.add(RecordingRow.of(first))
            reason = f"a copy of {first.source.path}, under which the run lists it"
            run.fail_recording(stored_path(source.path), source.path, reason, name=source.id)
    return ordered, len(sources) - len(recordings)


@contextmanager
def without_empty_run(folder: Path) -> Iterator[None]:
    """If nothing was heard of all addresses, a run that is new is deleted again."""
    is_new = not folder.exists()
    try:
        yield
    except MediaError:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def cached_files(cache: Path, key: str) -> Iterator[Path]:
    from earmark.evidence.sound_names import NAMES
    from earmark.evidence.sound_track import SOUNDS

    for folder in (cache, cache / NAMES, cache / SOUNDS):
        yield from files_of_recording(folder, key)


def named_as(recording: Recording, earlier: RecordingRow | None) -> Recording:
    """With the id of `earlier`, if it is the same recording or has grown since."""
    if earlier is None:
        return recording
    if earlier.content != recording.key and not continues(recording, earlier.versions):
        return recording
    return replace(recording, first_key=earlier.id)


def with_instants_of(windows: ScoredRecording, earlier: HeardRow) -> ScoredRecording:
    """The frames of windows that were whole before stay the same, so no answer is asked for again.

    The new sound may move the noise floor, and with it the largest score of a window.
    """
    instants, count = windows.instants.copy(), int(earlier.duration / windows.length)
    if earlier.length == windows.length:
        instants[:count] = earlier.instants[:count]
    return replace(windows, instants=instants)


def keep_sounds(
    recordings: Iterable[Recording],
    listener: SoundListener,
    run: Run,
    backend: Backend,
    progress: Progress,
) -> None:
    known = run.recordings_with_sound_track()
    missing = [item for item in recordings if item.has_audio and item.id not in known]
    progress.enter("naming sounds", sum(item.duration for item in missing))
    for recording, evidence in backend.map(listener.evidence, missing):
        progress.advance(recording.duration, recording.name)
        if not isinstance(evidence, EarmarkError):
            origin = listener.encoder.name + TRACK
            run.keep_evidence(recording.id, evidence, kinds=["heard"], origin=origin)


def keep_speech(
    recordings: Iterable[Recording],
    listener: SpeechListener,
    run: Run,
    backend: Backend,
    progress: Progress,
) -> None:
    origin = listener.transcriber.name
    known = run.transcribed(origin)
    missing = [recording for recording in recordings if recording.id not in known]
    progress.enter("transcribing speech", sum(recording.duration for recording in missing))
    for recording, speech in backend.map(listener, missing):
        progress.advance(recording.duration, recording.name)
        if isinstance(speech, EarmarkError):
            logger.warning("%s: its speech could not be transcribed: %s", recording.name, speech)
            continue
        if speech.uncertain and not speech.entries:
            left_out = counted(speech.uncertain, "sentence")
            logger.warning(
                "%s: the transcript is too uncertain, %s left out", recording.name, left_out
            )
        run.keep_speech(recording.id, speech.entries, by=origin)


def forget_speech(run: Run) -> None:
    from earmark.run.erasure import delete_speech, has_speech
    from earmark.search.archive_search import VECTORS

    if has_speech(run):
        (run.folder / VECTORS).unlink(missing_ok=True)
        delete_speech(run)
