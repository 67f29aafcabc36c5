"""Whether speech is transcribed, and by which model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from earmark.models import ModelStore
from earmark.redaction import redact_url

if TYPE_CHECKING:
    from earmark.evidence.speech_listener import SpeechListener, Transcriber


@dataclass(frozen=True, slots=True)
class SpeechPlan:
    """Whether speech is transcribed, and by which model."""

    speech: bool = False
    """Off by default: people near the wearer have not consented."""
    transcriber: str | None = None
    """Address of a server that transcribes; None for the embedded Whisper."""
    transcriber_model: str = "whisper-1"
    """The model's name on that server."""
    language: str = ""
    """Code of the language spoken; empty detects it."""
    voices: bool = True
    """False stores no transcript, and deletes those of earlier runs."""

    def open_listener(
        self, store: ModelStore | None = None, *, api_key: str | None = None
    ) -> SpeechListener:
        """The transcriber with its voice detector, checked.

        Raises:
            ModelMissing: a model is not installed.
        """
        from earmark.evidence.speech_listener import SpeechListener
        from earmark.evidence.voice_activity import VoiceActivity

        store = store or ModelStore()
        activity = VoiceActivity(weights=store.find("silero-vad"))
        made: Transcriber
        if self.transcriber is not None:
            from earmark.captioning.transcription_server import ServerTranscriber

            model, language = self.transcriber_model, self.language
            made = ServerTranscriber(self.transcriber, model, language, api_key)
        else:
            from earmark.evidence.whisper_model import WhisperModel

            made = WhisperModel(store, language=self.language)
        made.check()
        return SpeechListener(made, activity)

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values, without secrets in addresses."""
        server = None if self.transcriber is None else redact_url(self.transcriber)
        return asdict(self) | {"transcriber": server}
