"""Where speech is, so that a clip can leave the run without it."""

from __future__ import annotations

import logging

from earmark.evidence.voice_activity import VoiceActivity
from earmark.features.encoder import SAMPLE_RATE
from earmark.media import Recording
from earmark.pipeline.run_plan import Plan
from earmark.timeline import Span

logger = logging.getLogger(__name__)


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
