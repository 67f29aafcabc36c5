"""Every choice of a run, once: a tree of plain values with a type, a default and a description.

    earmark.toml ─┐
    EARMARK_…    ─┼─▶ Settings ──▶ pipeline/session.py makes the live objects
    --name VALUE ─┤
    Python       ─┘

The name of a setting is unique in the whole tree, so `max_calls` and `limits.max_calls` are the
same. An error carries the name; the command line adds the flag.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import time
from functools import cache as once
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from earmark.redaction import HIDDEN, redact, redact_model
from earmark.wall_clock import ClockCorrection

FILE = "earmark.toml"
"""In the user's configuration folder and in the working folder."""

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


def _read_file(value: Any) -> Any:
    """The text of a file given as a `Path` or as `@NAME`; any other value is unchanged."""
    if not isinstance(value, Path) and not (isinstance(value, str) and value.startswith("@")):
        return value
    path = Path(str(value).removeprefix("@"))
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"cannot read {path}: {why}") from None


def _read_schema(value: Any) -> Any:
    text = _read_file(value)
    if not isinstance(text, str):
        return text
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{Path(value).name} is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise ValueError(f"{Path(value).name} is JSON but not a schema: a schema is an object")
    return schema


def _check_clock(text: str) -> str:
    return ClockCorrection(start=text).start


def _check_offset(text: str) -> str:
    return ClockCorrection(offset=text).offset


def _check_time_of_day(text: str) -> str:
    try:
        return time.fromisoformat(text).isoformat("minutes")
    except ValueError:
        raise ValueError(f"{text!r} is no time of day: write 07:00") from None


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def _read_duration(value: Any) -> Any:
    """Seconds; a number may be followed by s, m, h or d."""
    if isinstance(value, str) and value[-1:] in _UNITS:
        try:
            return float(value[:-1]) * _UNITS[value[-1]]
        except ValueError:
            raise ValueError(f"{value!r} is no duration: write 30s, 5m, 1h or 30d") from None
    return value


def _read_list(value: Any) -> Any:
    """Texts between commas; an array in earmark.toml is taken as it is."""
    if isinstance(value, str):
        return tuple(filter(None, map(str.strip, value.split(","))))
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_read_list)]
Duration = Annotated[float, BeforeValidator(_read_duration)]
Folder = Annotated[Path, AfterValidator(Path.expanduser)]
Text = Annotated[str, BeforeValidator(_read_file)]
Schema = Annotated[dict[str, Any], BeforeValidator(_read_schema)]
ModelName = Annotated[str, PlainSerializer(redact_model, when_used="json")]
Secret = Annotated[str, PlainSerializer(lambda _: HIDDEN, when_used="json")]
TimeOfDay = Annotated[str, AfterValidator(_check_time_of_day)]


class Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Listening(Group):
    """How recordings are listened to."""

    window: float = setting(
        4.0, "Length of a window in seconds; one window is one call.", short="-w", gt=0
    )
    audio_track: int = setting(0, "Audio track, from 0; another one if track 0 is silent.", ge=0)
    clock: Annotated[str, AfterValidator(_check_clock)] = setting(
        "", "When the first recording began: 2026-11-16 13:00 +02:00.", shown="by the camera"
    )
    clock_offset: Annotated[str, AfterValidator(_check_offset)] = setting(
        "", "Added to the camera's clock: +02:00, -0:03:20 or seconds.", shown="nothing"
    )
    action_length: float | None = setting(
        None, "Median length of your actions in seconds.", shown="that of the frontline", gt=0
    )

    @property
    def correction(self) -> ClockCorrection:
        return ClockCorrection(self.clock, self.clock_offset)


class Question(Group):
    """What the model is shown and asked."""

    frames: int = setting(1, "Pictures per call, spread over the window.", ge=1)
    tokens: int = setting(1024, "Visual tokens per call, of 32x32 pixels.", ge=1)
    answer_tokens: int = setting(256, "Longest answer, in tokens.", ge=1)
    temperature: Annotated[
        float | None, BeforeValidator(lambda value: None if value == "server" else value)
    ] = setting(0.0, "A number, or `server` to send none.", ge=0)
    prompt: Text | None = setting(None, "Prompt template.", shown="built in")
    answer_schema: Schema | None = setting(None, "JSON schema for the answers.")
    paragraphs: bool = setting(
        False, "Have the model write a paragraph about each recording and the day, with sources."
    )


class Evidence(Group):
    """What small models add to the prompt and to the run."""

    sounds: bool | None = setting(
        None,
        "Name the sounds of each window in the prompt.",
        shown="if mn04 or YAMNet is installed",
    )
    pictures: bool | None = setting(
        None,
        "Name text and objects of the frames in the prompt.",
        shown="if the models are installed",
    )


