"""The `earmark` command: every sub-command by name, loaded when it is used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup

from earmark.cli.console import warn
from earmark.version import VERSION

SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command lives, and under which heading it is listed."""

    home: str
    """`module:function` below `earmark.cli`."""
    panel: str = ""


COMMANDS = {
    "select": Entry("select:select", "Choose"),
    "plan": Entry("plan:plan", "Choose"),
    "probe": Entry("probe:probe", "Choose"),
    "episodes": Entry("episodes:episodes", "Choose"),
    "frontlines": Entry("frontlines:frontlines", "Choose"),
    "schema": Entry("select:schema", "Choose"),
    "caption": Entry("caption:caption", "Caption"),
    "doctor": Entry("doctor:doctor", "Caption"),
    "demo": Entry("demo:demo", "Caption"),
    "report": Entry("runs:report", "Look at runs"),
    "search": Entry("runs:search", "Look at runs"),
    "export": Entry("runs:export", "Look at runs"),
    "import": Entry("runs:import_results", "Look at runs"),
    "merge": Entry("merge:merge", "Look at runs"),
    "runs": Entry("runs:runs", "Look at runs"),
    "evaluate": Entry("app:evaluate_group", "Compare and train"),
    "occupancy": Entry("occupancy:occupancy", "Compare and train"),
    "cost": Entry("cost:cost", "Compare and train"),
    "train": Entry("train:train", "Compare and train"),
    "models": Entry("app:models_group", "Compare and train"),
    "encoder": Entry("app:encoder_group", "Compare and train"),
}
"""Every command; a home in this module is a group of commands."""


RENAMED = {"take": "import"}
"""What a command was called before."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are asked for, so that starting is quick."""

    entries: ClassVar[dict[str, Entry]] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The names, in the order they are listed."""
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The command called `cmd_name`; None if there is none."""
        if cmd_name in RENAMED:
            warn(f"`earmark {cmd_name}` is called `earmark {RENAMED[cmd_name]}` now")
        entry = self.entries.get(RENAMED.get(cmd_name, cmd_name))
        return None if entry is None else load(cmd_name, entry)


class Earmark(LazyGroup):
    """The commands of `earmark`."""

    entries: ClassVar = COMMANDS


class Evaluate(LazyGroup):
    """`earmark evaluate SPANS` is `earmark evaluate spans SPANS`."""

    entries: ClassVar = {
        "spans": Entry("evaluate:evaluate"),
        "captions": Entry("evaluate_captions:captions"),
    }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `spans` in front of what names neither of the two."""
        if args and args[0] not in (*self.entries, *SETTINGS["help_option_names"]):
            args = ["spans", *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class Models(LazyGroup):
    """`earmark models` alone lists them."""

    entries: ClassVar = {
        "list": Entry("models:list"),
        "get": Entry("models:get"),
        "add": Entry("models:add"),
    }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `list` in front of nothing, or of options alone."""
        if not args or args[0] not in (*self.entries, *SETTINGS["help_option_names"]):
            args = ["list", *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class Encoder(LazyGroup):
    """What can be done with an encoder."""

    entries: ClassVar = {"export": Entry("encoder:export")}


def commands_in(command: Any) -> dict[str, Any]:
    """The commands of a group by name; none where `command` is not a group."""
    if not isinstance(command, LazyGroup):
        return {}
    return {name: load(name, entry) for name, entry in command.entries.items()}


def load(name: str, entry: Entry) -> Any:
    """The command or group at `entry`."""
    module, _, function = entry.home.partition(":")
    found = getattr(import_module(f"earmark.cli.{module}"), function)
    if isinstance(found, typer.Typer):
        command = typer.main.get_command(found)
    else:
        single = typer.Typer(add_completion=False, context_settings=SETTINGS)
        single.command(name)(found)
        command = typer.main.get_command(single)
    command.name = name
    command.rich_help_panel = entry.panel or None  # type: ignore[attr-defined]
    return command


def _group(name: str, kind: type[LazyGroup], words: str) -> typer.Typer:
    group = typer.Typer(
        name=name,
        cls=kind,
        help=words,
        no_args_is_help=True,
        add_completion=False,
        context_settings=SETTINGS,
    )
    group.callback()(_nothing)
    return group


def _nothing() -> None:
    pass


evaluate_group = _group("evaluate", Evaluate, "Compare frontlines and rules on annotated spans.")
models_group = _group("models", Models, "Which checkpoints there are, and how to get them.")
encoder_group = _group("encoder", Encoder, "Published audio encoders.")

app = typer.Typer(
    name="earmark",
    cls=Earmark,
    help="Listens to a whole recording so that a vision model need look at only a little of it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


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
