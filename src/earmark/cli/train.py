"""`earmark train` and `adapt`: fit a gate to annotated spans, or to the answers of a site."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from earmark.cli.evaluate import names, numbers
from earmark.cli.options import AsJson, argument, option, required, takes
from earmark.evaluation.metrics.boundaries import TOLERANCES
from earmark.gate.forecast_error import as_share
from earmark.gate.frontline_registry import SUFFIX, with_checkpoints
from earmark.gate.gate import Gate
from earmark.reporting.console import emit_json, err, out, watched_steps
from earmark.reporting.text_format import counted
from earmark.training.site_adaptation import Adaptation
from earmark.training.site_adaptation import adapt as adapt_gate

if TYPE_CHECKING:
    from earmark.training.gate_training import TrainingPlan
    from earmark.training.recipe import Step, Trained
    from earmark.training.segmentation import Segmenter, SegmentScores


def by_recipe(kind: Any, help: str) -> tuple[Any, Any]:
    """An option whose default the recipe decides."""
    return option(kind | None, help, show_default="by recipe")


SETTINGS = {
    "seeds": option(int, "Number of trainings; single ones are unstable.", default=1),
    "first_seed": option(int, "Seed of the first training.", default=0),
    "folds": option(
        int, "Parts to split the participants into; one is for calibration.", default=3
    ),
    "steps": by_recipe(int, "Steps per head."),
    "batch": by_recipe(int, "Crops per step."),
    "crop": by_recipe(float, "Length of a crop in seconds."),
    "learning_rate": by_recipe(float, "Learning rate of AdamW."),
    "weight_decay": by_recipe(float, "Weight decay of AdamW."),
    "cooling": by_recipe(float, "Share of the steps with a falling learning rate."),
    "dropout": by_recipe(float, "Share of channels dropped."),
    "width": by_recipe(int, "Width of one head."),
    "bands": by_recipe(int, "Bands that a head reads; 0 for all."),
    "context_channels": by_recipe(int, "Channels that the context reads; 0 for no context."),
    "loudness": by_recipe(float, "Weight of the level in the score."),
    "made": by_recipe(int, "Synthetic recordings to train the context on."),
    "check_every": by_recipe(int, "Steps between two checkpoints."),
    "takes": option(int, "Times each recording is used, each time altered.", default=1),
}
"""Options that are fields of `earmark.training.settings.Settings`."""


TRAINING = {
    "spans": argument(Path, "Annotated actions: CSV, EPIC-KITCHENS, Audacity, ELAN, or a folder."),
    "media": required(Path, "Folder of the recordings, matched by file name."),
    "out": option(Path, "Folder to write.", default=Path("gate")),
    "recipe": option(
        str, "`earmark`, or `paper` for its head, loss and settings.", default="earmark"
    ),
    "objective": option(
        str | None,
        "where, rate, span or frame; or classes, for a segmentation head.",
        show_default="where; paper: span",
    ),
    "encoder": option(
        str | None,
        "Encoder that the gate reads; options after colons.",
        callback=lambda name: name and with_checkpoints(name),
        show_default="floor-mel; paper: beats",
    ),
    "recordings": option(str | None, "Only these recordings: names or a file.", show_default="all"),
    "dev": option(
        str | None,
        "Recordings to calibrate on: names or a file.",
        show_default="the people of one fold",
    ),
    "taus": option(
        str | None,
        "Sharpness of `span`. Of several, with commas, the best on --dev.",
        "--tau",
        show_default="4",
    ),
    **SETTINGS,
    "threads": option(int, "Threads to use.", default=2),
    "data": option(str, "Description of the data, for the gate's card.", default=""),
    "licence": option(str, "Terms of the data, for the gate's card.", default=""),
    "allow_missing": option(
        bool, "Skip recordings without media or annotations.", "--allow-missing", default=False
    ),
}


def training_plan(said: dict[str, Any]) -> TrainingPlan:
    """The plan from the values `said` of the options."""
    from earmark.training.gate_training import TrainingPlan  # loads PyTorch

    read = {
        "recordings": names(said["recordings"]),
        "dev": names(said["dev"]),
        "taus": numbers(said["taus"] or "", what="number: write --tau 4, or --tau 2,4,8"),
        "licence": said["licence"] or None,
        "commit": _commit(),
    }
    return TrainingPlan.of(**said | read)


@takes("said", TRAINING, dict)
def train(said: dict[str, Any]) -> None:
    """Train, calibrate and export a gate for your own recordings.

    Recordings are split by participant (`P01` in `P01_11`), never by time:
    heads are trained on some participants, and the gate is calibrated on the
    others (--dev names them). The folder gets `gate.gate`, one gate per seed,
    `run.json` and `curves.png`. A stopped training continues. The recipe
    `paper` is one head of width 192 with the span-level loss, 3,000 steps of
    AdamW over BEATs, and no context.

    The objective `classes` makes no gate. It trains the paper's segmentation
    head, which predicts the labels of SPANS; load `segments.pt` with
    `earmark.training.segmentation.Segmenter`.

    For example:

      earmark train marks.csv --media recordings/ --out mygate

      earmark select shift.mp4 --frontline mygate/gate.gate

      earmark train EPIC_100_train.csv --media audio/ --recipe paper --tau 2,4,8 --dev dev.txt

      earmark train EPIC_Sounds_train.csv --media audio/ --recipe paper --objective classes
    """
    from earmark.training.gate_training import train as train_gate
    from earmark.training.gate_training import train_classes
    from earmark.training.settings import CLASSES

    plan = training_plan(said)
    with watched_steps("listening") as watch:
        if plan.settings.objective == CLASSES:
            segmented = train_classes(plan, watch=watch)
            show_segmenter(*segmented, plan.out)
            return
        trained = train_gate(plan, watch=watch, on_check=show_check)
    show(trained, plan.out)


def show_check(step: Step) -> None:
    """Print the loss and the dev coverage of a head so far, on stderr."""
    coverage = as_share(step.check.dev)
    line = f"seed {step.seed}: loss {step.check.loss:.4f}, dev coverage {coverage}"
    err.print(f"{line} at step {step.check.step}")


def show(trained: Trained, folder: Path) -> None:
    """Print the dev coverage by budget, mean and spread over seeds, and the path of the gate."""
    for budget in trained.coverage["all"]:
        mean, spread = trained.spread(budget)
        together = f"{trained.coverage['all'][budget]:.1%}"
        many = f"{mean:.1%} ± {spread:.1%} a seed, {together} together"
        reached = many if len(trained.coverage) > 2 else together
        out.print(f"{budget:6.1%} of calls: dev coverage {reached}")
    gate = trained.gate
    heads = counted(gate.card.heads, "head")
    out.print(f"{folder / 'gate.gate'}: {heads}, {gate.scorer.digest[:12]}")


def show_segmenter(segmenter: Segmenter, scores: SegmentScores, folder: Path) -> None:
    """Print the number of classes, the scores on the dev recordings, and the path of the head."""
    labels = counted(len(segmenter.classes), "label")
    out.print(f"{labels} to tell apart, {counted(scores.events.reference, 'dev event')}")
    out.print(f"dev event F1, onsets within 0.5 s: {as_share(scores.events.f1)}")
    for tolerance in TOLERANCES:
        ours, even = (
            as_share(scores.boundaries[name, tolerance].f1)
            for name in ("segments", "even segments")
        )
        out.print(f"dev boundary F1 at {tolerance:g} s: {ours}, of as many even segments {even}")
    out.print(f"{folder / 'segments.pt'}: over {segmenter.encoder}")


def _commit() -> str:
    """The git commit of the current folder; empty outside a repository or without git."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - whichever git the user has
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def adapt(
    runs: Annotated[list[Path], typer.Argument(help="Folders of the runs.")],
    out_file: Annotated[Path, typer.Option("--out", help="Gate file to write.")] = Path(
        "site.gate"
    ),
    gate: Annotated[
        Path | None,
        typer.Option("--gate", help="Gate that the runs were made with.", show_default="built in"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit the gate to a site, from the answers and corrections of earlier runs.

    No annotation is needed: every window that was asked about counts once, and
    every correction made in `earmark serve` counts four times. With few answers
    only the scale of the gate's rates is fitted. With 20 active and 20 idle
    windows in three recordings, these are listened to again, and all weights of
    the rates and a new head are fitted too (the head needs `pip install
    'earmark[train]'`). It is fitted twice: the seconds of a window are pooled by
    their mean, and by the paper's log-sum-exp. All are tested on recordings kept
    aside, or on parts of a single one. The best is written, only if it beats the
    old gate there, and the command says which it is.

    For example:

      earmark adapt runs/monday runs/tuesday --out site.gate

      earmark select wednesday.mp4 --frontline site.gate
    """
    if out_file.suffix != SUFFIX:
        raise ValueError(f"a gate file ends in {SUFFIX}: write --out {out_file.stem}{SUFFIX}")
    base = Gate.load(gate) if gate else None
    with watched_steps("reading answers") as watch:
        made = adapt_gate(runs, gate=base, out=out_file, watch=watch)
    show_adaptation(made, out_file, as_json)


def show_adaptation(made: Adaptation, out_file: Path, as_json: bool) -> None:
    """Print what the gate was fitted to, its gain over the old one, and whether it was written."""
    gain = made.gain
    if as_json:
        emit_json(
            {
                "written": str(out_file) if made.gate else None,
                "answers": made.answers,
                "corrections": made.corrections,
                "recordings": made.recordings,
                "left_out": made.unlike,
                "active": made.active,
                "expected": made.expected,
                "learnt": made.learnt,
                "head_needs": made.headless or None,
                "log_likelihood": {"old": gain.old, "new": gain.new, "gain_at_least": gain.low},
                "action_length": {"old": made.median_before, "new": made.median},
            }
        )
        return
    left = f"; {counted(made.unlike, 'recording')} of another frontline left out"
    out.print(
        f"{made.teachers}{left if made.unlike else ''}: "
        f"{as_share(made.active)} of these windows are active, the gate expected "
        f"{as_share(made.expected)}"
    )
    if made.headless:
        out.print(f"no head was tried: that takes {made.headless}")
    judged = f"log-likelihood of an answer kept aside {gain.old:.3f} before, {gain.new:.3f} after"
    if made.gate is None:
        out.print(
            f"{made.learnt}: no better than the gate it comes from ({judged}): nothing written"
        )
        return
    if made.median != made.median_before:
        out.print(f"half of the actions outlast {made.median:.1f} s, not {made.median_before:.1f}")
    out.print(
        f"{made.learnt}; {judged}: better by {gain.mean:.3f}, "
        f"at odds of two to one by {gain.low:.3f} or more"
    )
    out.print(f"{out_file}: use it with --frontline {out_file}")