class SoundNames(Group):
    """Which sounds matter, for the choice of windows and for summaries."""

    ignore: Names = setting((), "Sounds to ignore, such as music.", shown="none")
    favour: Names = setting((), "Sounds to favour, such as drill, hammer.", shown="none")


class Transcription(Group):
    """How speech is transcribed."""

    language: str = setting("", "Language spoken, such as en.", shown="detected")


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
    currency: str = setting("", "Currency of the prices, such as EUR.", shown="not named")
    longest_wait: float = setting(120.0, "Longest wait between two attempts, in seconds.", ge=0)
    most_failures: int | None = setting(32, "Failures in a row after which the run stops.", ge=1)

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


class Folders(Group):
    """Where models and caches are stored."""

    cache: Folder | None = setting(
        None,
        "Folder for the cache of scores and sounds; `none` caches nothing.",
        shown="~/.cache/earmark",
    )
    models: Folder | None = setting(
        None, "Folder of the model files.", shown="~/.cache/earmark/models"
    )
    addresses: str = setting(
        "",
        "Addresses from which the recordings of a run may be read again, such as s3://bucket/.",
        shown="none",
    )


class Watching(Group):
    """How live sources are watched, and how fast calls are spent on them."""

    calls_per_hour: int = setting(60, "Calls in any hour, over all sources.", ge=1)
    burst: int | None = setting(
        None, "Calls that may follow each other at once.", shown="calls-per-hour", ge=1
    )
    calls_per_day: int | None = setting(None, "Calls in any 24 hours.", ge=1)
    latency: Duration = setting(
        30.0, "How long after a moment it is decided.", shown="30s", ge=0, le=600
    )
    part: Duration = setting(
        86_400.0, "Length of one recording of a stream.", shown="1d", ge=60, le=86_400
    )
    keep: Duration | None = setting(
        None, "Forget recordings of streams after this time.", shown="never", ge=60
    )
    keep_clips: bool = setting(False, "Keep a clip of every pick, cut without re-encoding.")
    alert: str = setting(
        "",
        "Sounds, or words of answers, to report at once: 'glass breaking, scream'.",
        shown="none",
    )
    webhook: Secret | None = setting(None, "Address that gets the events.", shown="none")
    webhook_secret: Secret | None = setting(
        None, "Key that signs them, as in Standard Webhooks.", shown="not signed"
    )
    mqtt: Secret | None = setting(
        None, "Broker that gets the events: mqtt://USER:PASSWORD@HOST.", shown="none"
    )
    digest: TimeOfDay | None = setting(
        None, "Time of day at which the last 24 hours are summed up: 07:00.", shown="never"
    )


class Display(Group):
    """How a command shows its progress."""

    log: Literal["bar", "json"] = setting("bar", "Show progress as a bar or as JSON lines.")


class Choosing(Group):
    """How windows are chosen; a request to the server may set these."""

    budget: str = setting(
        "25%", "Calls to make: 25%, 120, price=0.4 or auto.", short="-b", coerce_numbers_to_str=True
    )
    across: bool = setting(False, "Share one budget among all recordings.")


