"""Fits the rates of the frontline `energy` and prints what they are worth, by regime.

    python scripts/energy_table.py DATA RUNS [--out experiments/energy]

DATA holds `resound/`, `shift/` and `epic/`; in RUNS the levels are kept. Participants are divided
into three parts as for the gate (`make_default_gate.py`); every recording is judged by rates and a
survival fitted on the participants of the other two. The constants printed at the end are fitted
on all but the first part, and are those in `gate/rates.py`. Composites, not kitchen
audio.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import composites
from gate_table import DENSE, SPARSE, count_row, mean_row, price_rows, rule_rows
from make_default_gate import SHIPPED, held_out

from earmark.gate.rates import LevelRates
from earmark.grid import Grid
from earmark.media.atomic_file import replacing
from earmark_lab.experiments.benchmark import Case, run_case
from earmark_lab.training.calibration import cases
from earmark_lab.training.dataset import gather
from earmark_lab.training.rate_fit import fit_lengths, fit_levels


def main() -> None:
    """Fit, judge and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--out", type=Path, default=Path("experiments/energy"))
    options = parser.parse_args()
    material = gather(
        composites.annotations(options.data),
        composites.media(options.data),
        encoder="energy",
        cache=options.runs / "energy",
    )
    scores = {name: heard.features.reshape(-1) for name, heard in material.items()}
    usual = fit_lengths(material, sorted(material)).usual
    parts = held_out(sorted(material))
    judged: list[Case] = []
    for part in parts:
        others = sorted(set(material) - set(part))
        rates = fit_levels(material, others, usual, [Grid().length])
        judged += cases(scores, material, part, rates, fit_lengths(material, others))
    known = sorted(set(material) - set(parts[SHIPPED]))
    text = write_up(judged, fit_levels(material, known, usual))
    options.out.mkdir(parents=True, exist_ok=True)
    with replacing(options.out / "table.md") as scratch:
        scratch.write_text(text, encoding="utf-8")
    print(text)


def write_up(judged: Sequence[Case], shipped: LevelRates) -> str:
    """All tables."""
    lines = ["# `energy` on composites", "", "Written by `scripts/energy_table.py`.", ""]
    for regime, budgets in (("sparse", SPARSE), ("dense", DENSE)):
        those = [
            case
            for case in judged
            if case.recording.endswith(composites.SPARSE) == (regime == "sparse")
        ]
        lines += [f"## {regime}: {len(those)} recordings", ""]
        lines += [*coverage_rows(those, budgets), "", *price_rows(those), ""]
    lines += ["Shipped, fitted on all but the nine participants of the first part:", ""]
    lines += [f"    {fit}" for fit in shipped.fits]
    return "\n".join(lines) + "\n"


def coverage_rows(judged: Sequence[Case], budgets: Sequence[float]) -> Iterable[str]:
    """Mean coverage by rule, the forecast beside it, and how many actions were expected."""
    yield from rule_rows(judged, budgets)
    told = [row for case in judged for row in run_case(case, ["coverage"], budgets)]
    yield mean_row(
        "forecast of `coverage`",
        [[100 * row.forecast.forecast for row in told if row.budget == b] for b in budgets],
    )
    yield ""
    yield f"{count_row(judged)}."


if __name__ == "__main__":
    main()
