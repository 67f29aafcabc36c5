"""The `earmark` command: every sub-command by name."""

from __future__ import annotations

from typing import Annotated

import typer

from earmark.cli.caption import caption
from earmark.cli.demo import demo
from earmark.cli.doctor import doctor
from earmark.cli.merge import merge
from earmark.cli.plan import plan
from earmark.cli.probe import probe
from earmark.cli.runs import export, report, runs, search, take
from earmark.cli.select import schema, select
from earmark.version import VERSION

app = typer.Typer(
    name="earmark",
    help="Listens to a whole recording so that a vision model need look at only a little of it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = {
    "Choose": (select, plan, probe, schema),
    "Caption": (caption, doctor, demo),
    "Look at runs": (merge, report, search, export, take, runs),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"earmark {VERSION}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    pass
