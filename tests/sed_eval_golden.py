"""Draws the events of `evaluate/sed_eval.json` and has sed_eval count what matches.

sed_eval wants librosa, numba and a setuptools older than 81, so it is no dependency: its counts
were kept once. To draw them anew, in an environment of its own:

    pip install 'sed_eval==0.2.1' 'setuptools<81'
    python tests/sed_eval_golden.py > tests/evaluate/sed_eval.json

Half of the cases lie on a grid of a quarter second, so that many onsets are exactly one collar
apart; the other half do not.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

CASES = 20
COLLAR = 0.5
LABELS = ("a", "b", "c")

Event = tuple[float, str]


def draw(rng: np.random.Generator, *, on_grid: bool) -> list[Event]:
    """Up to thirty events in twelve seconds: onset and label."""
    onsets = rng.uniform(0, 12, int(rng.integers(1, 31)))
    onsets = np.round(onsets * 4) / 4 if on_grid else np.round(onsets, 2)
    return [(float(onset), str(rng.choice(LABELS))) for onset in onsets]


def count(reference: list[Event], found: list[Event]) -> dict[str, list[int]]:
    """Matched, annotated and found events by label as sed_eval counts them, onsets alone."""
    import sed_eval

    def rows(events: list[Event]) -> list[dict[str, Any]]:
        return [
            {"event_label": label, "onset": onset, "offset": onset + 1, "file": "f"}
            for onset, label in events
        ]

    metrics = sed_eval.sound_event.EventBasedMetrics(
        event_label_list=list(LABELS),
        t_collar=COLLAR,
        evaluate_onset=True,
        evaluate_offset=False,
        event_matching_type="optimal",
    )
    metrics.evaluate(rows(reference), rows(found))
    counts = {
        label: [int(one["Ntp"]), int(one["Nref"]), int(one["Nsys"])]
        for label, one in metrics.class_wise.items()
    }
    overall = metrics.overall
    total = [int(overall["Ntp"]), int(overall["Nref"]), int(overall["Nsys"])]
    return {**counts, "overall": total}


def main() -> None:
    cases = []
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        reference, found = (draw(rng, on_grid=seed % 2 == 0) for _ in range(2))
        cases.append({"reference": reference, "found": found, "counts": count(reference, found)})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    sys.stdout.write(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
