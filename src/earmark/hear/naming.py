"""Names for what is heard in a window, remembered so that a recording is heard for them once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from earmark.hear.yamnet import YAMNet
from earmark.media import Recording
from earmark.media.files import replacing
from earmark.timeline import Span


@dataclass(frozen=True, slots=True)
class SoundNamer:
    """Says what is heard in spans of a recording, in the words of an encoder that knows sounds."""

    encoder: YAMNet
    folder: Path | None = None
    """Where to remember; None listens every time."""

    @property
    def model(self) -> str:
        """The name that goes into a plan."""
        return "yamnet"

    def __call__(self, recording: Recording, spans: Sequence[Span]) -> dict[Span, tuple[str, ...]]:
        """The names of each of `spans`, likeliest first; empty where nothing is recognised."""
        known = self._remembered(recording)
        missing = [span for span in spans if span not in known]
        if missing:
            known |= dict(zip(missing, self.encoder.tags(recording, missing), strict=True))
            self._remember(recording, known)
        return {span: known[span] for span in spans}

    def _path(self, recording: Recording) -> Path | None:
        if self.folder is None:
            return None
        parts = f"{recording.key} {recording.audio_track} {self.encoder!r}"
        name = hashlib.sha256(parts.encode()).hexdigest()
        return self.folder / "names" / name[:2] / f"{name}.json"

    def _remembered(self, recording: Recording) -> dict[Span, tuple[str, ...]]:
        path = self._path(recording)
        try:
            rows = json.loads(path.read_text(encoding="utf-8")) if path else []
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return {Span(start, end): tuple(names) for start, end, names in rows}

    def _remember(self, recording: Recording, known: dict[Span, tuple[str, ...]]) -> None:
        path = self._path(recording)
        if path is None:
            return
        rows = [(span.start, span.end, names) for span, names in sorted(known.items())]
        with replacing(path) as scratch:
            scratch.write_text(json.dumps(rows), encoding="utf-8")
