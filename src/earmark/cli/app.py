"""The `earmark` command with all its sub-commands, each imported only when it is used."""

from __future__ import annotations

import ast
import io
import logging
import os
import signal
import sys
from ast import FunctionDef
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from earmark.errors import EarmarkError, MissingExtra, describe_bug, plugin_of
from earmark.report.console import err, show_log
from earmark.settings import InvalidSetting, setting_named
from earmark.version import VERSION

logger = logging.getLogger(__name__)

VERBOSE = "--verbose"
CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

_HERE = "earmark.cli"

INTERRUPTED = 130
"""Of typer, after Ctrl-C."""

_RESUMED = "; finished work is kept; run the same command to continue"
_CACHED = (
    "; recordings that were listened to are cached, so the same command continues with the rest"
)
KEPT = {
    **dict.fromkeys(("caption", "find", "watch", "audit", "merge", "import", "forget"), _RESUMED),
    **dict.fromkeys(("plan", "select"), _CACHED),
    "export": "; no unfinished file is left",
}
"""What is said after Ctrl-C."""

PANELS = {
    "Work on recordings": {
        "plan": f"{_HERE}.select:plan",
        "select": f"{_HERE}.select:select",
        "caption": f"{_HERE}.caption:caption",
        "find": f"{_HERE}.caption:find",
        "watch": f"{_HERE}.watch:watch",
    },
    "Look at runs": {
        "show": f"{_HERE}.look:show",
        "search": f"{_HERE}.look:search",
        "ask": f"{_HERE}.look:ask",
        "serve": f"{_HERE}.serve:serve",
        "mcp": f"{_HERE}.serve:mcp",
        "export": f"{_HERE}.look:export",
        "run": f"{_HERE}.app:run_group",
    },
    "More": {"doctor": f"{_HERE}.machine:doctor", "models": f"{_HERE}.app:models_group", "lab": ""},
}
"""Module and function of every command, by its heading in `--help`; empty for an added one."""

ADDED = {
    "lab": "Compare rules and frontlines, train a gate, reproduce the paper.",
}

COMMANDS = {name: home for panel in PANELS.values() for name, home in panel.items()}
PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}


class LazyGroup(TyperGroup):
    """Imports a command only when it is used, so that starting is fast."""

    entries: ClassVar[dict[str, str]] = {}
    default: ClassVar[str] = ""
    is_listed = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(self.entries)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Without importing the commands: some import PyTorch."""
        self.is_listed = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.is_listed = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in self.entries:
            return None
        home = self.entries[cmd_name]
        if not home:
            return AddedCommand(
                cmd_name, help=ADDED[cmd_name], rich_help_panel=PANEL_OF.get(cmd_name)
            )
        return describe(cmd_name, home) if self.is_listed else load(cmd_name, home)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Suggest a command for a misspelt one; typer suggests only commands that are loaded."""
        close = get_close_matches(args[0], self.entries, n=1)
        if close and args[0] not in self.entries and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The default command is put in front if `args` name none."""
        known = (*self.entries, *CONTEXT["help_option_names"])
        if self.default and not (args and args[0] in known):
            args = [self.default, *args]
        rest: list[str] = super().parse_args(ctx, args)
        return rest


def commands_in(command: Any) -> dict[str, Any]:
    if not isinstance(command, LazyGroup):
        return {}
    return {name: load(name, home) for name, home in command.entries.items() if home}


def load(name: str, home: str) -> Any:
    """`home` is `module:function`."""
    module, _, function = home.partition(":")
    command = getattr(import_module(module), function)
    if not isinstance(command, typer.Typer):
        single = typer.Typer(add_completion=False, context_settings=CONTEXT, rich_markup_mode=None)
        single.command(name, epilog=getattr(command, "epilog", None))(command)
        command = single
    command = typer.main.get_command(command)
    command.name = name
    command.rich_help_panel = PANEL_OF.get(name)  # type: ignore[attr-defined]
    return command


def describe(name: str, home: str) -> Any:
    """As `load`, but only name and help text, read from the source."""
    module, _, function = home.partition(":")
    if function.endswith("_group"):
        return load(name, home)
    spec = find_spec(module)
    assert spec and spec.origin
    source = Path(spec.origin).read_text(encoding="utf-8")
    nodes = [node for node in ast.parse(source).body if isinstance(node, FunctionDef)]
    words = next(ast.get_docstring(node) for node in nodes if node.name == function)
    return TyperCommand(name, help=words, rich_help_panel=PANEL_OF.get(name))


def make_group(name: str, words: str, entries: dict[str, str], **choices: Any) -> typer.Typer:
    kind = type(f"{name.title()}Group", (LazyGroup,), {"entries": entries, **choices})
    settings: dict[str, Any] = {"no_args_is_help": True, "context_settings": CONTEXT}
    settings |= {"add_completion": False, "rich_markup_mode": None}
    group = typer.Typer(name=name, cls=kind, help=words, **settings)
    group.callback()(lambda: None)
    return group


models_group = make_group(
    "models",
    "List, fetch and add model files.",
    {
        "list": "earmark.cli.machine:list_models",
        "get": "earmark.cli.machine:get",
        "add": "earmark.cli.machine:add",
    },
    default="list",
)
run_group = make_group(
    "run",
    "List, merge, import, audit and forget runs.",
    {
        "list": "earmark.cli.runs:list_runs",
        "merge": "earmark.cli.runs:merge",
        "import": "earmark.cli.runs:import_results",
        "audit": "earmark.cli.runs:audit",
        "forget": "earmark.cli.runs:forget",
    },
)


class AddedCommand(TyperCommand):
    """The console script `earmark-NAME` of another package."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = args
        return args

    def invoke(self, ctx: Any) -> None:
        """`MissingExtra` if no installed package has the script."""
        scripts = entry_points(group="console_scripts", name=f"earmark-{self.name}")
        if not scripts:
            raise MissingExtra(
                f"`earmark {self.name}` needs the package earmark-lab: pip install earmark-lab"
            )
        next(iter(scripts)).load()(ctx.args)


