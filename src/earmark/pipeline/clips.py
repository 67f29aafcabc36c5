"""Cuts clips of a run: into an archive with its page and captions, into one video, or one clip.

Clips have no voices, and blurred faces, if the run was made so or the caller asks for it.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from earmark.captioning.yes_or_no import is_seen
from earmark.errors import EarmarkError, MediaError
from earmark.evidence.face_blur import FaceBlur
from earmark.evidence.voice_activity import VoiceActivity
from earmark.features.encoder import SAMPLE_RATE
from earmark.ledger.blurred_ledger import blur_of
from earmark.ledger.records import PickRow, RecordingRow, spare_recordings
from earmark.ledger.run_reader import Run
from earmark.ledger.shareable_copy import hide_places, shareable_copy
from earmark.media import Recording
from earmark.media.atomic_file import replacing
from earmark.media.clip_joiner import CaptionedClip, ClipCue, join_clips
from earmark.media.clip_writer import cut_clip
from earmark.media.source import name_of
from earmark.models import ModelStore
from earmark.pipeline.resume import reopen
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.reporting.export_formats import export
from earmark.reporting.exporter import is_shown
from earmark.reporting.report_page import write_page
from earmark.timeline import Span, format_clock

FORMATS = {"csv": "captions.csv", "jsonl": "captions.jsonl", "srt": "subtitles"}
"""Export formats in an archive beside the page, with the name of each file or folder."""


@dataclass(frozen=True, slots=True)
class BundleResult:
    """An archive that was written."""

    path: Path
    clips: int
    uncut: tuple[str, ...]
    """Why recordings have no clips, one line each."""


@dataclass(frozen=True, slots=True)
class HighlightsResult:
    """A video of the picks that was written."""

    path: Path
    picks: int
    is_copied: bool
    """Whether pictures and sound were copied; False if they were encoded again."""
    left_out: tuple[str, ...]
    """Why recordings are not in the video, one line each."""


def bundle(
    run: Path,
    to: Path,
    *,
    voices: bool = True,
    blur: FaceBlur | None = None,
    store: ModelStore | None = None,
) -> BundleResult:
    """Write the run in the folder `run` to the archive `to`; if this fails, `to` is unchanged.

    The archive, a .zip file, contains no paths of recordings, no address of a model server, and no
    keys. It has no speech without `voices`, or if the run was made so, and faces are blurred if the
    run has them blurred or `blur` is given. `store` has the model that detects speech; without that
    model, muted clips have no sound.

    Raises:
        LedgerError: there is no run, or it cannot be read.
        ModelMissing: faces are to be blurred, and the model that finds them is not here.
        ValueError: `to` is a recording of the run.
    """
    with tempfile.TemporaryDirectory() as scratch, Run(run) as kept:
        spare_recordings(kept.recordings(), [to])
        plan = plan_of_clips(kept, voices=voices, blur=blur, store=store)
        folder, voices = Path(scratch), plan.speech_plan.voices
        with shareable_copy(run, voices=voices, blur=plan.question.blur) as shared:
            files, uncut = _cut(kept, folder, plan)
            write_page(shared, folder / "index.html", title=run.resolve().name, files=files)
            for name, place in FORMATS.items():
                export(shared, folder / place, format=name)
        with replacing(to) as target:
            _pack(folder, target)
    return BundleResult(to, sum(map(len, files.values())), tuple(uncut))


def _cut(
    run: Run, folder: Path, plan: Plan
) -> tuple[dict[str, list[tuple[str, float]]], list[str]]:
    """Cut every pick into `folder`; the file and start time of each clip by recording, and errors.

    A recording whose clips cannot be cut has no entry, and one line that says why.
    """
    files: dict[str, list[tuple[str, float]]] = {}
    uncut = []
    for place, row in enumerate(run.recordings(), start=1):
        cut = []
        try:
            recording = reopen(run, row)
            muted, blur = speech_to_mute(recording, plan), plan.question.blur
            for number, pick in enumerate(run.picks(row.id), start=1):
                name = f"clips/{place:03d}-{number:04d}.mp4"
                start = cut_clip(recording, pick.span, folder / name, muted=muted, blur=blur)
                cut.append((name, start))
        except EarmarkError as error:
            uncut.append(hide_places(f"{name_of(row.path)} has no clips: {error}", {row.path}))
        else:
            files[row.id] = sorted(cut, key=lambda one: one[1])
    return files, uncut


def highlights(
    run: Path,
    to: Path,
    *,
    voices: bool = True,
    blur: FaceBlur | None = None,
    store: ModelStore | None = None,
) -> HighlightsResult:
    """Write the picks of the run in the folder `run` to the video `to`, in order of time.

    Windows in which `find` did not see what it looked for are left out. Picks that touch become one
    clip. Each clip begins at the key frame before it.

    `to` is an MP4 file; for `voices`, `blur` and `store` see `bundle`.

    Raises:
        LedgerError: there is no run, or it cannot be read.
        ModelMissing: faces are to be blurred, and the model that finds them is not here.
        MediaError: no clip can be cut, or the clips cannot be joined.
        ValueError: `to` is a recording of the run.
    """
    clips: list[CaptionedClip] = []
    left_out = []
    with tempfile.TemporaryDirectory() as scratch, Run(run) as kept:
        spare_recordings(kept.recordings(), [to])
        plan = plan_of_clips(kept, voices=voices, blur=blur, store=store)
        rows = sorted(kept.recordings(), key=lambda row: (row.began, row.path))
        for place, row in enumerate(rows):
            try:
                clips += _clips(kept, row, Path(scratch, str(place)), plan)
            except EarmarkError as error:
                left_out.append(f"{name_of(row.path)} is left out: {error}")
        if not clips:
            reason = f": {left_out[0]}" if left_out else "; it has no picks, or saw nothing in them"
            raise MediaError(f"there is nothing to show of the run in {run}{reason}")
        is_copied = join_clips(clips, to) and plan.question.blur is None
    picks = sum(len(clip.cues) for clip in clips)
    return HighlightsResult(to, picks, is_copied, tuple(left_out))


def _clips(run: Run, row: RecordingRow, folder: Path, plan: Plan) -> list[CaptionedClip]:
    recording = reopen(run, row)
    if recording.video is None:
        raise MediaError("it has no pictures")
    muted = speech_to_mute(recording, plan)
    clips = []
    is_search = bool(run.plan().get("find"))
    picks = (
        pick for pick in run.picks(row.id) if is_shown(is_seen(pick.answer), is_search=is_search)
    )
    for number, group in enumerate(_stretches(picks)):
        span = Span(group[0].span.start, group[-1].span.end)
        path = folder / f"{number:05d}.mp4"
        start = cut_clip(recording, span, path, muted=muted, blur=plan.question.blur)
        cues = tuple(_cue(one, start, min(one.span.end, recording.duration)) for one in group)
        clips.append(CaptionedClip(path, cues))
    return clips


def _stretches(picks: Iterable[PickRow]) -> list[list[PickRow]]:
    """The picks in groups: those that touch or overlap are in one group."""
    groups: list[list[PickRow]] = []
    for pick in picks:
        if groups and pick.span.start <= groups[-1][-1].span.end:
            groups[-1].append(pick)
        else:
            groups.append([pick])
    return groups


def _cue(pick: PickRow, start: float, end: float) -> ClipCue:
    caption = pick.kept.answer.text if pick.kept else ", ".join(pick.tags)
    text = " ".join(hide_places(caption).split())
    title = f"{format_clock(pick.span.start)} {text}"[:80].strip()
    return ClipCue(pick.span.start - start, end - start, title, text)


def cut_kept(
    run: Run,
    row: RecordingRow,
    span: Span,
    path: Path,
    *,
    blur: FaceBlur | None = None,
    store: ModelStore | None = None,
) -> None:
    """Cut `span` of a recording of `run` to `path`, without voices if the run has none.

    Faces are blurred if the run has them blurred or `blur` is given.

    Raises:
        MediaError: it is no local file, has changed since the run, or cannot be cut.
        ModelMissing: faces are to be blurred, and the model that finds them is not here.
    """
    recording, plan = reopen(run, row), plan_of_clips(run, voices=True, blur=blur, store=store)
    muted = speech_to_mute(recording, plan)
    cut_clip(recording, span, path, muted=muted, blur=plan.question.blur)


def plan_of_clips(
    run: Run, *, voices: bool, blur: FaceBlur | None, store: ModelStore | None
) -> Plan:
    """The plan for cutting clips of `run`.

    It has no voices if the run has none or `voices` is False, and blurs faces if the run has them
    blurred or `blur` is given.

    Raises:
        ModelMissing: faces are to be blurred, and the model that finds them is not here.
    """
    store = store or ModelStore()
    blurred = blur_of(run, blur, store)
    if blurred:
        blurred.check()
    voices = voices and run.plan().get("voices", True)
    return make_plan(voices=voices, store=store, blur=blurred)


def speech_to_mute(recording: Recording, plan: Plan) -> list[Span] | None:
    """The spans of `recording` to mute in clips: those with speech if `plan` allows no voices.

    Empty if voices are allowed or there is no audio. None stands for the whole recording: voices
    are not allowed, and the model that detects speech is not here.
    """
    if plan.speech_plan.voices or not recording.has_audio:
        return []
    if plan.store.state("silero-vad") != "here":
        return None
    activity = VoiceActivity(pad=0.3, weights=plan.store.find("silero-vad"))
    return list(activity(recording.sound(sample_rate=SAMPLE_RATE)))


def _pack(folder: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            is_media = path.suffix in (".mp4", ".jpg")
            # A ZipInfo made by hand has a fixed time, not that of the file on this machine.
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
            how = zipfile.ZIP_STORED if is_media else zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes(), compress_type=how)
