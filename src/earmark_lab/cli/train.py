"""`earmark lab train` and `adapt`: fit a gate to annotated spans, or to the answers of a site."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from earmark.gate.forecast_error import as_share
from earmark.gate.frontline import SUFFIX, with_checkpoints
from earmark.gate.gate import Gate
from earmark.models import require
from earmark.report.console import Format, emit_json, err, out, watched_steps
from earmark.text_format import counted
from earmark_lab.cli.evaluate import Set, names, numbers, parse_settings
from earmark_lab.metrics.counts import CONTIGUOUS, GAPPED, TOLERANCES
from earmark_lab.training.site_adaptation import Adaptation
from earmark_lab.training.site_adaptation import adapt as adapt_gate

if TYPE_CHECKING:
    from earmark_lab.training.gate_training import Step, Trained
    from earmark_lab.training.segmentation import Segmenter, SegmentScores


def train(
    spans: Annotated[
        Path,
        typer.Argument(help="Annotated actions: CSV, EPIC-KITCHENS, Audacity, ELAN, or a folder."),
    ],
    media: Annotated[Path, typer.Option(help="Folder of the recordings, matched by file name.")],
    folder: Annotated[Path, typer.Option("--out", help="Folder to write.")] = Path("gate"),
    recipe: Annotated[
        str, typer.Option(help="`earmark`, or `paper` for its head, loss and settings.")
    ] = "earmark",
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder that the gate reads; options after colons.",
            callback=lambda name: name and with_checkpoints(name),
            show_default="floor-mel; paper: beats",
        ),
    ] = None,
    recordings: Annotated[
        str | None, typer.Option(help="Only these recordings: names or a file.")
    ] = None,
    dev: Annotated[
        str | None,
        typer.Option(
            help="Recordings to calibrate on: names or a file.",
            show_default="the people of one fold",
        ),
    ] = None,
    settings: Set = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Skip recordings without media or annotations.")
    ] = False,
) -> None:
    """Train, calibrate and export a gate for your own recordings.

    Recordings are split by participant (`P01` in `P01_11`), never by time:
    heads are trained on some participants, and the gate is calibrated on the
    others (--dev names them). The folder gets `gate.gate`, one gate per seed,
    `run.json` and `curves.png`. A stopped training continues. The recipe
    `paper` is one head of width 192 with the span-level loss, 3,000 steps of
    AdamW over BEATs, and no context.

    With --set: the fields of `earmark_lab.training.settings.Settings` (seeds,
    steps, width, objective, …), threads, data and licence for the gate's card,
    and tau; of several, such as tau=2,4,8, the best on --dev is kept.

    The objective `classes` makes no gate. It trains the paper's segmentation
    head, which predicts the labels of SPANS; load `segments.pt` with
    `earmark_lab.training.segmentation.Segmenter`.

    For example:

      earmark lab train marks.csv --media recordings/ --out mygate --set seeds=5

      earmark select shift.mp4 --frontline mygate/gate.gate

      earmark lab train EPIC_100_train.csv --media audio/ --recipe paper --set tau=2,4,8

      earmark lab train EPIC_Sounds_train.csv --media audio/ --set objective=classes
    """
    require("torch", what="training")
    from earmark_lab.training.gate_training import TrainingPlan, train_classes
    from earmark_lab.training.gate_training import train as train_gate
    from earmark_lab.training.settings import CLASSES, Settings

    allowed = [field.name for field in fields(Settings)]
    chosen = parse_settings(settings, [*allowed, "threads", "data", "licence"])
    taus = numbers(str(chosen.pop("tau", "")), what="number: write tau=4, or tau=2,4,8")
    plan = TrainingPlan.of(
        spans, media=media, out=folder, recipe=recipe, encoder=encoder, dev=names(dev),
        recordings=names(recordings), allow_missing=allow_missing, taus=taus, commit=_commit(),
        **chosen,
    )  # fmt: skip
    with watched_steps("listening") as watch:
        if plan.settings.objective == CLASSES:
            show_segmenter(*train_classes(plan, watch=watch), plan.out)
            return
        trained = train_gate(plan, watch=watch, on_check=show_check)
    show(trained, plan.out)


def show_check(step: Step) -> None:
    coverage = as_share(step.check.dev)
    line = f"seed {step.seed}: loss {step.check.loss:.4f}, dev coverage {coverage}"
    err.print(f"{line} at step {step.check.step}")


def show(trained: Trained, folder: Path) -> None:
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
    labels = counted(len(segmenter.classes), "label")
    out.print(f"{labels} to tell apart, {counted(scores.events.reference, 'dev event')}")
    out.print(f"dev event F1, onsets within 0.5 s: {as_share(scores.events.f1)}")
    for tolerance in TOLERANCES:
        ours, gapped, side = (
            as_share(scores.boundaries[name, tolerance].f1)
            for name in ("segments", GAPPED, CONTIGUOUS)
        )
        uniform = f"of as many {GAPPED} {gapped}, {CONTIGUOUS} {side}"
        out.print(f"dev boundary F1 at {tolerance:g} s: {ours}, {uniform}")
    out.print(f"{folder / 'segments.pt'}: over {segmenter.encoder}")


def _commit() -> str:
    """Empty outside a repository or without git."""
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
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
) -> None:
    """Fit the gate to a site, from the answers and corrections of earlier runs.

    No annotation is needed: every window that was asked about counts once, and
    every correction made in `earmark serve` counts four times. With few answers
    only the scale of the gate's rates is fitted. With 20 active and 20 idle
    windows in three recordings, these are listened to again, and all weights of
    the rates and a new head are fitted too (the head needs `pip install
    'earmark-lab[torch]'`). It is fitted twice: the seconds of a window are pooled by
    their mean, and by the paper's log-sum-exp. All are tested on recordings kept
    aside, or on parts of a single one. The best is written, only if it beats the
    old gate there, and the command says which it is.

    For example:

      earmark lab adapt runs/monday runs/tuesday --out site.gate

      earmark select wednesday.mp4 --frontline site.gate
    """
    if out_file.suffix != SUFFIX:
        raise ValueError(f"a gate file ends in {SUFFIX}: write --out {out_file.stem}{SUFFIX}")
    base = Gate.load(gate) if gate else None
    with watched_steps("reading answers") as watch:
        result = adapt_gate(runs, gate=base, out=out_file, watch=watch)
    show_adaptation(result, out_file, format)


def show_adaptation(result: Adaptation, out_file: Path, format: Format) -> None:
    gain = result.gain
    if format is Format.json:
        emit_json(
            {
                "written": str(out_file) if result.gate else None,
                "answers": result.answers,
                "corrections": result.corrections,
                "recordings": result.recordings,
                "left_out": result.unlike,
                "active": result.active,
                "expected": result.expected,
                "learnt": result.learnt,
                "head_needs": result.headless or None,
                "log_likelihood": {"old": gain.old, "new": gain.new, "gain_at_least": gain.low},
                "action_length": {"old": result.median_before, "new": result.median},
            }
        )
        return
    omitted = f"; {counted(result.unlike, 'recording')} of another frontline left out"
    out.print(
        f"{result.teachers}{omitted if result.unlike else ''}: "
        f"{as_share(result.active)} of these windows are active, the gate expected "
        f"{as_share(result.expected)}"
    )
    if result.headless:
        out.print(f"no head was tried: that takes {result.headless}")
    judged = f"log-likelihood of an answer kept aside {gain.old:.3f} before, {gain.new:.3f} after"
    if result.gate is None:
        out.print(
            f"{result.learnt}: no better than the gate it comes from ({judged}): nothing written"
        )
        return
    if result.median != result.median_before:
        out.print(
            f"half of the actions outlast {result.median:.1f} s, not {result.median_before:.1f}"
        )
    out.print(
        f"{result.learnt}; {judged}: better by {gain.mean:.3f}, "
        f"at odds of two to one by {gain.low:.3f} or more"
    )
    out.print(f"{out_file}: use it with --frontline {out_file}")
