"""Cuts clips of a run: into an archive with its page and captions, into one video, or one clip.

Clips have no voices, and blurred faces, if the run was made so or the caller asks for it.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from earmark.errors import EarmarkError, MediaError
from earmark.evidence.face_blur import FaceBlur
from earmark.evidence.voice_activity import VoiceActivity
from earmark.features.encoder import SAMPLE_RATE
from earmark.media import Recording
from earmark.media.atomic_file import replacing
from earmark.media.clip_writer import CaptionedClip, ClipCue, cut_clip, join_clips
from earmark.media.source import name_of
from earmark.models import ModelStore
from earmark.pipeline.resume import reopen
from earmark.pipeline.session import Session, open_session
from earmark.report.export_formats import export, is_shown
from earmark.report.report_page import write_page
from earmark.run.records import RecordingRow, RunPick, spare_recordings
from earmark.run.run import Run, blur_of
from earmark.run.shareable_copy import hide_places, shareable_copy
from earmark.text_format import counted
from earmark.timeline import Span, format_clock

FORMATS = {"csv": "captions.csv", "jsonl": "captions.jsonl", "srt": "subtitles"}


@dataclass(frozen=True, slots=True)
class BundleResult:
    path: Path
    clips: int
    left_out: tuple[str, ...]

    def summary(self) -> str:
        return f"{self.path}: the page, captions and {counted(self.clips, 'clip')}"


@dataclass(frozen=True, slots=True)
class HighlightsResult:
    path: Path
    picks: int
    is_copied: bool
    """False if pictures and sound were encoded again."""
    left_out: tuple[str, ...]

    def summary(self) -> str:
        how = "copied as recorded" if self.is_copied else "encoded anew"
        return f"{self.path}: {counted(self.picks, 'pick')}, {how}"


def bundle(
    run: Path,
    to: Path,
    *,
    voices: bool = True,
    blur: FaceBlur | None = None,
    store: ModelStore | None = None,
) -> BundleResult:
    """Write the run in the folder `run` to the archive `to`; if this fails, `to` is unchanged.

    The .zip file contains no paths of recordings, no address of a model server, and no keys; no
    speech without `voices`, and blurred faces with `blur`, or if the run was made so. Without the
    model in `store` that detects speech, muted clips have no sound.
    """
    with tempfile.TemporaryDirectory() as scratch, Run(run) as kept:
        spare_recordings(kept.recordings(), [to])
        plan = plan_of_clips(kept, voices=voices, blur=blur, store=store)
        folder, voices = Path(scratch), plan.settings.voices
        with shareable_copy(run, voices=voices, blur=plan.question.blur) as shared:
            files, uncut = _cut(kept, folder, plan)
            write_page(shared, folder / "index.html", title=run.resolve().name, files=files)
            for name, place in FORMATS.items():
                export(shared, folder / place, format=name)
        with replacing(to) as target:
            _pack(folder, target)
    return BundleResult(to, sum(map(len, files.values())), tuple(uncut))


def _cut(
    run: Run, folder: Path, plan: Session
) -> tuple[dict[str, list[tuple[str, float]]], list[str]]:
    files: dict[str, list[tuple[str, float]]] = {}
    uncut = []
    for index, row in enumerate(run.recordings(), start=1):
        clips = []
        try:
            recording = reopen(run, row)
            muted, blur = speech_to_mute(recording, plan), plan.question.blur
            for number, pick in enumerate(run.picks(row.id), start=1):
                name = f"clips/{index:03d}-{number:04d}.mp4"
                start = cut_clip(recording, pick.span, folder / name, muted=muted, blur=blur)
                clips.append((name, start))
        except EarmarkError as error:
            uncut.append(hide_places(f"{name_of(row.path)} has no clips: {error}", {row.path}))
        else:
            files[row.id] = sorted(clips, key=itemgetter(1))
    return files, uncut


def highlights(
    run: Path,
    to: Path,
    *,
    voices: bool = True,
    blur: FaceBlur | None = None,
    store: ModelStore | None = None,
) -> HighlightsResult:
    """Write the picks of the run in the folder `run` to the MP4 file `to`, in order of time.

    Windows in which `find` did not see what it looked for are left out. Picks that touch become one
    clip. Each clip begins at the key frame before it.
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
            raise MediaError(f"the run in {run} has no clips to show{reason}")
        is_copied = join_clips(clips, to) and plan.question.blur is None
    picks = sum(len(clip.cues) for clip in clips)
    return HighlightsResult(to, picks, is_copied, tuple(left_out))


def _clips(run: Run, row: RecordingRow, folder: Path, plan: Session) -> list[CaptionedClip]:
    recording = reopen(run, row)
    if recording.video is None:
        raise MediaError("it has no pictures")
    muted = speech_to_mute(recording, plan)
    clips = []
    is_search = bool(run.plan().get("find"))
    picks = (pick for pick in run.picks(row.id) if is_shown(pick.seen, is_search=is_search))
    for number, group in enumerate(_stretches(picks)):
        span = Span(group[0].span.start, group[-1].span.end)
        path = folder / f"{number:05d}.mp4"
        start = cut_clip(recording, span, path, muted=muted, blur=plan.question.blur)
        cues = tuple(_cue(one, start, min(one.span.end, recording.duration)) for one in group)
        clips.append(CaptionedClip(path, cues))
    return clips


def _stretches(picks: Iterable[RunPick]) -> list[list[RunPick]]:
    groups: list[list[RunPick]] = []
    for pick in picks:
        if groups and pick.span.start <= groups[-1][-1].span.end:
            groups[-1].append(pick)
        else:
            groups.append([pick])
    return groups


def _cue(pick: RunPick, start: float, end: float) -> ClipCue:
    caption = ", ".join(pick.tags) if pick.caption is None else pick.caption
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
    recording, plan = reopen(run, row), plan_of_clips(run, voices=True, blur=blur, store=store)
    muted = speech_to_mute(recording, plan)
    cut_clip(recording, span, path, muted=muted, blur=plan.question.blur)


def plan_of_clips(
    run: Run, *, voices: bool, blur: FaceBlur | None, store: ModelStore | None
) -> Session:
    store = store or ModelStore()
    blurred = blur_of(run, blur, store)
    if blurred:
        blurred.check()
    voices = voices and run.plan().get("voices", True)
    return open_session(voices=voices, models=store.folder, blur="faces" if blurred else "none")


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
