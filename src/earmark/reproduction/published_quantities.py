"""What the paper prints of each table under the names that the rows have, made here or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from earmark.evaluation.paper.occupancy_survey import SWEEP_BUDGETS
from earmark.evaluation.paper.published_numbers import (
    AT_A_QUARTER,
    PRIMARY,
    RECORDINGS,
    REDUCTIONS,
    REPLICATION,
    THRESHOLDS,
    TRANSFER,
    WINDOW_GAINS,
    PaperPair,
)
from earmark.evaluation.tables.table import percent

RULE = "separated"
"""The paper's rule."""

THRESHOLD_RULE = 19.8
"""Stream the paper's hand-tuned threshold rule discards, in per cent."""

CROSSING = {0.95: 11.6, 0.90: 0.0, 0.87: -3.8}
"""Points of the stream that optical flow discards more than the gate, by recall target."""

UNDERCOUNT = {
    "recall, %": 94.3,
    "episodes": 2809,
    "mean episode, s": 1.7,
    "calls": 2109,
    "calls a duration account charges": 1201,
    "undercount, times": 1.76,
}
"""What the deployed gate emits on the primary set, and what a duration account would charge."""

SCARCE = 0.02
"""Share of the cost of a full scan at which compression by itself has nothing left."""

COMPOSED = f"actions named at {100 * SCARCE:g} % of the cost, calls and tokens together, %"
KEPT = "all against gate-retained, largest difference, points"

Quantities = tuple[tuple[str, float | str], ...]
"""Names of rows, and what the paper prints."""


def primary_of(names: Iterable[str]) -> list[str]:
    """Those of the paper's primary set, on which it judges all but the selection; else all."""
    every = list(names)
    return [name for name in RECORDINGS["paper-primary"] if name in every] or every


PAIR = "{}: " + RULE + " minus {}, points"
"""The row of the paper's rule less another, by budget."""
PARTICIPANTS = "25 %: gain over uniform, {} participants, points"
"""The row of those who were, or were not, trained on."""
RECORDING = "{}: " + RULE + " at 25 %, %"
WINDOW = "{:g} s, {}: rank minus uniform, points"
"""The row of ranking by the seconds of a window, and the budget."""
REDUCTION = "{}: reduction of time at a dev recall of 93 %, %"
"""The row of what a system discards at the deployed operating point."""
EMITTED = "gate at 93 %: {}"
"""The row of what the gate emits there."""
FLOW = "flow minus gate, reduction at {:g} %, points"
OPENING = "gate: opens at, for {:g} %"
"""The row of the threshold for a development recall."""
ENCODER = "{}: {}, %"
"""The row of the head over one encoder."""


def paired(printed: Mapping[float, Mapping[str, PaperPair]]) -> Quantities:
    """A paired table."""
    return tuple(
        (PAIR.format(percent(budget), rule), pair.gain)
        for budget, against in printed.items()
        for rule, pair in against.items()
    )


SEEN: Quantities = tuple(
    (PARTICIPANTS.format(word), points) for word, points in (("unseen", 6.0), ("seen", 5.6))
)

PER_RECORDING: Quantities = (
    *((RECORDING.format(row.recording), row.ours) for row in PRIMARY + REPLICATION),
    ("mean of 24", 54.6),
)

WINDOW_ROWS: Quantities = tuple(
    (WINDOW.format(window, percent(budget)), gain)
    for window, gains in WINDOW_GAINS.items()
    for budget, gain in zip(SWEEP_BUDGETS, gains, strict=True)
)

FRONTLINES: Quantities = (
    *((f"{name} at 25 %, pooled, %", share) for name, share in AT_A_QUARTER.items()),
    ("pretrained detectors at 25 %, pooled, %", "29 to 30"),
)

OPERATING_POINTS: Quantities = (
    *((REDUCTION.format(name), share) for name, share in REDUCTIONS.items()),
    (REDUCTION.format("the threshold rule"), THRESHOLD_RULE),
    *((EMITTED.format(what), value) for what, value in UNDERCOUNT.items()),
    *((FLOW.format(100 * target), points) for target, points in CROSSING.items()),
    *((OPENING.format(100 * target), threshold) for target, threshold in THRESHOLDS.items()),
)

TRANSFERRED: Quantities = tuple(
    (ENCODER.format(encoder, what), printed[2 * place])
    for encoder, printed in TRANSFER.items()
    for place, what in enumerate(("recall", "reduction"))
)

CAPTIONED: Quantities = (
    ("full frame: nouns named, %", 37.3),
    ("hand crop: nouns named, %", 33.7),
    ("deployed frame: nouns named, %", 35.0),
    (KEPT, 0.4),
    (COMPOSED, 11.5),
)
