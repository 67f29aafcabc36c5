"""The picks of a run as one video, with what was answered as subtitles and chapters."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from earmark.errors import EarmarkError, MediaError
from earmark.evidence.face_blur import FaceBlur
from earmark.ledger.records import PickRow, RecordingRow
from earmark.ledger.run_reader import Run
from earmark.ledger.shareable_copy import hide_places
from earmark.media.clip_joiner import CaptionedClip, ClipCue, join_clips
from earmark.media.clip_writer import cut_clip
from earmark.media.source import name_of
from earmark.models import ModelStore
from earmark.pipeline.bundle import open_kept, plan_of_clips, speech_to_mute
from earmark.pipeline.run_plan import Plan
from earmark.timeline import Span, format_clock


@dataclass(frozen=True, slots=True)
class HighlightsResult:
    """What a video of picks came to."""

    path: Path
    picks: int
    is_copied: bool
    """Whether pictures and sound are as recorded; else they were encoded anew."""
    left_out: tuple[str, ...]
    """Why some recordings are not in it, a line each."""


def highlights(
    run: Path,
    to: Path,
    *,
    voices: bool = True,
    blur: FaceBlur | None = None,
    store: ModelStore | None = None,
) -> HighlightsResult:
    """Write the picks of the run in the folder `run` to the video `to`, in order of time.

    Picks that touch are one stretch. Each begins at the key frame before it.

    Args:
        run: The folder of the run.
        to: The video, an MP4.
        voices: Whether what is said may be heard; never where the run was made without.
        blur: What is blurred in it; faces in any case where the run was made so.
        store: Has the model that tells speech from other sound; without it all sound is left out.

    Raises:
        LedgerError: there is no run, or it cannot be read.
        ModelMissing: faces are to be blurred, and what finds them is not here.
        MediaError: there is nothing to show, or no video can be made of it.
    """
    clips: list[CaptionedClip] = []
    left_out = []
    with tempfile.TemporaryDirectory() as scratch, Run.open(run) as kept:
        plan = plan_of_clips(kept, voices=voices, blur=blur, store=store)
        rows = sorted(kept.recordings(), key=lambda row: (row.began, row.path))
        for place, row in enumerate(rows):
            try:
                clips += _clips(kept, row, Path(scratch, str(place)), plan)
            except EarmarkError as error:
                left_out.append(f"{name_of(row.path)} is left out: {error}")
        if not clips:
            reason = f": {left_out[0]}" if left_out else "; it has no picks"
            raise MediaError(f"there is nothing to show of the run in {run}{reason}")
        is_copied = join_clips(clips, to) and plan.question.blur is None
    picks = sum(len(clip.cues) for clip in clips)
    return HighlightsResult(to, picks, is_copied, tuple(left_out))


def _clips(run: Run, row: RecordingRow, folder: Path, plan: Plan) -> list[CaptionedClip]:
    recording = open_kept(row)
    if recording.video is None:
        raise MediaError("it has no pictures")
    muted = speech_to_mute(recording, plan)
    clips = []
    for number, group in enumerate(_stretches(run.picks(row.id))):
        span = Span(group[0].span.start, group[-1].span.end)
        path = folder / f"{number:05d}.mp4"
        start = cut_clip(recording, span, path, muted=muted, blur=plan.question.blur)
        cues = tuple(_cue(one, start, min(one.span.end, recording.duration)) for one in group)
        clips.append(CaptionedClip(path, cues))
    return clips


def _stretches(picks: Iterable[PickRow]) -> list[list[PickRow]]:
    """The picks, those that touch together."""
    groups: list[list[PickRow]] = []
    for pick in picks:
        if groups and pick.span.start <= groups[-1][-1].span.end:
            groups[-1].append(pick)
        else:
            groups.append([pick])
    return groups


def _cue(pick: PickRow, start: float, end: float) -> ClipCue:
    said = pick.kept.answer.text if pick.kept else ", ".join(pick.tags)
    text = " ".join(hide_places(said).split())
    title = f"{format_clock(pick.span.start)} {text}"[:80].strip()
    return ClipCue(pick.span.start - start, end - start, title, text)
