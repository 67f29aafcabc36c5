"""Cuts clips of a run: into an archive with its page and captions, into one video, or one clip.

Clips have no voices, and blurred faces, if the run was made so or the caller asks for it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from earmark.errors import EarmarkError, MediaError
from earmark.evidence.speech_listener import VoiceActivity
from earmark.features.encoder import SAMPLE_RATE
from earmark.media import Recording
from earmark.media.atomic_file import replacing, scratch_folder
from earmark.media.clip_writer import CaptionedClip, ClipCue, cut_clip, join_clips
from earmark.media.source import name_of
from earmark.pipeline.resume import reopen
from earmark.pipeline.session import Session, open_session
from earmark.report.export_formats import export, is_shown
from earmark.report.progress import Progress
from earmark.report.report_page import write_page
from earmark.run.erasure import note_written
from earmark.run.records import RecordingRow, RunPick, spare_recordings
from earmark.run.run import Run
from earmark.run.shareable_copy import hide_places, shareable_copy
from earmark.settings import Settings
from earmark.timeline import Span, format_clock

FORMATS = {"csv": "captions.csv", "jsonl": "captions.jsonl", "srt": "subtitles"}


@dataclass(frozen=True, slots=True)
class ClipsResult:
    path: Path
    picks: int
    """Those with a clip."""
    left_out: tuple[str, ...]
    is_copied: bool = True
    """False if pictures and sound were encoded again."""


def bundle(
    run: Path, to: Path, settings: Settings | None = None, *, progress: Progress | None = None
) -> ClipsResult:
    """Write the run in the folder `run` to the archive `to`; if this fails, `to` is unchanged.

    The .zip file contains no paths of recordings, no address of a model server, and no keys; no
    speech and blurred faces if `settings` say so, or if the run was made so. Without the model that
    detects speech, muted clips have no sound.
    """
    with scratch_folder(to) as folder, Run(run) as stored:
        spare_recordings(stored.recordings(), [to])
        plan = _plan_of_clips(stored, settings)
        voices, blur = plan.settings.voices, plan.question.blur
        with shareable_copy(run, to, voices=voices, blur=blur) as shared:
            files, uncut = _cut(stored, folder, plan, progress or Progress())
            write_page(shared, folder / "index.html", title=run.resolve().name, files=files)
            for kind, name in FORMATS.items():
                export(shared, folder / name, format=kind)
        with replacing(to) as target:
            _pack(folder, target)
    note_written(run, [to])
    return ClipsResult(to, sum(map(len, files.values())), tuple(uncut))


def _cut(
    run: Run, folder: Path, plan: Session, progress: Progress
) -> tuple[dict[str, list[tuple[str, float]]], list[str]]:
    files: dict[str, list[tuple[str, float]]] = {}
    uncut, rows = [], run.recordings()
    _enter_cutting(progress, plan, [pick.span for row in rows for pick in run.picks(row.id)])
    for index, row in enumerate(rows, start=1):
        clips = []
        try:
            recording = reopen(row, run.heard(row.id), folders=plan.settings.folders)
            muted, blur = speech_to_mute(recording, plan), plan.question.blur
            for number, pick in enumerate(run.picks(row.id), start=1):
                name = f"clips/{index:03d}-{number:04d}.mp4"
                start = cut_clip(recording, pick.span, folder / name, muted=muted, blur=blur)
                clips.append((name, start))
                progress.advance(pick.span.duration)
        except EarmarkError as error:
            uncut.append(hide_places(f"{name_of(row.path)} has no clips: {error}", {row.path}))
        else:
            files[row.id] = sorted(clips, key=itemgetter(1))
    progress.enter("writing the archive")
    return files, uncut


def _enter_cutting(progress: Progress, plan: Session, spans: Sequence[Span]) -> None:
    phase = "blurring faces" if plan.question.blur else "cutting clips"
    progress.enter(phase, sum(span.duration for span in spans))


def highlights(
    run: Path, to: Path, settings: Settings | None = None, *, progress: Progress | None = None
) -> ClipsResult:
    """Write the picks of the run in the folder `run` to the MP4 file `to`, in order of time.

    Windows in which `find` did not see what it looked for are left out. Picks that touch become one
    clip. Each clip begins at the key frame before it.
    """
    clips: list[CaptionedClip] = []
    left_out, progress = [], progress or Progress()
    with scratch_folder(to) as scratch, Run(run) as stored:
        spare_recordings(stored.recordings(), [to])
        plan = _plan_of_clips(stored, settings)
        rows = sorted(stored.recordings(), key=lambda row: (row.began, row.path))
        shown = [span for row in rows for span in map(_span, _stretches(stored, row))]
        _enter_cutting(progress, plan, shown)
        for number, row in enumerate(rows):
            try:
                clips += _clips(stored, row, scratch / str(number), plan, progress)
            except EarmarkError as error:
                left_out.append(f"{name_of(row.path)} is left out: {error}")
        if not clips:
            reason = f": {left_out[0]}" if left_out else "; it has no picks, or saw nothing in them"
            raise MediaError(f"the run in {run} has no clips to show{reason}")
        progress.enter("writing the video")
        is_copied = join_clips(clips, to) and plan.question.blur is None
    note_written(run, [to])
    picks = sum(len(clip.cues) for clip in clips)
    return ClipsResult(to, picks, tuple(left_out), is_copied)


def _clips(
    run: Run, row: RecordingRow, folder: Path, plan: Session, progress: Progress
) -> list[CaptionedClip]:
    recording = reopen(row, run.heard(row.id), folders=plan.settings.folders)
    if recording.video is None:
        raise MediaError("it has no pictures")
    muted = speech_to_mute(recording, plan)
    clips = []
    for number, group in enumerate(_stretches(run, row)):
        span = _span(group)
        path = folder / f"{number:05d}.mp4"
        start = cut_clip(recording, span, path, muted=muted, blur=plan.question.blur)
        cues = tuple(_cue(pick, row, start) for pick in group)
        clips.append(CaptionedClip(path, cues))
        progress.advance(span.duration)
    return clips


def _span(group: Sequence[RunPick]) -> Span:
    return Span(group[0].span.start, group[-1].span.end)


def _stretches(run: Run, row: RecordingRow) -> list[list[RunPick]]:
    """The picks to show, those that touch together."""
    groups: list[list[RunPick]] = []
    is_search = bool(run.plan().get("find"))
    for pick in run.picks(row.id):
        if not is_shown(pick.seen, is_search=is_search):
            continue
        if groups and pick.span.start <= groups[-1][-1].span.end:
            groups[-1].append(pick)
        else:
            groups.append([pick])
    return groups


def _cue(pick: RunPick, row: RecordingRow, start: float) -> ClipCue:
    end, day = min(pick.span.end, row.duration), row.clock(pick.span.start, zone=True)
    caption = ", ".join(pick.tags) if pick.caption is None else pick.caption
    text = " ".join(hide_places(caption).split())
    times = " ".join(filter(None, [format_clock(pick.span.start), f"({day})" if day else ""]))
    title = f"{times} {text}"[:80].strip()
    return ClipCue(pick.span.start - start, end - start, title, f"{day} {text}".strip())


def cut_kept(
    run: Run, row: RecordingRow, span: Span, path: Path, settings: Settings | None = None
) -> None:
    plan = _plan_of_clips(run, settings)
    recording = reopen(row, run.heard(row.id), folders=plan.settings.folders)
    muted = speech_to_mute(recording, plan)
    cut_clip(recording, span, path, muted=muted, blur=plan.question.blur)


def _plan_of_clips(run: Run, settings: Settings | None) -> Session:
    chosen = settings or Settings()
    plan = open_session(
        voices=chosen.voices and run.plan().get("voices", True),
        models=chosen.folders.models,
        addresses=chosen.folders.addresses,
        blur="faces" if run.is_blurred else chosen.blur,
    )
    if plan.question.blur:
        plan.question.blur.check()
    return plan


def speech_to_mute(recording: Recording, plan: Session) -> list[Span] | None:
    """None means the whole recording: the model that detects speech is not here."""
    if plan.settings.voices or not recording.has_audio:
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
