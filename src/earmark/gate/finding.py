"""Listens to a recording for its episodes, and says what they would cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from earmark.gate.episodes import Bill, Episodes, bill
from earmark.gate.gate import Gate
from earmark.gate.listen import Progress, listen
from earmark.media import Recording
from earmark.timeline import Span


@dataclass(frozen=True, slots=True)
class Found:
    """The episodes of one recording."""

    recording: str
    """The file or address; the first chapter of several."""
    duration: float
    episodes: tuple[Span, ...]
    bill: Bill
    window: float
    """Seconds of the windows the calls are counted in."""

    def to_json(self) -> dict[str, Any]:
        """The episodes and both accounts as plain values; `undercount` is null without any."""
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


def find_episodes(
    recording: Recording,
    gate: Gate,
    rule: Episodes,
    *,
    window: float = 4.0,
    progress: Progress | None = None,
) -> Found:
    """The stretches of `recording` that `gate` keeps open under `rule`; no frame is decoded.

    Raises:
        NoAudioStream: there is nothing to listen to.
    """
    heard = listen(recording, gate.frontline(), progress=progress)
    episodes = tuple(rule([heard.scores]))
    windows = max(0, math.ceil(recording.duration / window - 1e-9))
    account = bill(episodes, length=window, windows=windows)
    place = recording.source.uris[0]
    return Found(place, recording.duration, episodes, account, window)
