"""The options of a plan, each defined once; `takes_plan` adds them to a command.

    @takes_plan(SPENDING | LISTENING)
    def select(plan: Plan, explain: bool = False) -> None: ...

is a command with the options `--budget`, `--rule`, …, `--explain`, whose `plan` is made from their
values. The defaults are those of the library.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from earmark.captioning.limits import CURRENCY, Limits
from earmark.captioning.prompt import Prompt
from earmark.captioning.question import Question
from earmark.gate.frontline_registry import AUTO, FRONTLINES, with_checkpoints
from earmark.gate.score_cache import cache_at
from earmark.grid import Placement
from earmark.media.source import place_of
from earmark.media.source_listing import find
from earmark.models.user_folders import model_store
from earmark.pipeline.backend import BACKENDS
from earmark.pipeline.run_plan import DEFAULT_BUDGET, DEFAULT_RULE, Plan, make_plan
from earmark.reporting.console import Format, err, warn
from earmark.reporting.progress import Progress
from earmark.reporting.progress_display import LogKind, show_progress
from earmark.reporting.text_format import counted
from earmark.selection import RULES

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur

INPUT_PRICE_HELP = "Price of a million input tokens."
OUTPUT_PRICE_HELP = "Price of a million output tokens."

ARCHIVES = "Archives"
"""Heading in `--help` of the options of backends."""

Paths = Annotated[
    list[str], typer.Argument(help="Files, folders, globs, http(s):// or s3:// addresses.")
]
WindowLength = Annotated[
    float,
    typer.Option("--window", "-w", help="Length of a window in seconds; one window is one call."),
]
TrackNumber = Annotated[
    int,
    typer.Option(
        "--audio-track",
        help="Audio track, counted from 0. If track 0 is silent, another one is used.",
    ),
]
CacheFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache", help="Folder that caches what was heard.", show_default="~/.cache/earmark"
    ),
]
Log = Annotated[
    LogKind,
    typer.Option(
        "--log", help="Show progress as a bar or as JSON lines.", rich_help_panel=ARCHIVES
    ),
]
Watch = Callable[[], AbstractContextManager[Progress]]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither read nor write the cache.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")]
NewRunFolder = Annotated[
    Path | None,
    typer.Option(
        "--run", help="Folder of the run; an existing run is continued.", show_default="runs/NAME"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
OutcomeAs = Annotated[Format, typer.Option(help="Output format.")]

BudgetText = Annotated[
    str,
    typer.Option(
        "--budget",
        "-b",
        help="How many calls to make: a share of the windows (25% or 0.25), a number (120), a "
        "price (price=0.4: stop when the next call is expected to touch fewer new actions), or "
        "auto (as many as are worth making).",
    ),
]


def face_blur(said: str) -> FaceBlur | None:
    """The blur that `--blur` names, with its model from the user's store; None for `none`."""
    from earmark.evidence.face_blur import FaceBlur

    return FaceBlur(model_store()) if said == FaceBlur.name else None


KEYWORD = inspect.Parameter.KEYWORD_ONLY
REQUIRED = inspect.Parameter.empty
"""In place of the default of an option that must be given."""


def option(kind: Any, help: str, *names: str, default: Any = None, **more: Any) -> tuple[Any, Any]:
    """The annotated type of an option, and its default."""
    return Annotated[kind, typer.Option(*names, help=help, **more)], default


required = partial(option, default=REQUIRED)
"""The same for an option that must be given."""


def argument(kind: Any, help: str, **more: Any) -> tuple[Any, Any]:
    """The annotated type of an argument that must be given, and the mark for that."""
    return Annotated[kind, typer.Argument(help=help, **more)], REQUIRED


