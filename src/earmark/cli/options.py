"""Options of commands, made from the settings.

    @takes_settings("budget", "rule")
    def select(paths: Paths, settings: Settings, explain: bool = False) -> None: ...

takes every setting as an option. Its `--help` shows `--budget` and `--rule`; `--help-all`, all.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from earmark.gate.frontline import with_checkpoints
from earmark.media.source import place_of
from earmark.media.source_listing import find
from earmark.models.model_store import model_store
from earmark.report.console import Format, emit_csv, emit_json, err, out, print_lines, warn
from earmark.report.progress import show_progress
from earmark.settings import Setting, Settings, all_settings, setting_named
from earmark.text_format import Table, TextLine, counted

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur

Paths = Annotated[list[str], typer.Argument(help="Files, folders, globs or addresses.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")]
NewRunFolder = Annotated[
    Path | None,
    typer.Option(
        "--run", help="Folder of the run; an existing run is continued.", show_default="runs/NAME"
    ),
]
ResultFormat = Annotated[Format, typer.Option("--format", help="Output format.")]

FILES = ("prompt", "answer_schema")
"""Settings whose option names a file."""

MORE_HELP = "Every setting is an option: --help-all lists them, earmark.toml keeps them."


def takes_settings(*names: str) -> Callable[..., Callable[..., None]]:
    """A decorator that makes the `settings` of a command; its help shows the settings `names`."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        shown = [option for name in names for option in setting_options(setting_named(name))]
        parameters: list[inspect.Parameter] = []
        for name, parameter in own.items():
            keyword = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            parameters += shown if name == "settings" else [keyword]
        for item in all_settings():
            if item.name not in names and not {item.name, item.flag} & own.keys():
                parameters += setting_options(item, hidden=True)
        parameters += [
            _option("changes", list[str] | None, "--set", hidden=True),
            _option("help_all", bool | None, "--help-all", is_eager=True, callback=_help_all),
        ]

        @wraps(command)
        def run(**values: Any) -> None:
            arguments = {name: values.pop(name) for name in own if name != "settings"}
            command(**arguments, settings=load_settings(values))

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        run.epilog = MORE_HELP  # type: ignore[attr-defined]
        del run.__wrapped__  # `run` has another signature than the command
        return run

    return wrap


@cache  # the commands of a module share them
def setting_options(item: Setting, *, hidden: bool = False) -> list[inspect.Parameter]:
    """The option of a setting, and a hidden `--no-NAME` if it can be turned off.

    An option that is not given is None, so that the default is that of the setting.
    """
    flags = [f"--{item.flag}", *filter(None, [item.short])]
    is_plain = item.default in ("none", "off")
    help = item.help if is_plain else f"{item.help.rstrip('.')} [{item.default}]."
    off = _option(f"no_{item.name}", bool | None, f"--no-{item.flag}")
    if not item.is_switch:
        metavar = "FILE" if item.name in FILES else "VALUE"
        on = _option(item.name, str | None, *flags, help=help, hidden=hidden, metavar=metavar)
        return [on, off] if item.is_optional else [on]
    if item.default == "off":
        return [_option(item.name, bool | None, *flags, help=help, hidden=hidden), off]
    flags = [f"--{item.flag}/--no-{item.flag}"]
    return [_option(item.name, bool | None, *flags, help=help, hidden=hidden)]


def _option(
    name: str, kind: Any, *flags: str, help: str = "", hidden: bool = True, **more: Any
) -> inspect.Parameter:
    added = typer.Option(*flags, help=help, hidden=hidden, show_default=False, **more)
    annotation = Annotated[kind, added]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=None, annotation=annotation)


def load_settings(options: dict[str, Any]) -> Settings:
    """The settings of the user, with the values of the options that were given."""
    changes = [_parse_change(text) for text in options.pop("changes") or ()]
    values = {name: value for name, value in options.items() if value is not None}
    for item in all_settings():
        if values.pop(f"no_{item.name}", False):
            values[item.name] = False if item.is_switch else None
    values |= dict(changes)
    for name in FILES:
        if values.get(name, "none") not in (None, "none"):
            values[name] = Path(values[name])
    settings = Settings.load(values)
    return settings.model_copy(update={"frontline": with_checkpoints(settings.frontline)})


def _parse_change(text: str) -> tuple[str, str]:
    """Name and value of a setting written as KEY=VALUE."""
    key, equals, value = text.partition("=")
    name = setting_named(key.strip()).name
    if not equals:
        raise ValueError(f"--set {text}: write KEY=VALUE, such as limits.retries=2")
    return name, value.strip()


def _help_all(context: typer.Context, is_given: bool) -> None:
    if is_given:
        print_all_settings(context.get_help())
        raise typer.Exit


def print_all_settings(usage: str) -> None:
    """Print the help of a command, then every setting with its default."""
    if usage:
        out.print(usage)
    group = None
    for item in all_settings():
        if item.group != group:
            group = item.group
            heading = f"[{group}]" if group else "Settings (also in earmark.toml)"
            out.print(f"\n{heading}", style="bold")
        flags = ", ".join(filter(None, [f"--{item.flag}", item.short]))
        out.print(f"  {flags:24} {item.help} [default: {item.default}]")
    out.print("\n  --set KEY=VALUE          Set any of them by its name, such as limits.retries=2.")


def progress_of(settings: Settings) -> Any:
    """The progress display that `settings` choose."""
    return show_progress(**settings.display.model_dump())


def face_blur(settings: Settings) -> FaceBlur | None:
    """What blurs faces, if the settings want it."""
    from earmark.evidence.face_blur import FaceBlur

    return FaceBlur(model_store(settings.folders.models)) if settings.blur == "faces" else None


def _warn_of_copies(copies: list[str]) -> None:
    warn(
        f"{counted(len(copies), 'file')} skipped, such as {place_of(copies[0])}: "
        "small copies or stills of recordings whose full files are here"
    )


sources_at = partial(find, on_copies=_warn_of_copies)
"""The recordings at paths; prints a line to stderr if small copies by a camera are left out."""

api_key = partial(os.environ.get, "OPENAI_API_KEY")
"""The API key for a server that needs one; None if the variable is not set."""


class Result(Protocol):
    """What a command prints; one that is also printed as CSV has a `table()`."""

    def to_json(self) -> Any: ...

    def lines(self) -> Iterable[TextLine]: ...


def show(
    result: Result, format: str, *, warnings: Iterable[str] = (), errors: Iterable[str] = ()
) -> None:
    """Print `result`; warnings and errors go to stderr, and any error ends with exit code 1."""
    if format == "json":
        emit_json(result.to_json())
    elif format == "csv":
        table: Table = getattr(result, "table")()  # noqa: B009 - only some results have one
        emit_csv(table)
    else:
        print_lines(result.lines())
    end_with(errors, warnings)


def end_with(errors: Iterable[str], warnings: Iterable[str] = ()) -> None:
    """Print each warning and error to stderr; exit with code 1 if there is an error."""
    for line in warnings:
        warn(line)
    lines = list(errors)
    for line in lines:
        err.print(f"earmark: {line}", style="red")
    if lines:
        raise typer.Exit(1)
