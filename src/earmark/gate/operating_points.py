"""Operating points: the thresholds at which the scores of a gate become episodes."""

from __future__ import annotations

from dataclasses import dataclass

from earmark.gate.episodes import Episodes
from earmark.gate.gate import Gate


@dataclass(frozen=True, slots=True)
class OperatingPoints:
    """How the scores become episodes, chosen on development recordings."""

    on: tuple[tuple[float, float], ...]
    """Development recall and the threshold that reaches it, the highest recall first."""
    off_share: float
    """The closing threshold as a share of the opening one."""
    median: int
    """Steps of the median filter."""

    @classmethod
    def of(cls, gate: Gate) -> OperatingPoints:
        """Those of `gate`."""
        return cls(**{**gate.points, "on": tuple(map(tuple, gate.points["on"]))})

    def threshold(self, recall: float) -> float:
        """The highest threshold whose development recall is at least `recall`."""
        for target, threshold in reversed(self.on):
            if target >= recall - 1e-9:
                return threshold
        known = ", ".join(f"{target:.0%}" for target, _ in self.on)
        raise ValueError(f"no operating point reaches {recall:.0%} recall; there are {known}")

    def at_recall(self, recall: float) -> Episodes:
        """The rule for episodes that reached `recall` of the development actions."""
        return self.episodes(self.threshold(recall))

    def episodes(self, threshold: float) -> Episodes:
        """The rule that opens at `threshold`."""
        return Episodes(on=threshold, off=threshold * self.off_share, median=self.median)
