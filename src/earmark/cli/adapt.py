"""`earmark adapt`: a gate that has learnt a site from the answers of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.cli.options import AsJson
from earmark.gate.forecast_error import as_share
from earmark.gate.frontline_registry import SUFFIX
from earmark.gate.gate import Gate
from earmark.reporting.console import emit_json, out, progress_bar
from earmark.reporting.text_format import counted
from earmark.training.site_adaptation import Adaptation
from earmark.training.site_adaptation import adapt as adapt_gate


def adapt(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs with answers.")],
    out_file: Annotated[Path, typer.Option("--out", help="The gate file to write.")] = Path(
        "site.gate"
    ),
    gate: Annotated[
        Path | None,
        typer.Option(
            "--gate", help="The gate the runs were made with.", show_default="earmark's own"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from answers when something is done at a site, how often and for how long.

    No marks are needed: every window that was asked about and every correction made in `earmark
    serve` teaches; corrections count four times. Few answers teach how the rates of the gate are to
    be scaled; with 20 active and 20 idle windows in three recordings all weights of the rates are
    fitted anew, and a head (with `pip install 'earmark[train]'`), for which the recordings are
    listened to again. The new gate is judged on recordings that were kept aside, of a single one
    on stretches of it, and written only where it beats the old one there.

    For example:

      earmark adapt runs/monday runs/tuesday --out site.gate

      earmark select wednesday.mp4 --frontline site.gate
    """
    if out_file.suffix != SUFFIX:
        raise ValueError(f"a gate file ends in {SUFFIX}: write --out {out_file.stem}{SUFFIX}")
    base = Gate.load(gate) if gate else None
    with progress_bar("steps") as bar:
        task = bar.add_task("reading answers", total=None)

        def watch(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        made = adapt_gate(runs, gate=base, out=out_file, watch=watch)
    show_adaptation(made, out_file, as_json)


def show_adaptation(made: Adaptation, out_file: Path, as_json: bool) -> None:
    """What was learnt from, by how much it is better, and what became of it."""
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
                "log_likelihood": {"old": gain.old, "new": gain.new, "gain_at_least": gain.low},
                "action_length": {"old": made.median_before, "new": made.median},
            }
        )
        return
    left = f"; {counted(made.unlike, 'recording')} of another frontline left out"
    out.print(
        f"{counted(made.answers, 'answer')} and {counted(made.corrections, 'correction')} in "
        f"{counted(made.recordings, 'recording')}{left if made.unlike else ''}: "
        f"{as_share(made.active)} of these windows are active, the gate expected "
        f"{as_share(made.expected)}"
    )
    judged = f"log-likelihood of an answer kept aside {gain.old:.3f} before, {gain.new:.3f} after"
    if made.gate is None:
        out.print(
            f"{made.learnt}: no better than the gate it comes from ({judged}): nothing written"
        )
        return
    if made.median != made.median_before:
        out.print(f"half of the actions outlast {made.median:.1f} s, not {made.median_before:.1f}")
    out.print(
        f"{made.learnt}; {judged}: better by {gain.mean:.3f}, two to one by at least {gain.low:.3f}"
    )
    out.print(f"{out_file}: use it with --frontline {out_file}")
