"""Draws how a training went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from earmark.training.optimisation import Check


def draw_curves(curves: Mapping[str, Sequence[Check]], path: Path) -> None:
    """Training loss and dev coverage of every head against the step, as a PNG at `path`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for name, checks in curves.items():
        steps = [check.step for check in checks]
        left.plot(steps, [check.loss for check in checks], linewidth=1, label=name)
        right.plot(steps, [100 * check.dev for check in checks], linewidth=1, label=name)
    left.set(xlabel="step", ylabel="training loss")
    right.set(xlabel="step", ylabel="dev coverage at 25 % of calls, %")
    if len(curves) <= 8:
        left.legend(fontsize=7)
    figure.savefig(path, dpi=100)