SPENDING = {
    "budget": (BudgetText, DEFAULT_BUDGET),
    "rounding": option(
        str,
        "How a share becomes a whole number of calls: `round`, as in the paper's tables, or "
        "`floor`, as in its Eq. 3. For 25% of 6 windows that is 2 calls or 1.",
        default="round",
    ),
    "rule": option(
        str, f"How windows are chosen: {', '.join(RULES)}.", "--rule", "-r", default=DEFAULT_RULE
    ),
    "across": option(bool, "Share one budget among all recordings.", "--across", default=False),
}
ROUNDS = {
    "rounds": option(
        str,
        "Number of rounds; the answers of one round plan the next. auto: as many as can change "
        "the plan.",
        default="1",
    ),
}
LISTENING = {
    "frontline": option(
        str,
        f"What scores the recording: {AUTO}, {', '.join(FRONTLINES)}, or a .gate file. Its "
        "options follow after colons: beats:threshold=0.5, beats:weights=FILE.",
        "--frontline",
        "-f",
        default=AUTO,
        callback=with_checkpoints,
    ),
    "window": (WindowLength, 4.0),
    "placement": option(
        Placement,
        "Where windows begin: on the grid, or free at any half second (rule coverage only).",
        default="grid",
    ),
    "audio_track": (TrackNumber, 0),
    "action_length": option(
        str | None,
        "How long your actions last: the median in seconds, or an annotation file in any format "
        "that `earmark evaluate` reads.",
        show_default="learnt by the frontline",
    ),
    "cache": (CacheFolder, None),
    "no_cache": (NoCache, False),
}
HEARING = {name: LISTENING[name] for name in ("audio_track", "cache", "no_cache")}
MODEL = {
    "vlm": option(str | None, "Address of a server with the OpenAI API."),
    "model": option(str | None, "Name of the model on that server."),
    "gguf": option(Path | None, "GGUF file to run in this process."),
    "mmproj": option(
        Path | None, "Picture encoder of the GGUF file.", show_default="the one beside it"
    ),
    "transformers": option(str | None, "Qwen3-VL checkpoint to run in this process."),
    "replay": option(Path | None, "JSONL file of answers to use in place of a model."),
    "sounds": option(
        bool | None,
        "Name the sounds of each window and put them into the prompt.",
        "--sounds/--no-sounds",
        show_default="on after `earmark models get yamnet`",
    ),
}
EVIDENCE = {
    "pictures": option(
        bool | None,
        "Read text and name objects in the frames, and put them into the prompt.",
        "--pictures/--no-pictures",
        show_default="on after `earmark models get evidence`",
    ),
    "speech": option(
        bool,
        "Transcribe speech. People near the wearer have not agreed to that.",
        "--speech",
        default=False,
    ),
    "transcriber": option(
        str | None,
        "Address of a transcription server with the OpenAI API.",
        show_default="Whisper-base in this process",
    ),
    "transcriber_model": option(str, "Name of the transcription model.", default="whisper-1"),
    "language": option(str, "Language spoken, such as en.", default="", show_default="detected"),
    "voices": option(
        bool,
        "Keep no transcript, delete an earlier one, and mute speech in clips.",
        " /--no-voices",
        default=True,
        show_default=False,
    ),
}
VOICES = {"voices": EVIDENCE["voices"]}
Blurred = Annotated[
    Literal["none", "faces"],
    typer.Option(
        "--blur",
        envvar="EARMARK_BLUR",
        help="Blur the faces that are found, in everything sent, kept or cut. A blurred run "
        "stays blurred.",
    ),
]
BLURRING = {"blur": (Blurred, "none")}
_QUESTION, _LIMITS = Question(), Limits()
QUESTION = BLURRING | {
    "frames": option(
        int,
        "Pictures per call: 1 shows the chosen instant, more are spread over the window.",
        default=_QUESTION.frames,
    ),
    "tokens": option(int, "Visual tokens per call, of 32x32 pixels.", default=_QUESTION.tokens),
    "answer_tokens": option(int, "Longest answer, in tokens.", default=_QUESTION.answer_tokens),
    "temperature": option(str, "A number, or `server` to send none.", default="0"),
    "prompt": option(Path | None, "Prompt template, a text file."),
    "schema": option(Path | None, "JSON schema for the answers."),
}
LIMITS = {
    "concurrency": option(int, "Calls in flight at once.", default=_LIMITS.concurrency),
    "timeout": option(float, "Longest time of one attempt, in seconds.", default=_LIMITS.timeout),
    "retries": option(
        int, "Further attempts after 429, 5xx or a time-out.", default=_LIMITS.retries
    ),
    "max_calls": option(int | None, "Stop after this many calls of the run."),
    "max_tokens": option(int | None, "Stop before the run uses this many tokens."),
    "max_spend": option(float | None, f"Stop before the run spends this much {CURRENCY}."),
    "input_price": option(float, INPUT_PRICE_HELP, default=0.0),
    "output_price": option(float, OUTPUT_PRICE_HELP, default=0.0),
}


