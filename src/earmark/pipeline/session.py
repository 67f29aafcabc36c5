"""Makes the live objects of a run from its settings; the only place that does.

names and numbers ──▶ Settings ──▶ open_session ──▶ Session ──▶ select, plan, caption, find, ask
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

from earmark.captioning.captioner import make_captioner
from earmark.captioning.request import DEFAULT_TEMPLATE, Question
from earmark.errors import EarmarkError
from earmark.evidence.sound_taste import NO_TASTE, SoundTaste
from earmark.gate.forecast_error import ForecastError
from earmark.gate.frontline import AUTO, Frontline, frontline_named, unheard
from earmark.gate.lengths import ActionLengths
from earmark.gate.listener import ScoreCache
from earmark.grid import Grid
from earmark.media import Source, find
from earmark.media.source import absolute_path
from earmark.media.source_listing import Shard
from earmark.models import ModelStore
from earmark.models.model_store import model_store
from earmark.selection import (
    Budget,
    Coverage,
    Rule,
    is_blind,
    rule_name,
    rule_named,
    with_own_delta,
)
from earmark.selection.budget import Rounds, parse_rounds
from earmark.settings import InvalidSetting, Settings
from earmark.version import VERSION

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.evidence.picture_evidence import PictureEvidence
    from earmark.evidence.sound_names import SoundNamer
    from earmark.evidence.sound_track import SoundListener
    from earmark.evidence.speech_listener import SpeechListener

Paths = str | Path | Source | Sequence[str | Path | Source]

Value = TypeVar("Value")

OBJECTS = ("rule", "frontline", "action_length", "captioner")
"""Choices that may be given as an object in place of a name or a number."""


class Choices(TypedDict, total=False):
    """The settings as keyword arguments, for editors and type checkers; some also take objects."""

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
    clock: str
    clock_offset: str
    action_length: float | ActionLengths | None
    frames: int
    tokens: int
    answer_tokens: int
    temperature: float | None
    prompt: str | Path | None
    answer_schema: str | Path | Mapping[str, Any] | None
    paragraphs: bool
    sounds: bool | None
    pictures: bool | None
    ignore: str | Sequence[str]
    favour: str | Sequence[str]
    language: str
    concurrency: int
    timeout: float
    retries: int
    max_calls: int | None
    max_tokens: int | None
    max_spend: float | None
    input_price: float
    output_price: float
    currency: str
    longest_wait: float
    most_failures: int | None
    engine: str
    workers: int | None
    address: str | None
    shard: str | None
    cache: str | Path | None
    models: str | Path | None
    addresses: str
    calls_per_hour: int
    burst: int | None
    calls_per_day: int | None
    latency: float | str
    part: float | str
    keep: float | str | None
    keep_clips: bool
    alert: str
    webhook: str | None
    webhook_secret: str | None
    mqtt: str | None
    digest: str | None


@dataclass(frozen=True, slots=True)
class ListenJob:
    """What a worker needs to listen to a recording."""

    frontline: Frontline
    grid: Grid
    audio_track: int
    cache: ScoreCache | None
    lengths: ActionLengths | None = None
    """Inferred from the sound of each recording if None."""
    beside: SoundListener | None = None
    taste: SoundTaste = NO_TASTE
    """Weighs windows by the sounds that `beside` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    settings: Settings
    paths: Sequence[str | Path | Source]
    listening: ListenJob
    budget: Budget
    rule: Rule
    rounds: Rounds
    question: Question
    store: ModelStore
    shard: Shard | None
    objects: Mapping[str, Any] = field(default_factory=dict)
    """Given in place of names: see `OBJECTS`."""
    namer: SoundNamer | None = None
    look: PictureEvidence | None = None

    def sources(self, *, allow_none: bool = False) -> list[Source]:
        """Only those of the shard if there is one; none is an error unless `allow_none`."""
        if not self.paths and not allow_none:
            raise ValueError("no recording was given: name a file, a folder, a glob or an address")
        part = self.shard
        sources = [source for source in find(self.paths) if part is None or part.holds(source)]
        if self.settings.backend.engine == "local":  # resolves relative paths as this process does
            return sources
        # A worker may have been started in another folder.
        return [replace(source, uris=tuple(map(absolute_path, source.uris))) for source in sources]

    @property
    def forecast_error(self) -> ForecastError | None:
        """None if not measured for this rule and frontline."""
        return self.listening.frontline.error if isinstance(self.rule, Coverage) else None

    def open_captioner(self, *, api_key: str | None = None) -> Captioner:
        question = self.question
        if question.blur:
            question.blur.check()
        captioner: Captioner | None = self.objects.get("captioner")
        if captioner is None:
            captioner = _make(
                "model",
                make_captioner,
                self.settings.model,
                concurrency=self.settings.limits.concurrency,
                tokens=question.tokens + question.answer_tokens,
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
            listening=replace(
                self.listening, beside=getattr(namer, "listener", None) or self.listening.beside
            ),
            question=replace(self.question, is_looked_at=look is not None),
        )

    def open_speech_listener(self) -> SpeechListener | None:
        if not self.settings.speech:
            return None
        from earmark.evidence.speech_listener import SpeechListener, VoiceActivity
        from earmark.evidence.whisper_model import WhisperModel

        activity = VoiceActivity(weights=self.store.find("silero-vad"))
        transcriber = WhisperModel(self.store, language=self.settings.transcription.language)
        transcriber.check()
        return SpeechListener(transcriber, activity)

    def selection_json(self) -> dict[str, Any]:
        listening, settings = self.listening, self.settings
        length = self.objects.get("action_length", settings.listening.action_length)
        return {
            "budget": str(self.budget),
            "rule": rule_name(self.rule),
            "frontline": listening.frontline.name,
            "window": listening.grid.length,
            "across": settings.across,
            "audio_track": listening.audio_track,
            **({} if length is None else {"action_length": str(length)}),
            **{name: list(names) for name, names in asdict(listening.taste).items() if names},
            "earmark": VERSION,
        }

    def run_json(self, model: str) -> dict[str, Any]:
        """The choices that affect answers of `model`; they identify a run."""
        settings = self.settings
        speech = {"speech": settings.speech, "voices": settings.voices}
        speech |= settings.transcription.model_dump(mode="json")
        return {
            **self.selection_json(),
            "model": model,
            "sounds": self.namer.model if self.namer else None,
            "ask": self.question.to_json(),
            **({} if self.rounds == 1 else {"rounds": str(self.rounds)}),
            **({"pictures": False} if settings.evidence.pictures is False else {}),
            **(speech if settings.speech or not settings.voices else {}),
        }


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
    for name in OBJECTS:
        if name in values:
            objects.pop(name, None)
            if not isinstance(values[name], str | float | int | None):
                objects[name] = values.pop(name)
    values.pop("captioner", None)
    if "rule" in objects:
        values["rule"] = rule_name(objects["rule"])
    if "frontline" in objects:
        values["frontline"] = objects["frontline"].spec or objects["frontline"].name
    if isinstance(values.get("budget"), Budget):
        values["budget"] = str(values["budget"])
    listed = _listed(paths) if paths else before.paths if before else ()
    session = _open(Settings.read(values, base), listed, objects)
    return replace(session, namer=before.namer, look=before.look) if before else session


