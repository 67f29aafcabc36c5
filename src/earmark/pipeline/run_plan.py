"""The plan of a run: every choice in one typed object, for the command line and for Python.

names and numbers ──▶ make_plan ──▶ Plan ──▶ select, forecast, caption
                                     └─▶ to_json, stored with every result
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from earmark.captioning.limits import Limits
from earmark.captioning.model_choice import ModelChoice
from earmark.captioning.prompt import Prompt
from earmark.captioning.question import Question
from earmark.captioning.speech_plan import SpeechPlan
from earmark.gate.forecast_error import ForecastError
from earmark.gate.frontline import UNHEARD, Frontline, unheard
from earmark.gate.frontline_registry import AUTO, frontline_named
from earmark.gate.score_cache import ScoreCache
from earmark.gate.survival import Survival
from earmark.grid import Grid
from earmark.media import Source, find
from earmark.media.source import absolute_path
from earmark.models import ModelStore
from earmark.redaction import redact, redact_url
from earmark.selection import (
    Budget,
    Coverage,
    Rule,
    is_blind,
    places_freely,
    rule_name,
    rule_named,
)
from earmark.version import VERSION

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.evidence.picture_evidence import PictureEvidence
    from earmark.evidence.sound_listener import SoundListener
    from earmark.evidence.sound_names import SoundNamer
    from earmark.media.shard import Shard
    from earmark.selection.cost_forecast import Forecast
    from earmark.selection.round_schedule import Rounds

Paths = str | Path | Source | Sequence[str | Path | Source]
"""Files, folders, globs, addresses and manifests."""


@dataclass(frozen=True, slots=True)
class ListenPlan:
    """All choices that affect the windows of a recording, and the cache of their scores."""

    frontline: Frontline = field(default_factory=unheard)
    grid: Grid = field(default_factory=Grid)
    audio_track: int = 0
    cache: ScoreCache | None = None
    beside: SoundListener | None = None
    """Names sounds in the same pass over the audio, if its results can be stored."""
    action_length: float | Survival | None = None
    """How long actions last: the median in seconds, or the whole survival curve. The curve of the
    frontline if not given."""

    @property
    def survival(self) -> Survival:
        """The survival curve of actions, for choosing windows and forecasting coverage."""
        curve = self.frontline.survival
        if isinstance(self.action_length, Survival):
            return self.action_length
        return curve if self.action_length is None else curve.stretched(self.action_length)


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """The backend by name, and all its options."""

    engine: str = "local"
    """A name in `earmark.pipeline.backend.BACKENDS`."""
    workers: int | None = None
    """Number of workers, 1 or more; None for one per core."""
    address: str | None = None
    """Address of a Ray cluster; None starts one on this machine."""
    batch: Path | None = None
    """The file to which the backend `batch` writes its requests."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch", None if self.batch is None else Path(self.batch))
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers are 1 or more, not {self.workers}")
        if self.address is not None and self.engine == "local":
            raise ValueError(
                f"--address {self.address} needs --engine ray (in Python: engine='ray')"
            )
        if self.batch is not None and self.engine != "batch":
            raise ValueError(
                f"--batch {self.batch} needs --engine batch: without it calls are made "
                "(in Python: engine='batch')"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every choice of a run."""

    listening: ListenPlan = field(default_factory=ListenPlan)
    """How to listen."""
    budget: Budget = field(default_factory=lambda: Budget(share=0.25))
    rule: Rule = field(default_factory=Coverage)
    across: bool = False
    """Whether all recordings share one budget, spent at one price; else each has its own."""
    rounds: Rounds | Literal[1] = 1
    """Number of rounds of calls; the answers of one round steer the choice of the next."""
    model_choice: ModelChoice = field(default_factory=ModelChoice)
    """The model to ask; none by default."""
    captioner: Captioner | None = None
    """An object to ask, instead of `model_choice`."""
    question: Question = field(default_factory=Question)
    """How each window is shown to the model, and what it is asked."""
    limits: Limits = field(default_factory=Limits)
    """Concurrency, retries, prices and caps of the calls."""
    sounds: bool | None = False
    """Whether to name the sounds in a window; None does if the model for it is installed."""
    pictures: bool | None = None
    """Whether to name text and objects in frames; None does if a model for it is installed."""
    speech_plan: SpeechPlan = field(default_factory=SpeechPlan)
    """Whether and how to transcribe speech."""
    namer: SoundNamer | None = None
    """An object that names sounds, instead of what `sounds` chooses."""
    look: PictureEvidence | None = None
    """An object that names text and objects in frames, instead of what `pictures` chooses."""
    store: ModelStore = field(default_factory=ModelStore)
    """The folder of model files."""
    backend: BackendOptions = field(default_factory=BackendOptions)
    """Which processes or machines do the work."""
    shard: Shard | None = None
    """The part of the recordings to work on; all of them if not given."""
    paths: Sequence[str | Path | Source] = ()
    """The recordings to work on."""
    forecast: Forecast | None = field(default=None, compare=False)
    """Expected coverage and cost of budgets; only `earmark.plan` sets it."""

    def sources(self, *, allow_none: bool = False) -> list[Source]:
        """The recordings to work on; only those of the shard if there is one.

        None is an error unless `allow_none`: what failed may be deleted before it is tried again,
        and a server may show runs only.

        Raises:
            ValueError: no path was given.
        """
        if not self.paths and not allow_none:
            raise ValueError("no recording was given: name a file, a folder, a glob or an address")
        part = self.shard
        found = [one for one in find(self.paths) if part is None or part.holds(one)]
        if self.backend.engine in HERE:
            return found
        # A worker may have been started in another folder.
        return [replace(one, uris=tuple(map(absolute_path, one.uris))) for one in found]

    @property
    def forecast_error(self) -> ForecastError | None:
        """The measured error of forecasts; None if not measured for this rule and frontline."""
        return self.listening.frontline.error if isinstance(self.rule, Coverage) else None

    def open_captioner(self, *, api_key: str | None = None) -> Captioner:
        """The captioner of the plan, ready for calls; `api_key` is for a server that needs one.

        Raises:
            ModelMissing: faces are to be blurred, and the model that finds them is not here.
        """
        if self.question.blur:
            self.question.blur.check()
        tokens = self.question.tokens + self.question.answer_tokens
        asked = self.captioner or self.model_choice.captioner(
            concurrency=self.limits.concurrency, tokens=tokens, api_key=api_key
        )
        if self.look is None:
            return asked
        from earmark.captioning.wrapped_captioner import EvidenceCaptioner

        return EvidenceCaptioner(asked, self.look)

    def with_evidence(self) -> Plan:
        """The plan with the models that it asks for to name sounds, text and objects.

        Sounds are named in the same pass as listening, and the question records whether frames are
        searched for text and objects.

        Raises:
            ModelMissing: the plan requires a model that is not here.
        """
        cache, store = self.listening.cache, self.store
        folder = cache.folder if cache else None
        namer, look = self.namer, self.look
        if namer is None and self.sounds is not False:
            from earmark.evidence.sound_names import sound_namer

            namer = sound_namer(self.sounds, folder, store=store)
        if look is None and self.pictures is not False:
            from earmark.evidence.picture_evidence import picture_evidence

            look = picture_evidence(self.pictures, store)
        return replace(
            self,
            namer=namer,
            look=look,
            listening=replace(self.listening, beside=getattr(namer, "listener", None)),
            question=replace(self.question, is_looked_at=look is not None),
        )

    def to_json(self) -> dict[str, Any]:
        """Every choice as values for JSON; `from_json` makes the same plan from them.

        Raises:
            ValueError: the plan holds an object that JSON cannot represent.
        """
        if self.captioner or self.namer or self.look:
            raise ValueError(
                "a plan with a captioner or namer of your own cannot be saved; choose a model by "
                "server, gguf, transformers or replay instead"
            )
        listening, length, batch = self.listening, self.listening.action_length, self.backend.batch
        heard = listening.frontline
        rule_fields: Sequence[Any] = fields(self.rule) if is_dataclass(self.rule) else ()
        options = {each.name: getattr(self.rule, each.name) for each in rule_fields}
        return {
            "paths": [asdict(one) if isinstance(one, Source) else str(one) for one in self.paths],
            "budget": str(self.budget),
            "rule": {"name": rule_name(self.rule), **options},
            "frontline": AUTO if heard.fallback else heard.spec or heard.name,
            "window": listening.grid.length,
            "placement": listening.grid.placement,
            "audio_track": listening.audio_track,
            "action_length": asdict(length) if isinstance(length, Survival) else length,
            "cache": str(listening.cache.folder) if listening.cache else None,
            "across": self.across,
            "rounds": str(self.rounds),
            "model_choice": self.model_choice.to_json(),
            "question": self.question.to_json(),
            "limits": asdict(self.limits),
            "sounds": self.sounds,
            "pictures": self.pictures,
            "speech_plan": self.speech_plan.to_json(),
            "backend": asdict(self.backend) | {"batch": batch and str(batch)},
            "shard": self.shard and str(self.shard),
            "store": str(self.store.folder),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Plan:
        """The plan whose `to_json` is `plain`."""
        chosen = dict(plain)
        rule = dict(chosen.pop("rule"))
        named = chosen.pop("frontline")
        if isinstance(length := chosen.get("action_length"), Mapping):
            chosen["action_length"] = Survival(tuple(length["times"]), tuple(length["shares"]))
        paths = [
            Source(**{**one, "uris": tuple(one["uris"])}) if isinstance(one, Mapping) else one
            for one in chosen.pop("paths")
        ]
        return make_plan(
            paths,
            rule=rule_named(rule.pop("name"), **rule),
            frontline=unheard() if named == UNHEARD else named,
            model_choice=ModelChoice(**chosen.pop("model_choice")),
            question=Question.from_json(chosen.pop("question")),
            limits=Limits(**chosen.pop("limits")),
            backend=BackendOptions(**chosen.pop("backend")),
            speech_plan=SpeechPlan(**chosen.pop("speech_plan", {})),
            store=ModelStore.at(Path(chosen.pop("store"))),
            **chosen,
        )

    def selection_json(self) -> dict[str, Any]:
        """The choices that affect which windows are chosen, as values for JSON.

        `action_length` and `placement` are left out if they are the defaults.
        """
        heard, action_length = self.listening, self.listening.action_length
        return {
            "budget": str(self.budget),
            "rule": rule_name(self.rule),
            "frontline": heard.frontline.name,
            "window": heard.grid.length,
            "across": self.across,
            "audio_track": heard.audio_track,
            **({} if action_length is None else {"action_length": str(action_length)}),
            **({} if heard.grid.placement == "grid" else {"placement": heard.grid.placement}),
            "earmark": VERSION,
        }

    def run_json(self, model: str) -> dict[str, Any]:
        """The choices that affect answers of `model`, for JSON; they identify it in the ledger."""
        return {
            **self.selection_json(),
            "model": model,
            "sounds": self.namer.model if self.namer else None,
            "ask": self.question.to_json(),
            **({} if self.rounds == 1 else {"rounds": str(self.rounds)}),
            **({"pictures": False} if self.pictures is False else {}),
            **({} if self.speech_plan == SpeechPlan() else self.speech_plan.to_json()),
        }


def make_plan(paths: Paths = (), plan: Plan | None = None, **choices: Any) -> Plan:
    """A plan from names and numbers, or `plan` with other `paths` and `choices`.

    Args:
        paths: Files, folders, globs, addresses and manifests, or one of them.
        plan: The plan to change; a plan of defaults if not given.
        choices: The fields of `Plan` by name. The fields of its parts can be given directly:
            `frontline`, `window`, `placement`, `audio_track`, `action_length`, `cache` (of
            listening); `server`, `model`, `gguf`, … (of the model); `frames`, `tokens`, `blur`, …
            (of the question); `concurrency`, `max_spend`, … (of the limits); `engine`, `workers`,
            `address` (of the backend). Budgets, rules, frontlines and shards may be written as on
            the command line; `rounding` says how a share becomes calls. With a rule that ignores
            scores nothing is listened to, unless a frontline is given by name.

    Raises:
        ValueError: a name is unknown or a number out of range; the message lists valid names.
    """
    chosen = typed_choices({"plan": plan, **choices})
    del chosen["plan"]
    chosen |= {"paths": _listed(paths)} if paths else {}
    rule = chosen["rule"] = rule_named(chosen.get("rule", plan.rule if plan else DEFAULT_RULE))
    budget = Budget.parse(chosen.get("budget", plan.budget if plan else DEFAULT_BUDGET))
    budget = replace(budget, rounding=chosen.pop("rounding", None) or budget.rounding)
    # Some rules fix the budget: a full scan calls on every window.
    chosen["budget"] = getattr(rule, "fixed_budget", None) or budget
    if "frontline" in chosen or (plan is None and "listening" not in chosen):
        named = chosen.get("frontline", AUTO)
        is_unheard = named == AUTO and is_blind(rule)
        chosen["frontline"] = unheard() if is_unheard else frontline_named(named)
    if "rounds" in chosen:
        rounds = chosen["rounds"]
        chosen["rounds"] = 1 if rounds in (1, "1") else _read_rounds(rounds)
    if chosen.keys() & {"window", "placement"}:
        grid = chosen.get("grid") or (plan.listening.grid if plan else Grid())
        length = chosen.pop("window", grid.length)
        chosen["grid"] = Grid(length, chosen.pop("placement", grid.placement))
    if chosen.get("shard") is not None:
        from earmark.media.shard import Shard

        chosen["shard"] = Shard.parse(str(chosen["shard"]))
    if isinstance(chosen.get("cache"), str | Path):
        chosen["cache"] = ScoreCache(Path(chosen["cache"]))
    fitted = chosen["frontline"].separation if "frontline" in chosen else None
    if choices.get("rule") == "separated" and fitted:  # the distance fitted to its scores
        chosen["rule"] = rule_named("separated", separation=fitted)
    for part, kind in PARTS.items():
        given = {each.name: chosen.pop(each.name) for each in fields(kind) if each.name in chosen}
        if given:
            base = chosen.get(part) or getattr(plan, part, None)
            chosen[part] = replace(base, **given) if base else kind(**given)
    unknown = chosen.keys() - {each.name for each in fields(Plan)}
    if unknown:
        raise ValueError(f"a plan has no {min(unknown)!r}; see earmark.make_plan for what it has")
    made = replace(plan, **chosen) if plan else Plan(**chosen)
    _check(made)
    # Rounds need the activity in each answer.
    question = made.question if made.rounds == 1 else made.question.with_activity()
    blur = question.blur and replace(question.blur, store=made.store)
    return replace(made, question=replace(question, blur=blur))


def _listed(paths: Paths) -> tuple[str | Path | Source, ...]:
    """The paths as a tuple, also of a single path; `ValueError` for what is no path."""
    if isinstance(paths, str | Path | Source):
        return (paths,)
    given: Any = paths
    is_many = isinstance(given, Iterable) and not isinstance(given, bytes)
    every = tuple(given) if is_many else (given,)
    for one in every:
        if not isinstance(one, str | Path | Source):
            raise ValueError(f"{one!r} is no path: give text, a Path, a Source or a list of them")
    return every


def _read_rounds(given: str | int | Rounds | None) -> Rounds | Literal[1]:
    """`given` as `Rounds`, or 1 for a single round; `ValueError` if it is no number of rounds."""
    from earmark.selection.round_schedule import Rounds

    rounds = Rounds.parse(given if given is None else str(given))
    return 1 if rounds.is_one else rounds


def typed_choices(choices: Mapping[str, Any]) -> dict[str, Any]:
    """The choices, with numbers of NumPy as those of Python, which can be written down.

    Raises:
        ValueError: a choice is not of the type it is declared with.
    """
    for name in choices.keys() & DECLARED.keys():
        parts = DECLARED[name].split(" | ")
        known = [TYPES[part] for part in parts if part in TYPES]
        if len(known) == len(parts) and not isinstance(choices[name], tuple(dict(known))):
            taken = " or ".join(words for _, words in known)
            raise ValueError(f"{name} takes {taken}, not {redact(repr(choices[name]))}")
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in choices.items()
    }


def _check(plan: Plan) -> None:
    """Raise `ValueError` now, before hours of listening, if `plan` cannot be executed."""
    if plan.listening.audio_track < 0:
        raise ValueError(f"audio tracks are counted from 0, not {plan.listening.audio_track}")
    if plan.listening.grid.placement == "free" and not places_freely(plan.rule):
        raise ValueError(
            f"the rule {rule_name(plan.rule)} chooses windows of the grid; "
            "--placement free needs the rule coverage (in Python: rule='coverage')"
        )
    if plan.backend.engine == "batch" and plan.model_choice == ModelChoice() and not plan.captioner:
        raise ValueError(
            "--engine batch needs to know whom to ask: give --vlm URL --model NAME "
            "(in Python: server=URL, model=NAME)"
        )
    length = plan.listening.action_length
    if not isinstance(length, Real | Survival | None):
        raise ValueError(
            f"action_length is seconds, not {str(length)!r}; `read_action_length` of "
            "earmark.evaluation.annotations.readers makes it of a file of marks"
        )
    _ = plan.listening.survival  # raises if the length is invalid
    speech = plan.speech_plan
    if speech.speech and not speech.voices:
        raise ValueError(
            "--speech writes down what --no-voices forbids: give one of them "
            "(in Python: speech=True or voices=False)"
        )
    if speech.transcriber is not None and not speech.speech:
        raise ValueError(
            f"--transcriber {redact_url(speech.transcriber)} needs --speech "
            "(in Python: speech=True)"
        )
    if plan.shard and plan.across and plan.budget.count is not None:
        raise ValueError(
            f"{plan.budget} calls over all recordings cannot be split among shards: "
            "give a share such as 20%, or a price such as price=0.4"
        )


PARTS: Mapping[str, Any] = {
    "listening": ListenPlan,
    "model_choice": ModelChoice,
    "question": Question,
    "limits": Limits,
    "speech_plan": SpeechPlan,
    "backend": BackendOptions,
}
"""Parts of a plan whose fields `make_plan` accepts one by one."""

DECLARED: Mapping[str, str] = {
    **{each.name: str(each.type) for kind in (Plan, *PARTS.values()) for each in fields(kind)},
    "plan": "Plan | None",
    "window": "float",
    "calls": "int",
    "temperature": "a number or its text",  # which the question reads
}
"""The type of each choice, as its field declares it."""

TYPES: Mapping[str, tuple[Any, str]] = {
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "bool": (bool, "True or False"),
    "str": (str, "text"),
    "Path": (str | Path, "a path"),
    "None": (type(None), "None"),
    "ScoreCache": (str | Path | ScoreCache, "a folder"),
    "Frontline": (str | Frontline, "the name of a frontline"),
    "Rule": (str | Callable, "the name of a rule"),
    "Captioner": (Callable, "a captioner"),
    **{
        kind.__name__: (kind, f"a {kind.__name__} of {kind.__module__}")
        for kind in (Plan, Grid, Prompt, ModelStore, *PARTS.values())
    },
}
"""What a choice of each type may be given as, and the words for it; other types are not checked."""

HERE = ("local", "batch")
"""Backends that resolve relative paths as this process does."""

DEFAULT_RULE = "coverage"
DEFAULT_BUDGET = "25%"
