"""Storing: what was heard of every recording goes into the ledger, as it comes in.

What is held of a recording afterwards is its description: an archive takes a few kilobytes a
recording, and 8 bytes a window while its price is found.
"""

from __future__ import annotations

from collections.abc import Iterable

from earmark.errors import EarmarkError, UnreadableFile
from earmark.ledger import Ledger, RecordingRow
from earmark.ledger.row_values import as_place
from earmark.media import Recording, Source
from earmark.pipeline.listen import Listened, ListenPlan, ScoredRecording


def known_recordings(
    sources: Iterable[Source], plan: ListenPlan, ledger: Ledger
) -> dict[Source, str]:
    """The keys of those of `sources` whose windows the ledger has, heard as this plan would."""
    by_path = ledger.heard_at(key=plan.key) if plan.cache is not None else {}
    places = {source: by_path.get(as_place(source.uris[0])) for source in sources}
    return {source: key for source, key in places.items() if key is not None}


def store(
    listened: Iterable[tuple[Source, Listened]], plan: ListenPlan, ledger: Ledger
) -> tuple[dict[Source, Recording], int]:
    """Keep what was heard as it comes in; the recordings, and how many could not be worked on."""
    recordings: dict[Source, Recording] = {}
    missed = 0
    ledger.rate_by(plan.frontline.survival)
    for source, one in listened:
        failure = one if isinstance(one, EarmarkError) else _without_pictures(source, one)
        if isinstance(one, EarmarkError) or failure:
            ledger.fail_recording(source.uris[0], source.uris[0], str(failure), name=source.id)
            missed += 1
            continue
        recordings[source] = recording = one if isinstance(one, Recording) else one.heard.recording
        ledger.add(RecordingRow.of(recording))
        if isinstance(one, ScoredRecording):  # else its windows are there from an earlier run
            _keep_windows(one, plan, ledger)
    return recordings, missed


def _without_pictures(source: Source, one: ScoredRecording | Recording) -> UnreadableFile | None:
    """Why a recording without pictures has failed: no call is to be planned for it."""
    recording = one if isinstance(one, Recording) else one.heard.recording
    if recording.video is not None:
        return None
    return UnreadableFile(
        f"{source.uris[0]} has sound and no pictures, so there is nothing to caption; "
        "`earmark select` says which of its moments are worth hearing"
    )


def _keep_windows(one: ScoredRecording, plan: ListenPlan, ledger: Ledger) -> None:
    heard = one.heard
    ledger.hear(
        heard.recording.key,
        one.windows,
        key=plan.key,
        level=heard.level,
        sound_bytes=heard.bytes_read,
        access=heard.access,
        warnings=heard.warnings,
    )
