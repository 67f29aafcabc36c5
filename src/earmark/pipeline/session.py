"""Makes the live objects of a run from its settings; the only place that does.

names and numbers ──▶ Settings ──▶ open_session ──▶ Session ──▶ select, plan, caption, find, ask
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from earmark.captioning.captioner import make_captioner
from earmark.captioning.request import DEFAULT_TEMPLATE, Question
from earmark.errors import EarmarkError
from earmark.gate.forecast_error import ForecastError
from earmark.gate.frontline import AUTO, Frontline, frontline_named, unheard
from earmark.gate.listener import ScoreCache
from earmark.gate.survival import Survival
from earmark.grid import Grid
from earmark.media import Source, find
from earmark.media.source import absolute_path
from earmark.media.source_listing import Shard
from earmark.models import ModelStore
from earmark.models.model_store import model_store
from earmark.selection import Budget, Coverage, Rule, is_blind, rule_name, rule_named
from earmark.selection.budget import Rounds, parse_rounds
from earmark.settings import STORED, InvalidSetting, Limits, Settings, Workers
from earmark.version import VERSION

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.evidence.picture_evidence import PictureEvidence
    from earmark.evidence.sound_names import SoundNamer
    from earmark.evidence.sound_track import SoundListener
    from earmark.evidence.speech_listener import SpeechListener

Paths = str | Path | Source | Sequence[str | Path | Source]


class Choices(TypedDict, total=False):
    budget: str | float | Budget
    rule: str | Rule
    frontline: str | Frontline
    across: bool
    rounds: str | int
    model: str | None
    captioner: Captioner | None
    blur: Literal["none", "faces"]
    speech: bool
    voices: bool
    window: float
    audio_track: int
    action_length: float | Survival | None
    frames: int
    tokens: int
    answer_tokens: int
    temperature: float | None
    prompt: str | Path | None
    answer_schema: str | Path | Mapping[str, Any] | None
    sounds: bool | None
    pictures: bool | None
    transcriber: str | None
    transcriber_model: str
    language: str
    concurrency: int
    timeout: float
    retries: int
    max_calls: int | None
    max_tokens: int | None
    max_spend: float | None
    input_price: float
    output_price: float
    longest_wait: float
    most_failures: int | None
    engine: str
    workers: int | None
    address: str | None
    shard: str | None
    cache: str | Path | None
    models: str | Path | None


@dataclass(frozen=True, slots=True)
class ListenJob:
    frontline: Frontline = field(default_factory=unheard)
    grid: Grid = field(default_factory=Grid)
    audio_track: int = 0
    cache: ScoreCache | None = None
    beside: SoundListener | None = None
    action_length: float | Survival | None = None
    """The median in seconds, or the survival curve; that of the frontline if not given."""

    @property
    def survival(self) -> Survival:
        curve = self.frontline.survival
        if isinstance(self.action_length, Survival):
            return self.action_length
        return curve if self.action_length is None else curve.stretched(self.action_length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    settings: Settings
    paths: Sequence[str | Path | Source] = ()
    listening: ListenJob
    budget: Budget
    rule: Rule
    rounds: Rounds
    question: Question
    store: ModelStore
    shard: Shard | None
    objects: Mapping[str, Any] = field(default_factory=dict)
    """Given in place of names: `rule`, `frontline`, `action_length`, `captioner`."""
    namer: SoundNamer | None = None
    look: PictureEvidence | None = None

    @property
    def across(self) -> bool:
        return self.settings.across

    @property
    def limits(self) -> Limits:
        return self.settings.limits

    @property
    def backend(self) -> Workers:
        return self.settings.backend

    @property
    def has_model(self) -> bool:
        return self.settings.model is not None or self.objects.get("captioner") is not None

    def sources(self, *, allow_none: bool = False) -> list[Source]:
        """Only those of the shard if there is one; none is an error unless `allow_none`."""
        if not self.paths and not allow_none:
            raise ValueError("no recording was given: name a file, a folder, a glob or an address")
        part = self.shard
        sources = [source for source in find(self.paths) if part is None or part.holds(source)]
        if self.backend.engine == "local":  # resolves relative paths as this process does
            return sources
        # A worker may have been started in another folder.
        return [replace(one, uris=tuple(map(absolute_path, one.uris))) for one in sources]

    @property
    def forecast_error(self) -> ForecastError | None:
        """None if not measured for this rule and frontline."""
        return self.listening.frontline.error if isinstance(self.rule, Coverage) else None

    def open_captioner(self, *, api_key: str | None = None) -> Captioner:
        if self.question.blur:
            self.question.blur.check()
        tokens = self.question.tokens + self.question.answer_tokens
        captioner: Captioner | None = self.objects.get("captioner")
        if captioner is None:
            with _about("model"):
                captioner = make_captioner(
                    self.settings.model,
                    concurrency=self.limits.concurrency,
                    tokens=tokens,
                    api_key=api_key,
                )
        if self.look is None:
            return captioner
        from earmark.captioning.captioner import EvidenceCaptioner

        return EvidenceCaptioner(captioner, self.look)

    def with_evidence(self) -> Session:
        """With models that name sounds, text and objects; `ModelMissing` without a required one."""
        cache, evidence = self.listening.cache, self.settings.evidence
        namer, look = self.namer, self.look
        if namer is None and evidence.sounds is not False:
            from earmark.evidence.sound_names import sound_namer

            folder = cache.folder if cache else None
            namer = sound_namer(evidence.sounds, folder, store=self.store)
        if look is None and evidence.pictures is not False:
            from earmark.evidence.picture_evidence import picture_evidence

            look = picture_evidence(evidence.pictures, self.store)
        return replace(
            self,
            namer=namer,
            look=look,
            listening=replace(self.listening, beside=getattr(namer, "listener", None)),
            question=replace(self.question, is_looked_at=look is not None),
        )

    def open_speech_listener(self, *, api_key: str | None = None) -> SpeechListener | None:
        if not self.settings.speech:
            return None
        from earmark.evidence.speech_listener import SpeechListener, Transcriber, VoiceActivity

        wanted, store = self.settings.transcription, self.store
        activity = VoiceActivity(weights=store.find("silero-vad"))
        made: Transcriber
        if wanted.transcriber is not None:
            from earmark.captioning.transcription_server import ServerTranscriber

            model, language = wanted.transcriber_model, wanted.language
            made = ServerTranscriber(wanted.transcriber, model, language, api_key)
        else:
            from earmark.evidence.whisper_model import WhisperModel

            made = WhisperModel(store, language=wanted.language)
        made.check()
        return SpeechListener(made, activity)

    def portable_settings(self) -> Settings:
        spec = self.listening.frontline.spec
        if not spec or self.settings.frontline == AUTO:
            return self.settings
        return self.settings.model_copy(update={"frontline": spec})

    def store_settings(self, folder: Path) -> None:
        """Not if they do not say all: an object has no name."""
        if self.objects.keys() & {"rule", "action_length"}:
            (folder / STORED).unlink(missing_ok=True)
        else:
            self.portable_settings().store(folder)

    def selection_json(self) -> dict[str, Any]:
        listening, action_length = self.listening, self.listening.action_length
        return {
            "budget": str(self.budget),
            "rule": rule_name(self.rule),
            "frontline": listening.frontline.name,
            "window": listening.grid.length,
            "across": self.across,
            "audio_track": listening.audio_track,
            **({} if action_length is None else {"action_length": str(action_length)}),
            "earmark": VERSION,
        }

    def run_json(self, model: str) -> dict[str, Any]:
        """The choices that affect answers of `model`; they identify a run."""
        return {
            **self.selection_json(),
            "model": model,
            "sounds": self.namer.model if self.namer else None,
            "ask": self.question.to_json(),
            **({} if self.rounds == 1 else {"rounds": str(self.rounds)}),
            **({"pictures": False} if self.settings.evidence.pictures is False else {}),
            **({} if speech_json(self.settings) == NO_SPEECH else speech_json(self.settings)),
        }


def speech_json(settings: Settings) -> dict[str, Any]:
    chosen = {"speech": settings.speech, "voices": settings.voices}
    return chosen | settings.transcription.model_dump(mode="json")


NO_SPEECH = speech_json(Settings())


def open_session(
    paths: Paths = (), settings: Settings | Session | None = None, **choices: Unpack[Choices]
) -> Session:
    """The objects that `settings` and `choices` name; choices win.

    With a rule that ignores scores nothing is listened to, unless a frontline is named.
    `InvalidSetting` lists the valid names.
    """
    before = settings if isinstance(settings, Session) else None
    base = before.settings if before else settings
    if base is not None and not isinstance(base, Settings):
        raise InvalidSetting("settings", f"takes earmark.Settings, not {base!r}")
    values: dict[str, Any] = dict(choices)
    objects = dict(before.objects) if before else {}
    for name in ("rule", "frontline", "action_length", "captioner"):
        if name in values:
            objects.pop(name, None)
            value = values[name]
            if not isinstance(value, str | float | int | None):
                objects[name] = values.pop(name)
    values.pop("captioner", None)
    if "rule" in objects:
        values["rule"] = rule_name(objects["rule"])
    if "frontline" in objects:
        values["frontline"] = objects["frontline"].spec or objects["frontline"].name
    chosen = Settings.read(values, base)
    listed = _listed(paths) if paths else before.paths if before else ()
    session = _open(chosen, tuple(listed), objects)
    return replace(session, namer=before.namer, look=before.look) if before else session


def _open(
    settings: Settings, paths: Sequence[str | Path | Source], objects: Mapping[str, Any]
) -> Session:
    store = model_store(settings.folders.models)
    with _about("rule"):
        rule = objects.get("rule") or rule_named(settings.rule)
    with _about("frontline"):
        is_unheard = settings.frontline == AUTO and is_blind(rule)
        frontline = unheard() if is_unheard else frontline_named(settings.frontline)
        frontline = objects.get("frontline", frontline)
    if settings.rule == "separated" and "rule" not in objects and frontline.separation:
        rule = rule_named("separated", separation=frontline.separation)  # fitted to its scores
    with _about("budget"):
        # Some rules fix the budget: a full scan calls on every window.
        budget = getattr(rule, "fixed_budget", None) or Budget.parse(settings.budget)
    with _about("rounds"):
        rounds = parse_rounds(settings.rounds)
    with _about("shard"):
        shard = Shard.parse(settings.backend.shard) if settings.backend.shard else None
        if shard and settings.across and budget.count is not None:
            raise ValueError(
                f"{budget} calls over all recordings cannot be split among shards: "
                "give a share such as 20%, or a price such as price=0.4"
            )
    heard, folder = settings.listening, settings.folders.cache
    listening = ListenJob(
        frontline,
        Grid(heard.window),
        heard.audio_track,
        ScoreCache(folder) if folder else None,
        action_length=objects.get("action_length", heard.action_length),
    )
    with _about("action_length"):
        _ = listening.survival  # raises if the length is invalid
    return Session(
        settings=settings,
        paths=paths,
        listening=listening,
        budget=budget,
        rule=rule,
        rounds=rounds,
        question=_question(settings, store, has_activity=rounds != 1),
        store=store,
        shard=shard,
        objects=objects,
    )


def _question(settings: Settings, store: ModelStore, *, has_activity: bool) -> Question:
    """With `has_activity` its answers also say what is done, which rounds need."""
    asked, blur = settings.question, None
    if settings.blur == "faces":
        from earmark.evidence.face_blur import FaceBlur

        blur = FaceBlur(store)
    with _about("prompt"):
        question = Question(
            asked.prompt or DEFAULT_TEMPLATE,
            asked.answer_schema,
            asked.frames,
            asked.tokens,
            asked.answer_tokens,
            asked.temperature,
            blur,
        )
    return question.with_activity() if has_activity else question


@contextmanager
def _about(name: str) -> Iterator[None]:
    try:
        yield
    except (InvalidSetting, EarmarkError):
        raise
    except ValueError as error:
        raise InvalidSetting(name, str(error)) from error


def _listed(paths: Paths) -> tuple[str | Path | Source, ...]:
    if isinstance(paths, str | Path | Source):
        return (paths,)
    given: Any = paths
    is_many = isinstance(given, Iterable) and not isinstance(given, bytes)
    every = tuple(given) if is_many else (given,)
    for one in every:
        if not isinstance(one, str | Path | Source):
            raise ValueError(
                f"{one!r} is not a path: give text, a Path, a Source or a list of them"
            )
    return every