class EarmarkGroup(LazyGroup):
    entries = COMMANDS

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--verbose` anywhere in `args`; `--version`, `--help-all` and `--set` at their start."""
        if args[:1] == ["--version"]:
            typer.echo(f"earmark {VERSION}")
            raise typer.Exit
        if args[:1] == ["--help-all"]:
            from earmark.cli.options import print_all_settings

            print_all_settings("")
            raise typer.Exit
        if VERBOSE in args:
            show_log()
        words = [word for word in args if word != VERBOSE]
        early: list[str] = []
        while words[:1] == ["--set"]:  # belongs to the command that follows
            early, words = early + words[:2], words[2:]
        rest: list[str] = super().parse_args(ctx, [*words, *early])
        return rest


app = typer.Typer(
    name="earmark",
    cls=EarmarkGroup,
    help="Listen to long video, and caption only the windows worth a call of a vision model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
)


@app.callback()
def _declare(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    verbose: Annotated[
        bool, typer.Option(VERBOSE, help="Log to stderr, with tracebacks of bugs.")
    ] = False,
    change: Annotated[
        str | None, typer.Option("--set", metavar="KEY=VALUE", help="Set any setting.")
    ] = None,
    help_all: Annotated[bool, typer.Option("--help-all", help="List every setting.")] = False,
) -> None:
    """Declare the options of all commands for the help; `EarmarkGroup` handles them."""


def main() -> None:
    run(app)


def run(commands: Callable[..., Any], args: Sequence[str] | None = None, **choices: Any) -> None:
    """An error prints one line and exits 1.

    SIGTERM, which batch schedulers send, is treated like Ctrl-C: the command waits for answers in
    flight and stores them. The second signal waits for nothing: answers that have arrived are
    stored, and threads that decode or call end with the process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file name may be invalid Unicode
            is_unicode = stream.encoding.lower().startswith("utf")
            stream.reconfigure(errors="surrogateescape" if is_unicode else "backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        commands(args, **choices)
    except InvalidSetting as error:
        _fail(f"{_flag(error.name)}: {error.reason}" if error.name else error.reason)
    except (EarmarkError, ValueError) as error:
        logger.debug("raised here", exc_info=True)
        _fail(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"cannot go on: {where}{error.strerror or error}")
    except Exception as error:
        if not plugin_of(error):
            raise
        logger.debug("raised here", exc_info=True)
        _fail(f"{describe_bug(error)}; `earmark --verbose` shows where")
    except SystemExit as error:
        if error.code == INTERRUPTED:
            _end_interrupted(args or sys.argv[1:])
        raise


def _end_interrupted(words: Sequence[str]) -> NoReturn:
    from multiprocessing import active_children

    err.print(f"earmark: stopped{_what_is_kept(words)}")
    sys.stdout.flush()
    sys.stderr.flush()
    for worker in active_children():  # nothing waits for their results any more
        worker.kill()
    os._exit(INTERRUPTED)


def _what_is_kept(words: Sequence[str]) -> str:
    names = [word for word in words if not word.startswith("-")][:2]
    return next((KEPT[name] for name in names if name in KEPT), "")


def _fail(reason: str) -> NoReturn:
    err.print(f"earmark: {reason}", style="red")
    sys.exit(1)


def _flag(name: str) -> str:
    try:
        return f"--{setting_named(name).flag}"
    except InvalidSetting:
        return name
