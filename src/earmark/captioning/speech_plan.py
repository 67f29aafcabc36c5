"""Whether what is said is written down, and who does that."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from earmark.models import ModelStore
from earmark.redaction import redact_url

if TYPE_CHECKING:
    from earmark.evidence.speech_listener import SpeechListener, Transcriber


@dataclass(frozen=True, slots=True)
class SpeechPlan:
    """Whether what is said is written down, and by whom."""

    speech: bool = False
    """Off unless asked for: people beside the wearer have not agreed."""
    transcriber: str | None = None
    """Address of a server that transcribes; None for the embedded Whisper."""
    transcriber_model: str = "whisper-1"
    """The model's name on that server."""
    language: str = ""
    """The code of the language spoken; empty finds out."""
    voices: bool = True
    """False keeps no transcript, and deletes what an earlier run kept."""

    def open_listener(
        self, store: ModelStore | None = None, *, api_key: str | None = None
    ) -> SpeechListener:
        """Who writes down speech, ready.

        Raises:
            ModelMissing: a model is not here.
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
        """The choices as plain values, without what is secret in an address."""
        server = None if self.transcriber is None else redact_url(self.transcriber)
        return asdict(self) | {"transcriber": server}
