"""Options of commands, made from the settings.

    @takes_settings("budget", "rule")
    def select(paths: Paths, settings: Settings, explain: bool = False) -> None: ...

takes every setting as an option. Its `--help` shows `--budget` and `--rule`; `--help-all`, all.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import typer
from typer.core import TyperCommand

from earmark.gate.frontline import with_checkpoints
from earmark.media.source import place_of
from earmark.media.source_listing import find
from earmark.models.model_store import model_store
from earmark.report.console import Format, emit_csv, emit_json, err, out, print_lines, warn
from earmark.report.progress import show_progress
from earmark.settings import (
    Setting,
    Settings,
    all_settings,
    parse_text,
    setting_named,
)
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

GIVEN = "earmark.settings"
"""Key of the settings given by options that the help does not show, in a command's context."""

FILES = ("prompt", "answer_schema")
"""Settings whose option names a file."""


def takes_settings(*names: str) -> Callable[..., Callable[..., None]]:
    """A decorator that makes the `settings` of a command; its help shows the settings `names`."""
    options = {name: setting_option(setting_named(name)) for name in names}
    options = {"context": (typer.Context, inspect.Parameter.empty)} | options

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        parameters: dict[str, tuple[Any, Any]] = {}
        for name, own in inspect.signature(command, eval_str=True).parameters.items():
            is_settings = name == "settings"
            parameters |= options if is_settings else {name: (own.annotation, own.default)}

        @wraps(command)
        def run(**values: Any) -> None:
            settings = load_settings({name: values.pop(name) for name in options})
            command(**values, settings=settings)

        keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                keyword(name, annotation=kind, default=default)
                for name, (kind, default) in parameters.items()
            ]
        )
        run.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
        run.command_class = SettingsCommand  # type: ignore[attr-defined]
        del run.__wrapped__  # `run` has another signature than the command
        return run

    return wrap


def setting_option(one: Setting) -> tuple[Any, Any]:
    """A setting as an option; None if it is not given, so that the default is that of its field."""
    flags = [f"--{one.flag}", *filter(None, [one.short])]
    kind: Any = bool | None if one.is_switch else str | None
    if one.is_switch and one.field.default is not False:
        flags = [f"--{one.flag}/--no-{one.flag}"]
    metavar = None if one.is_switch else "FILE" if one.name in FILES else "VALUE"
    is_plain = one.default in ("none", "off")
    words = one.help if is_plain else f"{one.help.rstrip('.')} [{one.default}]."
    added = typer.Option(*flags, help=words, show_default=False, metavar=metavar)
    return Annotated[kind, added], None


def load_settings(values: dict[str, Any]) -> Settings:
    """The settings of the user, with the `values` of the options that were given."""
    hidden = values.pop("context").meta.get(GIVEN, {})
    given = {name: value for name, value in values.items() if value is not None}
    given = {name: option_value(name, value) for name, value in (given | hidden).items()}
    settings = Settings.load(given)
    return settings.model_copy(update={"frontline": with_checkpoints(settings.frontline)})


def option_value(name: str, value: Any) -> Any:
    """The value of a setting, from the text of its option."""
    if not isinstance(value, str):
        return value
    text = parse_text(name, value)
    return Path(text) if text is not None and name in FILES else text


class SettingsCommand(TyperCommand):
    """A command that takes every setting as an option, and `--set KEY=VALUE`."""

    def __init__(self, *arguments: Any, **choices: Any) -> None:
        words = "Every setting is an option: --help-all lists them, earmark.toml keeps them."
        super().__init__(*arguments, **choices | {"epilog": words})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the settings that the help does not show out of `args`, then parse the rest."""
        own = {flag for one in self.params for flag in (*one.opts, *one.secondary_opts)}
        if "--help-all" in args:
            print_all_settings(self.get_help(ctx))
            raise typer.Exit
        rest, given, waiting = [], ctx.meta.setdefault(GIVEN, {}), list(args)
        while waiting:
            word = waiting.pop(0)
            if word == "--":
                rest += [word, *waiting]
                break
            flag, sign, text = word.partition("=")
            if flag == "--set":
                key, _, value = (text if sign else _next(waiting, flag)).partition("=")
                given[setting_named(key.strip()).name] = value.strip()
                continue
            setting = None if flag in own else setting_of(flag)
            if setting is None:
                rest.append(word)
            elif flag == f"--no-{setting.flag}":
                given[setting.name] = False if setting.is_switch else None
            elif setting.is_switch:
                given[setting.name] = True
            else:
                given[setting.name] = text if sign else _next(waiting, flag)
        parsed: list[str] = super().parse_args(ctx, rest)
        return parsed


def setting_of(flag: str) -> Setting | None:
    """The setting that `flag` sets, or turns off if it is `--no-NAME`."""
    for one in all_settings():
        can_be_off = one.is_switch or one.is_optional
        if flag == f"--{one.flag}" or (one.short and flag == one.short):
            return one
        if can_be_off and flag == f"--no-{one.flag}":
            return one
    return None


def _next(waiting: list[str], flag: str) -> str:
    if not waiting:
        raise ValueError(f"{flag} needs a value")
    return waiting.pop(0)


def print_all_settings(usage: str) -> None:
    """Print the help of a command, then every setting with its default."""
    if usage:
        out.print(usage)
    group = None
    for one in all_settings():
        if one.group != group:
            group = one.group
            out.print(
                f"\n[{group}]" if group else "\nSettings (also in earmark.toml)", style="bold"
            )
        flags = f"--{one.flag}" + (f", {one.short}" if one.short else "")
        out.print(f"  {flags:24} {one.help} [default: {one.default}]")
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
        f"{counted(len(copies), 'file')} left out, such as {place_of(copies[0])}: "
        "a camera's small copies and stills of recordings that are here in full"
    )


sources_at = partial(find, on_copies=_warn_of_copies)
"""The recordings at paths; prints a line to stderr if small copies by a camera are left out."""

api_key = partial(os.environ.get, "OPENAI_API_KEY")
"""The API key for a server that needs one; None if the variable is not set."""


class Result(Protocol):
    """What a command prints."""

    def to_json(self) -> Any: ...

    def lines(self) -> Iterable[TextLine]: ...


class Tabular(Result, Protocol):
    """A result that is also printed as CSV."""

    def table(self) -> Table: ...


def show(
    result: Result | Tabular,
    format: str,
    *,
    warnings: Iterable[str] = (),
    errors: Iterable[str] = (),
) -> None:
    """Print `result`; warnings and errors go to stderr, and any error ends with exit code 1."""
    if format == "json":
        emit_json(result.to_json())
    elif format == "csv":
        emit_csv(cast("Tabular", result).table())
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
