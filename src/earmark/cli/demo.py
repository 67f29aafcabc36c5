"""`earmark demo`: the whole job on a recording made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from earmark.cli.caption import show as show_outcome
from earmark.cli.console import Format, err, out
from earmark.cli.options import BudgetText
from earmark.cli.progress_display import show_progress
from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.coverage_counts import count_covered
from earmark.pipeline.caption import caption as caption_windows
from earmark.pipeline.select import select

if TYPE_CHECKING:
    from earmark.media.demo_scene import Scene


def demo(
    folder: Annotated[Path, typer.Option(help="Where to put the recording and the run.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(help="Another number, another scene.")] = 0,
    minutes: Annotated[float, typer.Option(help="Length of the scene.", min=0.5)] = 3.0,
    budget: BudgetText = "25%",
) -> None:
    """Film a small scene, run the whole job on it, and hold the picks against even spacing.

    The scene has known actions: hammering, rubbing, rinsing and silent carrying, with quiet
    stretches and sounds that mean nothing. No model is needed.

    For example:

      earmark demo --seed 7 --minutes 5
    """
    from earmark.media.demo_scene import make_scene  # draws on SciPy's filters, slow to import

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"scene-{seed}-{minutes:g}min.mp4"
    with err.status("filming a scene"):
        scene = make_scene(path, seed=seed, duration=minutes * 60, grain=16)
    with show_progress() as progress:
        done = caption_windows([path], run=folder / path.stem, budget=budget, progress=progress)
    compare(scene, budget)
    show_outcome(done, Format.table)


def compare(scene: Scene, budget: str) -> None:
    """How many of the known actions each rule's picks touch."""
    actions = [Action(action.start, action.end, action.label) for action in scene.actions]
    out.print(f"{scene.path}: {len(actions)} known actions in {scene.duration:.0f} s")
    for rule in ("coverage", "uniform", "strata"):
        (chosen,) = select([scene.path], budget=budget, rule=rule).recordings
        counts = count_covered(actions, chosen.picks, windows=chosen.windows, length=chosen.window)
        foretold = "" if rule != "coverage" else f" (forecast {100 * (chosen.forecast or 0):.0f} %)"
        out.print(
            f"  {rule:9} {counts.calls} calls of {counts.windows} touch {counts.covered} actions, "
            f"{100 * counts.coverage:.0f} %{foretold}"
        )
