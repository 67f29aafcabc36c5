"""The `earmark` command with all its sub-commands, each imported only when it is used."""

from __future__ import annotations

import ast
from ast import FunctionDef
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from earmark.reporting.console import show_log, warn
from earmark.version import VERSION

VERBOSE = "--verbose"
SETTINGS = {"help_option_names": ["-h", "--help"]}


PANELS = {
    "Choose": ("select", "plan", "probe", "episodes", "sounds", "frontlines", "schema"),
    "Caption": ("caption", "audit", "find", "doctor", "demo"),
    "Look at runs": (
        "summary", "serve", "mcp", "report", "search", "ask", "export", "import", "merge",
        "bundle", "highlights", "runs", "forget",
    ),
    "Compare and train": (
        "evaluate", "occupancy", "cost", "train", "adapt", "reproduce", "models", "encoder",
    ),
}  # fmt: skip
"""Names of all commands, by their heading in `--help`."""

ELSEWHERE = {
    "schema": "select:schema",
    "frontlines": "models:frontlines",
    "mcp": "serve:mcp",
    "ask": "search:ask",
    "adapt": "train:adapt",
    "cost": "occupancy:cost",
    "import": "runs:import_results",
    **{
        one: f"runs:{one}"
        for one in ["summary", "report", "export", "merge", "bundle", "highlights"]
    },
    **{one: f"app:{one}_group" for one in ("evaluate", "models", "encoder")},
}
"""Module and function, below `earmark.cli`, of commands whose module has another name than they;
those in the module `app` are groups of commands."""

COMMANDS = {
    name: ELSEWHERE.get(name, f"{name}:{name}") for names in PANELS.values() for name in names
}
PANEL_OF = {COMMANDS[name]: panel for panel, names in PANELS.items() for name in names}
"""The heading of each command, by its module and function."""

RENAMED = {"take": "import"}
"""Former names of commands, and the present ones."""


class LazyGroup(TyperGroup):
    """A group that imports a command only when it is used, so that starting is fast."""

    entries: ClassVar[dict[str, str]] = {}
    default: ClassVar[str] = ""
    """The command that is meant if the arguments name none."""
    no_args_default: ClassVar[bool] = False
    """Whether the default command runs if there are no arguments; else the help is printed."""
    is_listed = False
    """Whether the help is being printed, which needs only the names and help texts."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """The names of the commands, in the order of the help."""
        return list(self.entries)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help without importing the commands: some import PyTorch."""
        self.is_listed = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.is_listed = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The command called `cmd_name`; None if there is none."""
        if self.is_listed:
            return describe(cmd_name, self.entries[cmd_name])
        if cmd_name in RENAMED:
            warn(f"`earmark {cmd_name}` is called `earmark {RENAMED[cmd_name]}` now")
        name = RENAMED.get(cmd_name, cmd_name)
        return load(name, self.entries[name]) if name in self.entries else None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse `args`, with the default command in front if they name no command."""
        known = (*self.entries, *SETTINGS["help_option_names"])
        if self.default and not (args and args[0] in known) and (args or self.no_args_default):
            args = [self.default, *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


def commands_in(command: Any) -> dict[str, Any]:
    """The commands of a group by name; empty if `command` is not a group."""
    if not isinstance(command, LazyGroup):
        return {}
    return {name: load(name, home) for name, home in command.entries.items()}


def load(name: str, home: str) -> Any:
    """The command or group called `name`; `home` is `module:function`, below `earmark.cli`."""
    module, _, function = home.partition(":")
    found = getattr(import_module(f"earmark.cli.{module}"), function)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False, context_settings=SETTINGS)
        single.command(name)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = name
    command.rich_help_panel = PANEL_OF.get(home)  # type: ignore[attr-defined]
    return command


def describe(name: str, home: str) -> Any:
    """The command as in `load`, but with its name and help text only, read from the source."""
    module, _, function = home.partition(":")
    if module == "app":
        return load(name, home)
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    functions = {one.name: one for one in ast.parse(source).body if isinstance(one, FunctionDef)}
    words = ast.get_docstring(functions[function])
    return TyperCommand(name, help=words, rich_help_panel=PANEL_OF.get(home))


def _group(name: str, words: str, entries: dict[str, str], **choices: Any) -> typer.Typer:
    kind = type(f"{name.title()}Group", (LazyGroup,), {"entries": entries, **choices})
    settings: dict[str, Any] = {"no_args_is_help": True, "context_settings": SETTINGS}
    group = typer.Typer(name=name, cls=kind, help=words, add_completion=False, **settings)
    group.callback()(lambda: None)
    return group


evaluate_group = _group(
    "evaluate",
    "Measure rules, frontlines and captions against annotations.",
    {"spans": "evaluate:evaluate", "captions": "evaluate_captions:captions"},
    default="spans",
)
models_group = _group(
    "models",
    "List, fetch and add checkpoints of models.",
    {name: f"models:{name}" for name in ("list", "get", "add")},
    default="list",
    no_args_default=True,
)
encoder_group = _group(
    "encoder", "Export published audio encoders.", {"export": "models:export_encoder"}
)


class EarmarkGroup(LazyGroup):
    """All commands; the options of all commands take effect as soon as they are parsed."""

    entries = COMMANDS

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"callback": None})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Handle `--verbose` anywhere in `args`, and `--version` at their start."""
        if args[:1] == ["--version"]:
            typer.echo(f"earmark {VERSION}")
            raise typer.Exit
        if VERBOSE in args:
            show_log()
        rest: list[str] = super().parse_args(ctx, [word for word in args if word != VERBOSE])
        return rest


app = typer.Typer(
    name="earmark",
    cls=EarmarkGroup,
    help="Listen to long video, and caption only the windows worth a call of a vision model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


@app.callback()
def _declare(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[
        bool, typer.Option(VERBOSE, help="Log to stderr, with tracebacks of bugs.")
    ] = False,
) -> None:
    """Declare the options of all commands for the help; never called."""
