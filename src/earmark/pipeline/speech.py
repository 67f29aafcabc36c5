"""Speech: written down where it is asked for, and where it is not wanted, not kept at all."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from earmark.errors import EarmarkError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.speech_listener import SpeechListener
from earmark.evidence.voice_activity import VoiceActivity
from earmark.features.encoder import SAMPLE_RATE
from earmark.ledger.ledger import Ledger
from earmark.media import Recording, Source
from earmark.pipeline.backend import Backend
from earmark.pipeline.run_plan import Plan, SpeechPlan
from earmark.timeline import Span

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpeechWork:
    """What a worker does with one recording; holds no state."""

    listener: SpeechListener

    def __call__(self, recording: Recording) -> list[EvidenceEntry]:
        """Every sentence that is said in it."""
        return self.listener(recording)


def speech_to_mute(recording: Recording, plan: Plan) -> list[Span] | None:
    """Where a clip of `recording` is to be silent: nowhere, unless `plan` wants no voices.

    None is everywhere: where nothing here can tell speech from other sound.
    """
    if plan.speech_plan.voices or not recording.has_audio:
        return []
    if plan.store.state("silero-vad") != "here":
        return None
    activity = VoiceActivity(pad=0.3, weights=plan.store.find("silero-vad"))
    return list(activity(recording.sound(sample_rate=SAMPLE_RATE)))


def write_down_speech(
    recordings: Mapping[Source, Recording],
    plan: SpeechPlan,
    listener: SpeechListener | None,
    ledger: Ledger,
    backend: Backend,
) -> None:
    """Keep what is said in each recording, as `plan` says; what is kept is not heard again.

    A recording whose speech cannot be written down is a warning, and has none.
    """
    if not plan.voices:
        for recording in recordings.values():
            ledger.keep_evidence(recording.key, [], kinds={"said"})
    if listener is None:
        return
    origin = listener.transcriber.name
    with ledger.run() as run:
        missing = [
            recording
            for recording in recordings.values()
            if all(entry.origin != origin for entry in run.evidence(recording.key, kinds={"said"}))
        ]
    for recording, found in backend.map(SpeechWork(listener), missing):
        if isinstance(found, EarmarkError):
            logger.warning("%s: its speech is not written down: %s", recording.name, found)
            continue
        ledger.keep_evidence(recording.key, found, kinds={"said"})
