"""The episodes of a recording that was listened to, and what they would cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from earmark.errors import NoAudioStream
from earmark.gate.episodes import Bill, Episodes, bill
from earmark.gate.listener import Heard
from earmark.grid import Grid
from earmark.timeline import Span


@dataclass(frozen=True, slots=True)
class RecordingEpisodes:
    """The episodes of one recording."""

    recording: str
    """The file or address; the first chapter of several."""
    duration: float
    episodes: tuple[Span, ...]
    bill: Bill
    window: float
    """Seconds of the windows in which calls are counted."""

    def to_json(self) -> dict[str, Any]:
        """Episodes and both cost accounts as plain values; `undercount` is null without any."""
        account = self.bill
        return {
            "recording": self.recording,
            "duration": self.duration,
            "window": self.window,
            "episodes": [{"start": span.start, "end": span.end} for span in self.episodes],
            "kept": account.duration,
            "calls": account.calls,
            "windows": account.windows,
            "duration_account": account.charged,
            "undercount": None if math.isnan(account.undercount) else account.undercount,
        }


def find_episodes(heard: Heard, rule: Episodes, *, window: float = 4.0) -> RecordingEpisodes:
    """The episodes of `heard`: where its gate is open under `rule`.

    Raises:
        NoAudioStream: there was nothing to hear.
    """
    recording = heard.recording
    if heard.access == "none":
        raise NoAudioStream(f"{recording.name} has no audio stream, so the gate cannot open")
    episodes = tuple(rule(heard.scores))
    windows = Grid(window).count(recording.duration)
    account = bill(episodes, length=window, windows=windows)
    return RecordingEpisodes(recording.source.path, recording.duration, episodes, account, window)