def _open(
    settings: Settings, paths: Sequence[str | Path | Source], objects: Mapping[str, Any]
) -> Session:
    store = model_store(settings.folders.models)
    rule = objects.get("rule") or _make("rule", rule_named, with_own_delta(settings.rule, 2))
    frontline = objects.get("frontline")
    if frontline is None and settings.frontline == AUTO and is_blind(rule):
        frontline = unheard()
    elif frontline is None:
        frontline = _make("frontline", frontline_named, settings.frontline)
    if frontline.spec and settings.frontline != AUTO:  # a gate file by its absolute path
        settings = settings.model_copy(update={"frontline": frontline.spec})
    if "rule" not in objects:  # `separated` may ask for the separation fitted to a gate
        named = _make("rule", with_own_delta, settings.rule, frontline.separation)
        rule = _make("rule", rule_named, named)
    # Some rules fix the budget: a full scan calls on every window.
    fixed_budget: Budget | None = getattr(rule, "fixed_budget", None)
    budget = fixed_budget or _make("budget", Budget.parse, settings.budget)
    rounds = _make("rounds", parse_rounds, settings.rounds)
    shard = settings.backend.shard and _make("shard", Shard.parse, settings.backend.shard)
    if shard and settings.across and budget.count is not None:
        raise InvalidSetting(
            "shard",
            f"{budget} calls over all recordings cannot be split among shards: "
            "give a share such as 20%, or a price such as price=0.4",
        )
    length, folder = settings.listening.action_length, settings.folders.cache
    taste, beside = SoundTaste(settings.sounds.ignore, settings.sounds.favour), None
    if taste:
        from earmark.evidence.sound_names import sound_namer

        beside = getattr(sound_namer(True, folder, store=store), "listener", None)
    lengths = objects.get("action_length")
    if lengths is None and length is not None:
        lengths = _make("action_length", frontline.lengths.told, length)
    return Session(
        settings=settings,
        paths=paths,
        listening=ListenJob(
            frontline,
            Grid(settings.listening.window),
            settings.listening.audio_track,
            ScoreCache(folder) if folder else None,
            lengths,
            beside,
            taste,
        ),
        budget=budget,
        rule=rule,
        rounds=rounds,
        question=_question(settings, store, has_activity=rounds != 1),
        store=store,
        shard=shard or None,
        objects=objects,
    )


def _make(name: str, make: Callable[..., Value], *arguments: Any, **choices: Any) -> Value:
    """What `make` returns; its `ValueError` becomes one about the setting `name`."""
    try:
        return make(*arguments, **choices)
    except (InvalidSetting, EarmarkError):
        raise
    except ValueError as error:
        raise InvalidSetting(name, str(error)) from error


def _question(settings: Settings, store: ModelStore, *, has_activity: bool) -> Question:
    """With `has_activity` its answers also say what is done, which rounds need."""
    chosen, blur = settings.question, None
    if settings.blur == "faces":
        from earmark.evidence.face_blur import FaceBlur

        blur = FaceBlur(store)
    question = _make(
        "prompt",
        Question,
        chosen.prompt or DEFAULT_TEMPLATE,
        chosen.answer_schema,
        chosen.frames,
        chosen.tokens,
        chosen.answer_tokens,
        chosen.temperature,
        blur,
    )
    return question.with_activity() if has_activity else question


def _listed(paths: Any) -> tuple[str | Path | Source, ...]:
    is_one = isinstance(paths, str | bytes | Path | Source) or not isinstance(paths, Iterable)
    listed = (paths,) if is_one else tuple(paths)
    for path in listed:
        if not isinstance(path, str | Path | Source):
            raise ValueError(
                f"{path!r} is not a path: give text, a Path, a Source or a list of them"
            )
    return listed
