"""Every choice of a run, once: a tree of plain values with a type, a default and a description.

    earmark.toml ─┐
    EARMARK_…    ─┼─▶ Settings ──▶ pipeline/session.py makes the live objects
    --name VALUE ─┤      └──────▶ settings.json, stored with a run
    Python       ─┘

The name of a setting is unique in the whole tree, so `max_calls` and `limits.max_calls` are the
same. An error carries the name; the command line adds the flag.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from earmark.redaction import redact, redact_model, redact_url

FILE = "earmark.toml"
"""In the user's configuration folder and in the working folder."""

STORED = "settings.json"
"""In the folder of a run."""

PREFIX = "EARMARK_"

OTHER_VARIABLES = ("EARMARK_CHECKPOINTS",)
"""Variables with the prefix that are not settings."""


class InvalidSetting(ValueError):
    """A setting is unknown or out of range; `name` says which."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}" if name else reason)
        self.name = name
        self.reason = reason


def setting(
    default: Any, description: str, *, short: str = "", shown: str = "", **bounds: Any
) -> Any:
    """`short` is a second flag, such as `-b`; `shown` says the default in words."""
    extra: dict[str, Any] = {"short": short, "shown": shown}
    return Field(default, description=description, json_schema_extra=extra, **bounds)


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Listening(Group):
    """How recordings are listened to."""

    window: float = setting(
        4.0, "Length of a window in seconds; one window is one call.", short="-w", gt=0
    )
    audio_track: int = setting(0, "Audio track, from 0; another one if track 0 is silent.", ge=0)
    action_length: float | None = setting(
        None, "Median length of your actions in seconds.", shown="that of the frontline", gt=0
    )


class Question(Group):
    """What the model is shown and asked."""

    frames: int = setting(1, "Pictures per call, spread over the window.", ge=1)
    tokens: int = setting(1024, "Visual tokens per call, of 32x32 pixels.", ge=1)
    answer_tokens: int = setting(256, "Longest answer, in tokens.", ge=1)
    temperature: float | None = setting(0.0, "A number, or `server` to send none.", ge=0)
    prompt: str | None = setting(None, "Prompt template.", shown="built in")
    answer_schema: dict[str, Any] | None = setting(None, "JSON schema for the answers.")

    @field_validator("temperature", mode="before")
    @classmethod
    def _server_default(cls, value: Any) -> Any:
        return None if value == "server" else value

    @field_validator("prompt", mode="before")
    @classmethod
    def _read_prompt(cls, value: Any) -> Any:
        return _read_file(value) if _is_file(value) else value

    @field_validator("answer_schema", mode="before")
    @classmethod
    def _read_schema(cls, value: Any) -> Any:
        if not isinstance(value, str | Path):
            return value
        try:
            schema = json.loads(_read_file(value) if _is_file(value) else str(value))
        except json.JSONDecodeError as error:
            raise ValueError(f"{Path(value).name} is not JSON: {error}") from None
        if not isinstance(schema, dict):
            raise ValueError(f"{Path(value).name} is JSON but not a schema: a schema is an object")
        return schema

    @model_validator(mode="after")
    def _hold_frames(self) -> Self:
        if self.tokens < self.frames:
            reason = f"{self.tokens} visual tokens cannot hold {self.frames} frames"
            raise InvalidSetting("tokens", f"{reason}; at least one each")
        return self


class Evidence(Group):
    """What small models add to the prompt and to the run."""

    sounds: bool | None = setting(
        None,
        "Name the sounds of each window in the prompt.",
        shown="if YAMNet is installed",
    )
    pictures: bool | None = setting(
        None,
        "Name text and objects of the frames in the prompt.",
        shown="if the models are installed",
    )


class Transcription(Group):
    """Which model transcribes speech."""

    transcriber: str | None = setting(
        None,
        "Address of a transcription server with the OpenAI API.",
        shown="Whisper-base in this process",
    )
    transcriber_model: str = setting("whisper-1", "Name of the transcription model.")
    language: str = setting("", "Language spoken, such as en.", shown="detected")

    @field_serializer("transcriber", when_used="json")
    def _redact(self, value: str | None) -> str | None:
        return value and redact_url(value)


class Limits(Group):
    """Bounds on the calls of one run, and the prices that they are counted by."""

    concurrency: int = setting(8, "Calls in flight at once.", ge=1)
    timeout: float = setting(120.0, "Longest time of one attempt, in seconds.", gt=0)
    retries: int = setting(4, "Further attempts after 429, 5xx or a time-out.", ge=0)
    max_calls: int | None = setting(None, "Stop after this many calls of the run.", ge=0)
    max_tokens: int | None = setting(None, "Stop before the run uses this many tokens.", ge=0)
    max_spend: float | None = setting(
        None, "Stop before the run spends this much, by the prices.", ge=0
    )
    input_price: float = setting(0.0, "Price of a million input tokens.", ge=0)
    output_price: float = setting(0.0, "Price of a million output tokens.", ge=0)
    longest_wait: float = setting(
        120.0, "Longest wait between two attempts, in seconds.",
        ge=0,
    )  # fmt: skip
    most_failures: int | None = setting(32, "Failures in a row after which the run stops.", ge=1)

    @model_validator(mode="after")
    def _need_prices(self) -> Self:
        if self.max_spend is not None and not self.input_price + self.output_price > 0:
            raise InvalidSetting("max_spend", "needs prices: set input_price and output_price")
        return self

    def price(self, prompt_tokens: int, completion_tokens: int) -> float:
        return (prompt_tokens * self.input_price + completion_tokens * self.output_price) / 1e6


class Workers(Group):
    """Which processes or machines do the work."""

    engine: str = setting("local", "Where the work is done: local or ray.")
    workers: int | None = setting(None, "Number of workers.", shown="one per core", ge=1)
    address: str | None = setting(
        None, "Ray cluster to join, or auto.", shown="start one on this machine"
    )
    shard: str | None = setting(None, "Part of the recordings to work on, such as 3/16.")

    @model_validator(mode="after")
    def _fit_engine(self) -> Self:
        if self.address is not None and self.engine == "local":
            raise InvalidSetting("address", f"{self.address} needs engine = ray")
        return self


class Folders(Group):
    """Where models and caches are stored."""

    cache: Path | None = setting(
        None,
        "Folder for the cache of scores and sounds; `none` caches nothing.",
        shown="~/.cache/earmark",
    )
    models: Path | None = setting(
        None, "Folder of the model files.", shown="~/.cache/earmark/models"
    )

    @field_validator("cache", "models")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        return value and value.expanduser()


class Display(Group):
    """How a command shows its progress."""

    log: Literal["bar", "json"] = setting("bar", "Show progress as a bar or as JSON lines.")
    metrics_port: int | None = setting(
        None, "Serve Prometheus metrics at this port.", ge=0, le=65535
    )
    metrics_host: str = setting("127.0.0.1", "Interface to serve metrics on.")


class Choosing(Group):
    """How windows are chosen; a request to the server may set these."""

    budget: str = setting(
        "25%",
        "Calls to make: 25%, 120, price=0.4 or auto.",
        short="-b",
    )
    across: bool = setting(False, "Share one budget among all recordings.")

    @field_validator("budget", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, bool | list | dict) else str(value)


class Settings(Choosing):
    """Every choice of a run, in plain values."""

    rule: str = setting(
        "coverage",
        "How windows are chosen, such as coverage, rank or uniform.",
        short="-r",
    )
    frontline: str = setting(
        "auto",
        "What scores the sound, such as auto, energy or FILE.gate.",
        short="-f",
    )
    rounds: str = setting(
        "1",
        "Rounds of calls, or auto; answers plan the next.",
    )
    model: str | None = setting(
        None, "Model: http://HOST/v1#NAME, gguf:FILE, hf:NAME, replay:FILE.", shown="none"
    )
    blur: Literal["none", "faces"] = setting(
        "none",
        "What to blur in pictures and clips: none or faces.",
    )
    speech: bool = setting(False, "Transcribe speech; ask people first.")
    voices: bool = setting(True, "Keep transcripts, and speech in clips.")
    listening: Listening = Listening()
    question: Question = Question()
    evidence: Evidence = Evidence()
    transcription: Transcription = Transcription()
    limits: Limits = Limits()
    backend: Workers = Workers()
    folders: Folders = Folders()
    display: Display = Display()

    @field_validator("rounds", mode="before")
    @classmethod
    def _number_as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_serializer("model", when_used="json")
    def _redact(self, value: str | None) -> str | None:
        return value and redact_model(value)

    @model_validator(mode="after")
    def _agree_on_speech(self) -> Self:
        if self.speech and not self.voices:
            raise InvalidSetting("speech", "transcribes what voices = false forbids: set only one")
        if self.transcription.transcriber is not None and not self.speech:
            address = redact_url(self.transcription.transcriber)
            raise InvalidSetting("transcriber", f"{address} needs speech = true")
        return self

    @classmethod
    def read(cls, values: Mapping[str, Any], base: Settings | None = None) -> Settings:
        """`base` with `values` by name, such as `budget`, `max_calls` or `limits.max_calls`."""
        tree = base.model_dump() if base else {}
        for name, value in values.items():
            _place(tree, name, value)
        try:
            return cls.model_validate(tree)
        except ValidationError as error:
            raise explain(error) from None

    @classmethod
    def load(cls, values: Mapping[str, Any] | None = None) -> Settings:
        """Later ones win: defaults, files, environment, `values`.

        Files are `earmark.toml` in the user's configuration folder and in the working folder.
        """
        from earmark.models.model_store import cache_folder

        base = cls.read({"cache": cache_folder()})
        for path in (config_folder() / FILE, Path(FILE)):
            base = _read_toml(path, base)
        _check_variables(os.environ)
        given = {one.name: os.environ.get(one.variable) for one in all_settings()}
        texts = {name: parse_text(name, text) for name, text in given.items() if text}
        return cls.read({**texts, **(values or {})}, base)

    def store(self, folder: Path) -> None:
        """Without secrets."""
        from earmark.media.atomic_file import write_whole

        write_whole(folder / STORED, self.model_dump_json(indent=1))

    @classmethod
    def stored(cls, folder: Path) -> Settings | None:
        path = folder / STORED
        return cls.model_validate_json(path.read_bytes()) if path.is_file() else None


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    group: str
    """Empty at the top."""
    field: FieldInfo

    @property
    def key(self) -> str:
        return f"{self.group}.{self.name}".lstrip(".")

    @property
    def flag(self) -> str:
        return {"answer_schema": "schema"}.get(self.name, self.name).replace("_", "-")

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.name.upper()}"

    @property
    def is_switch(self) -> bool:
        return self.field.annotation is bool or bool in get_args(self.field.annotation)

    @property
    def is_optional(self) -> bool:
        """Whether `none` is a value."""
        return type(None) in get_args(self.field.annotation)

    @property
    def help(self) -> str:
        return self.field.description or ""

    @property
    def short(self) -> str:
        """Empty if it has none."""
        return str(self._extra["short"])

    @property
    def default(self) -> str:
        default = self.field.default
        if self._extra["shown"]:
            return str(self._extra["shown"])
        if isinstance(default, bool):
            return "on" if default else "off"
        return "none" if default is None else str(default)

    @property
    def _extra(self) -> dict[str, Any]:
        extra = self.field.json_schema_extra
        assert isinstance(extra, dict)
        return extra


@once
def all_settings() -> tuple[Setting, ...]:
    return tuple(_leaves(Settings, ""))


def _leaves(kind: type[BaseModel], group: str) -> Iterator[Setting]:
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Group):
            yield from _leaves(inner, name)
        else:
            yield Setting(name, group, field)


def setting_named(name: str) -> Setting:
    """With or without its group, written as a flag or a name."""
    wanted = name.replace("-", "_")
    for one in all_settings():
        if wanted in (one.name, one.key, one.flag.replace("-", "_")):
            return one
    close = difflib.get_close_matches(wanted, [one.name for one in all_settings()], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise InvalidSetting("", f"there is no setting {name!r}{hint}")


def _check_variables(names: Iterable[str]) -> None:
    """A misspelt cap must not be ignored."""
    known = {*OTHER_VARIABLES, *(one.variable for one in all_settings())}
    for name in names:
        if name.startswith(PREFIX) and name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise InvalidSetting("", f"the variable {name} is not a setting{hint}")


def parse_text(name: str, text: str) -> str | None:
    """`none` is None if the setting may be None."""
    return None if text.lower() == "none" and setting_named(name).is_optional else text


def config_folder() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "earmark"


def explain(error: ValidationError) -> InvalidSetting:
    fault = error.errors()[0]
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, InvalidSetting):
        return cause
    name = str(fault["loc"][-1]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden":
        return InvalidSetting("", f"there is no setting {name!r}")
    reason = str(cause) if cause else f"{fault['msg']}, not {redact(repr(fault['input']))}"
    for start in ("Value error, ", "Input "):
        reason = reason.removeprefix(start)
    return InvalidSetting(name, reason)


def _place(tree: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, Group):
        tree[name] = value.model_dump()
        return
    one = setting_named(name)
    inner = tree.setdefault(one.group, {}) if one.group else tree
    is_scalar = type(value).__module__ == "numpy" and hasattr(value, "item")
    inner[one.name] = value.item() if is_scalar else value


def _read_toml(path: Path, base: Settings) -> Settings:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return base
    except (OSError, ValueError) as error:
        raise InvalidSetting("", f"cannot read {path}: {error}") from None
    values: dict[str, Any] = {}
    for name, value in tables.items():
        if isinstance(value, dict) and name in Settings.model_fields:
            values |= {f"{name}.{key}": one for key, one in value.items()}
        else:
            values[name] = value
    try:
        return Settings.read(values, base)
    except InvalidSetting as error:
        raise InvalidSetting("", f"{path}: {error}") from None


def _is_file(value: Any) -> bool:
    """A `Path`, or text after an `@`."""
    return isinstance(value, Path) or (isinstance(value, str) and value.startswith("@"))


def _read_file(value: str | Path) -> str:
    path = Path(str(value).removeprefix("@"))
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"cannot read {path}: {why}") from None
