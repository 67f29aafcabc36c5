"""The episodes of recordings, their cost, and the recall that can be promised for them.

Recall is promised by learn-then-test (Angelopoulos, Bates, Candès, Jordan and Lei). It assumes only
that development and future recordings are exchangeable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from earmark.errors import NoAudioStream
from earmark.gate.episodes import Episodes, Misses, count_windows
from earmark.gate.listener import Heard
from earmark.grid import Grid
from earmark.text_format import Heading, Table, TextLine, counted
from earmark.timeline import Span, format_clock


@dataclass(frozen=True, slots=True)
class RecordingEpisodes:
    recording: str
    duration: float
    episodes: tuple[Span, ...]
    """Apart from each other."""
    window: float
    """Seconds."""

    @property
    def kept(self) -> float:
        return sum(span.duration for span in self.episodes)

    @property
    def windows(self) -> int:
        return Grid(self.window).count(self.duration)

    @property
    def calls(self) -> int:
        return count_windows(self.episodes, length=self.window, windows=self.windows)

    @property
    def charged(self) -> float:
        """Calls counted from duration alone."""
        return self.kept / self.window

    @property
    def undercount(self) -> float | None:
        """None without episodes."""
        return self.calls / self.charged if self.charged else None

    def to_json(self) -> dict[str, Any]:
        return {
            "recording": self.recording,
            "duration": self.duration,
            "window": self.window,
            "episodes": [{"start": span.start, "end": span.end} for span in self.episodes],
            "kept": self.kept,
            "calls": self.calls,
            "windows": self.windows,
            "duration_account": self.charged,
            "undercount": self.undercount,
        }

    def lines(self) -> Iterator[TextLine]:
        """The episodes, then their cost by duration and by windows."""
        calls, windows, undercount = self.calls, self.windows, self.undercount
        yield Heading(f"{self.recording}: {counted(len(self.episodes), 'episode')}")
        if self.episodes:
            rows = [
                (format_clock(span.start), format_clock(span.end), f"{span.duration:.2f}")
                for span in self.episodes
            ]
            yield Table(("start", "end", "seconds"), rows)
        times = f", {undercount:.1f} times as many" if undercount else ""
        yield (
            f"{self.kept:.1f} of {self.duration:.1f} s kept, as long as {self.charged:.1f} windows "
            f"of {self.window:g} s. The episodes touch {calls} of {windows} windows{times}."
        )
        if calls > windows / 2 > 1:
            yield (
                "That is more than half of a full scan: lower `--recall` or `--guarantee`, or "
                "choose windows under a budget, without `--episodes`."
            )


@dataclass(frozen=True, slots=True)
class EpisodeListing:
    recordings: tuple[RecordingEpisodes, ...]
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    promise: str = ""
    """What the operating point guarantees; empty without a guarantee."""

    def to_json(self) -> list[dict[str, Any]]:
        return [recording.to_json() for recording in self.recordings]

    def table(self) -> Table:
        rows = [
            (recording.recording, f"{span.start:.2f}", f"{span.end:.2f}")
            for recording in self.recordings
            for span in recording.episodes
        ]
        return Table(("recording", "start", "end"), rows)

    def lines(self) -> Iterator[TextLine]:
        for recording in self.recordings:
            yield from recording.lines()


def find_episodes(heard: Heard, rule: Episodes, *, window: float) -> RecordingEpisodes:
    recording = heard.recording
    if heard.access == "none":
        raise NoAudioStream(f"{recording.name} has no audio stream, so the gate cannot open")
    episodes = tuple(rule(heard.scores))
    return RecordingEpisodes(recording.source.path, recording.duration, episodes, window)


@dataclass(frozen=True, slots=True)
class Promise:
    threshold: float
    recall: float
    confidence: float
    """The promise fails for at most `1 - confidence` of all possible development sets."""
    recordings: int
    observed: float


def promise(misses: Misses, *, recall: float, confidence: float = 0.95) -> Promise:
    """The highest threshold for which a mean `recall` can be promised; `ValueError` if none."""
    for name, share in (("recall", recall), ("confidence", confidence)):
        if not 0 < share < 1:
            raise ValueError(f"a promised {name} lies between 0 % and 100 %, not {share:.0%}")
    count, risk, doubt = len(misses.shares), 1 - recall, 1 - confidence
    if count < fewest(recall=recall, confidence=confidence):
        raise ValueError(
            f"{count} development recordings cannot promise {recall:.0%} recall with "
            f"{confidence:.0%} confidence, however good the gate: that takes "
            f"{fewest(recall=recall, confidence=confidence)}; ask for less, or calibrate on more"
        )
    lost = misses.shares.mean(axis=0)
    safe = 0
    while safe < len(lost) and p_value(float(lost[safe]), count=count, risk=risk) <= doubt:
        safe += 1
    if safe == 0:
        raise ValueError(
            f"no threshold of this gate can be promised to keep {recall:.0%} with "
            f"{confidence:.0%} confidence: the lowest keeps {1 - lost[0]:.1%} of {count} "
            f"development recordings; ask for less"
        )
    return Promise(
        threshold=float(misses.thresholds[safe - 1]),
        recall=recall,
        confidence=confidence,
        recordings=count,
        observed=float(1 - lost[safe - 1]),
    )


def fewest(*, recall: float, confidence: float) -> int:
    """For a gate that misses nothing the p-value is `recall ** count`."""
    return math.ceil(math.log(1 - confidence) / math.log(recall) - 1e-9)


def p_value(mean: float, *, count: int, risk: float) -> float:
    """Bound on the chance of a `mean` loss this low in `count` recordings if truly above `risk`.

    The smaller of Hoeffding's bound in its relative-entropy form and Bentkus's, both valid for
    independent losses between 0 and 1 of any distribution.
    """
    if mean >= risk:
        return 1.0
    from scipy import special, stats  # slow to import, needed for promises only

    entropy = special.rel_entr(mean, risk) + special.rel_entr(1 - mean, 1 - risk)
    hoeffding = math.exp(-count * float(entropy))
    bentkus = math.e * float(stats.binom.cdf(math.ceil(count * mean - 1e-9), count, risk))
    return min(1.0, hoeffding, bentkus)