archive_option = partial(option, rich_help_panel=ARCHIVES)
BACKEND = {
    "engine": archive_option(
        str, f"Where the work is done: {', '.join(BACKENDS)}.", default="local"
    ),
    "workers": archive_option(int | None, "Number of workers.", show_default="one per core", min=1),
    "address": archive_option(
        str | None, "Ray cluster to join, or auto.", show_default="start one on this machine"
    ),
    "shard": archive_option(
        str | None, "Work on one part, such as 3/16; `earmark merge` joins them."
    ),
}
BATCH = {
    "batch": archive_option(Path | None, "File to write the requests to, with --engine batch.")
}
CAPTIONING = SPENDING | ROUNDS | MODEL | EVIDENCE | QUESTION | LISTENING | LIMITS | BACKEND | BATCH
WATCHING = {
    "log": (Log, "bar"),
    "metrics_port": archive_option(int | None, "Serve Prometheus metrics at this port."),
    "metrics_host": archive_option(str, "Interface to serve metrics on.", default="127.0.0.1"),
}


def takes(
    parameter: str, options: dict[str, tuple[Any, Any]], make: Callable[[dict[str, Any]], Any]
) -> Callable[..., Callable[..., None]]:
    """A decorator that replaces a `parameter` of a command by `options`; `make` combines them."""

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        kept = [name for name in own if name != parameter]
        placed: dict[str, tuple[Any, Any]] = {}
        for name, one in own.items():
            placed |= options if name == parameter else {name: (one.annotation, one.default)}
        signature = inspect.Signature(
            [
                inspect.Parameter(name, KEYWORD, annotation=kind, default=default)
                for name, (kind, default) in placed.items()
            ]
        )

        @wraps(command)
        def run(**values: Any) -> None:
            given = signature.bind(**values)
            given.apply_defaults()
            said = given.arguments
            made = make({name: said[name] for name in options})
            command(**{name: said[name] for name in kept}, **{parameter: made})

        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: kind for name, (kind, _) in placed.items()}
        del run.__wrapped__  # `run` has another signature than the command
        return run

    return wrap


def takes_plan(options: dict[str, tuple[Any, Any]]) -> Callable[..., Callable[..., None]]:
    """A decorator that makes the `plan` of a command from `options`, and paths if it listens."""
    paths = {"paths": (Paths, REQUIRED)} if "cache" in options else {}
    return takes("plan", paths | options, plan_of)


shows_progress = takes("watch", WATCHING, lambda said: partial(show_progress, **said))
"""A decorator for a command whose `watch` opens the progress display that the options choose."""


def plan_of(said: dict[str, Any]) -> Plan:
    """The plan from the values `said` of the options, which are modified in place."""
    sources = sources_at(said.pop("paths") or ["."]) if "paths" in said else []
    if "cache" in said:
        said["cache"] = cache_at(said.pop("cache"), said.pop("no_cache"))
    if said.get("action_length") is not None:
        from earmark.evaluation.annotations.readers import read_action_length

        said["action_length"] = read_action_length(said["action_length"])
    if "prompt" in said:
        template, schema = said.pop("prompt"), said.pop("schema")
        if template or schema:
            said["prompt"] = Prompt.load(template, schema=schema)
    if "vlm" in said:
        said |= {"server": said.pop("vlm"), "store": model_store(), "sounds": said.get("sounds")}
    is_weighted = any(source.weight != 1 for source in sources)
    if "server" in said and is_weighted and not said.get("across", True):
        warn("the weights of the manifest play a part only with --across: no call moves without it")
    return make_plan(sources, **said)


def _warn_of_copies(copies: list[str]) -> None:
    warn(
        f"{counted(len(copies), 'file')} left out, such as {place_of(copies[0])}: "
        "a camera's small copies and stills of recordings that are here in full"
    )


sources_at = partial(find, on_copies=_warn_of_copies)
"""The recordings at paths; prints a line to stderr if small copies by a camera are left out."""

api_key = partial(os.environ.get, "OPENAI_API_KEY")
"""The API key for a server that needs one; None if the variable is not set."""


def end_with(errors: Iterable[str]) -> None:
    """Print each error to stderr on a line of its own; exit with code 1 if there is any."""
    lines = list(errors)
    for line in lines:
        err.print(f"earmark: {line}", style="red")
    if lines:
        raise typer.Exit(1)