class Settings(Choosing):
    """Every choice of a run, in plain values."""

    rule: str = setting(
        "coverage", "How windows are chosen, such as coverage, rank or uniform.", short="-r"
    )
    frontline: str = setting(
        "auto", "What scores the sound, such as auto, energy or FILE.gate.", short="-f"
    )
    rounds: str = setting(
        "1", "Rounds of calls, or auto; answers plan the next.", coerce_numbers_to_str=True
    )
    model: ModelName | None = setting(
        None, "Model: http://HOST/v1#NAME, gguf:FILE, hf:NAME, replay:FILE.", shown="none"
    )
    blur: Literal["none", "faces"] = setting(
        "none", "What to blur in pictures and clips: none or faces."
    )
    speech: bool = setting(False, "Transcribe speech; ask people first.")
    voices: bool = setting(True, "Keep transcripts, and speech in clips.")
    listening: Listening = Listening()
    question: Question = Question()
    evidence: Evidence = Evidence()
    sounds: SoundNames = SoundNames()
    transcription: Transcription = Transcription()
    limits: Limits = Limits()
    backend: Workers = Workers()
    folders: Folders = Folders()
    watch: Watching = Watching()
    display: Display = Display()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Settings that depend on one another."""
        question, limits, workers = self.question, self.limits, self.backend
        if question.tokens < question.frames:
            reason = f"{question.tokens} visual tokens cannot hold {question.frames} frames"
            raise InvalidSetting("tokens", f"{reason}; at least one each")
        if limits.max_spend is not None and not limits.input_price + limits.output_price > 0:
            raise InvalidSetting("max_spend", "needs prices: set input_price and output_price")
        if workers.address is not None and workers.engine == "local":
            raise InvalidSetting("address", f"{workers.address} needs engine = ray")
        if self.watch.keep_clips and self.blur == "faces":
            raise InvalidSetting(
                "keep_clips", "clips are cut without re-encoding, so faces stay visible"
            )
        if self.speech and not self.voices:
            raise InvalidSetting("speech", "transcribes what voices = false forbids: set only one")
        return self

    @classmethod
    def read(cls, values: Mapping[str, Any], base: Settings | None = None) -> Settings:
        """`base` with `values` by name, such as `budget`, `max_calls` or `limits.max_calls`.

        The text `none` is None if the setting may be None.
        """
        tree = base.model_dump() if base else {}
        for name, value in values.items():
            if isinstance(value, Group):
                tree[name] = value.model_dump()
                continue
            chosen = setting_named(name)
            is_none = isinstance(value, str) and value.lower() == "none" and chosen.is_optional
            is_scalar = type(value).__module__ == "numpy" and hasattr(value, "item")
            group = tree.setdefault(chosen.group, {}) if chosen.group else tree
            group[chosen.name] = None if is_none else value.item() if is_scalar else value
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
        home = os.environ.get("XDG_CONFIG_HOME")
        config_folder = Path(home) if home else Path.home() / ".config"
        for path in (config_folder / "earmark" / FILE, Path(FILE)):
            base = _read_toml(path, base)
        variables = {item.variable: item.name for item in all_settings()}
        known = {*variables, *OTHER_VARIABLES}
        for name in os.environ:
            if name.startswith(PREFIX) and name not in known:  # a misspelt cap is not ignored
                raise InvalidSetting(
                    "", f"the variable {name} is not a setting{_hint(name, known)}"
                )
        texts = {name: os.environ.get(variable) for variable, name in variables.items()}
        environment = {name: text for name, text in texts.items() if text}
        return cls.read({**environment, **(values or {})}, base)


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    group: str
    """Empty at the top."""
    key: str
    flag: str
    """Without the dashes."""
    short: str
    """A second flag, such as `-b`; empty if it has none."""
    variable: str
    help: str
    default: str
    """In words."""
    is_switch: bool
    is_optional: bool
    """Whether `none` is a value."""


@once
def all_settings() -> tuple[Setting, ...]:
    rows: list[Setting] = []
    for name, field in Settings.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        if inner is None:
            rows.append(_describe(name, field))
        else:
            rows += [_describe(key, leaf, name) for key, leaf in inner.items()]
    return tuple(rows)


def _describe(name: str, field: FieldInfo, group: str = "") -> Setting:
    kinds = (field.annotation, *get_args(field.annotation))
    extra: Any = field.json_schema_extra
    default = "none" if field.default is None else str(field.default)
    if bool in kinds:
        default = "on" if field.default else "off"
    return Setting(
        name=name,
        group=group,
        key=f"{group}.{name}".lstrip("."),
        flag="schema" if name == "answer_schema" else name.replace("_", "-"),
        short=extra["short"],
        variable=f"{PREFIX}{name.upper()}",
        help=field.description or "",
        default=extra["shown"] or default,
        is_switch=bool in kinds,
        is_optional=type(None) in kinds,
    )


def setting_named(name: str) -> Setting:
    """With or without its group, written as a flag or a name."""
    plain = name.replace("-", "_")
    for item in all_settings():
        if plain in (item.name, item.key, item.flag.replace("-", "_")):
            return item
    known = (name for item in all_settings() for name in (item.name, item.group))
    hint = _hint(plain, filter(None, known))
    raise InvalidSetting("", f"there is no setting {name!r}{hint}")


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def explain(error: ValidationError) -> InvalidSetting:
    fault = error.errors()[0]
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, InvalidSetting):
        return cause
    name = str(fault["loc"][-1]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden":
        return InvalidSetting("", f"there is no setting {name!r}")
    reason = str(cause) if cause else explain_fault(fault)
    return InvalidSetting(name, reason)


def explain_fault(fault: Mapping[str, Any]) -> str:
    """Such as `should be a valid integer, not 'two'`."""
    message = fault["msg"].removeprefix("Input ").partition(", unable to parse")[0]
    return f"{message}, not {redact(repr(fault['input']))}"


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
            values |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            values[name] = value
    try:
        return Settings.read(values, base)
    except InvalidSetting as error:
        raise InvalidSetting("", f"{path}: {error}") from None
