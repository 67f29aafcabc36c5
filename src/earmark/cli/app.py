"""The `earmark` command: every sub-command by name."""

from __future__ import annotations

from typing import Annotated

import typer

from earmark.cli.plan import plan
from earmark.cli.probe import probe
from earmark.cli.select import schema, select
from earmark.version import VERSION

app = typer.Typer(
    name="earmark",
    help="Listens to a whole recording so that a vision model need look at only a little of it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (select, plan, probe, schema):
    app.command()(command)


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
