"""`earmark lab demo`: makes a recording with known actions and runs the whole pipeline on it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from earmark.cli import options
from earmark.evidence.picture_evidence import available_kinds
from earmark.gate.forecast_error import as_range
from earmark.models.model_store import model_store
from earmark.pipeline.caption import caption as caption_windows
from earmark.pipeline.select import select
from earmark.report.console import err, out, print_lines
from earmark.report.progress import show_progress
from earmark.settings import Settings
from earmark.text_format import counted
from earmark.timeline import format_clock
from earmark_lab.metrics.counts import count_covered

if TYPE_CHECKING:
    from earmark.report.run_report import CaptionResult
    from earmark_lab.demo import Scene


@options.takes_settings("budget")
def demo(
    settings: Settings,
    folder: Annotated[Path, typer.Option(help="Folder for the recording and the run.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the scene.")] = 0,
    minutes: Annotated[float, typer.Option(help="Length of the scene in minutes.", min=0.5)] = 3.0,
) -> None:
    """Make a short recording, run the whole job on it, and compare the picks with even spacing.

    The actions of the scene are known: hammering, rubbing, rinsing and silent
    carrying, with quiet stretches and unrelated sounds between them. No vision
    model is needed. The models of `earmark models get evidence` that are
    installed name what is heard, read and seen.

    For example:

      earmark lab demo --seed 7 --minutes 5
    """
    from earmark_lab.demo import Script, write_scene  # SciPy's filters are slow to import

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"scene-{seed}-{minutes:g}min.mp4"
    with err.status("filming a scene"):
        script = Script.compose(seed=seed, duration=minutes * 60)
        scene = write_scene(path, script, size=(480, 360), fps=10, grain=16)
    with show_progress() as progress:
        done = caption_windows(
            path, run=folder / path.stem, settings=settings, cache=None, progress=progress
        )
    budget = settings.budget
    compare(scene, budget)
    kinds = available_kinds(model_store(settings.folders.models))  # the others are printed below
    out.print(f"  evidence without a vision model: {', '.join(kinds) or 'none'}")
    tell_hammering(scene, done)
    words = ["earmark", "caption", str(path), "--budget", budget, "--run", str(done.folder)]
    print_lines(done.lines(command=f"`{shlex.join(words)}`"))
    options.end_with(done.errors(), done.warnings())


def tell_hammering(scene: Scene, done: CaptionResult) -> None:
    with done.open() as run:
        ids = [row.id for row in run.recordings()]
        sounds = [sound for id in ids for sound in run.evidence(id, kinds={"heard"})]
    named = [sound.span.start for sound in sounds if sound.text == "Hammer"]
    if named:
        strikes = [a.start for a in scene.actions if a.label == "hammer" and a.is_heard]
        out.print(
            f"  hammering named at {', '.join(map(format_clock, named))}; audible in the scene "
            f"at {', '.join(map(format_clock, strikes))}"
        )


def compare(scene: Scene, budget: str) -> None:
    out.print(f"{scene.path}: {len(scene.actions)} known actions in {scene.duration:.0f} s")
    for rule in ("coverage", "uniform", "strata"):
        (chosen,) = select([scene.path], budget=budget, rule=rule).recordings
        counts = count_covered(
            scene.actions, chosen.picks, windows=chosen.windows, length=chosen.window
        )
        forecast = as_range(chosen.forecast, chosen.forecast_range)
        expected = f"; {forecast} were expected" if rule == "coverage" else ""
        out.print(
            f"  {rule:9} {counts.calls} calls of {counts.windows} touch "
            f"{counted(round(counts.covered), 'action')}, "
            f"{100 * counts.coverage:.0f} %{expected}"
        )
