"""Whether captions name what is done: one set of moments, asked about in several ways.

    stimuli (annotated actions) ──▶ variants (full frame, hands, sounds, tokens) ──▶ ask ──▶ named?

Every variant is asked about the same moments, so two of them are held against each other pair by
pair, by McNemar's exact test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np

from earmark.captioning.captioner import Captioner
from earmark.captioning.dispatch import dispatch
from earmark.captioning.hand_crop import HandCrop
from earmark.captioning.limits import Limits
from earmark.captioning.prompt import Prompt
from earmark.captioning.request import Answer, Request
from earmark.captioning.usage import Failure
from earmark.errors import MediaError, NoAudioStream
from earmark.evaluation.metrics.significance import mcnemar
from earmark.evaluation.paper.captions import (
    Caption,
    CaptionLog,
    NamingCounts,
    Stimulus,
    Vocabulary,
    check_inside,
)
from earmark.evaluation.tables.table import mean, plain
from earmark.evidence.face_blur import FaceBlur
from earmark.evidence.sound_names import sound_namer
from earmark.media import Frame, Recording
from earmark.timeline import Span

TOKENS = 1024
"""Visual tokens of a call unless a variant says otherwise."""


@dataclass(frozen=True, slots=True)
class CaptionVariant:
    """One way of asking."""

    name: str
    tokens: int = TOKENS
    crops_hands: bool = False
    """Show what the hands reach instead of the full frame."""
    mentions_sounds: bool = False
    """Say in the prompt what is heard."""
    is_deployed: bool = False
    """Show the frame a run would choose instead of the one in the middle of the action."""


def list_variants(
    *, tokens: Sequence[int] = (), hands: bool = False, sounds: bool = False, base: int = TOKENS
) -> list[CaptionVariant]:
    """The full frame first, then every variant asked for: one thing changes at a time."""
    made = [CaptionVariant("full frame", base)]
    made += [CaptionVariant("hand crop", base, crops_hands=True)] if hands else []
    made += [CaptionVariant("sounds told", base, mentions_sounds=True)] if sounds else []
    others = dict.fromkeys(each for each in tokens if each != base)
    return made + [CaptionVariant(f"{each} tokens", each) for each in others]


Crop = Callable[[Frame], Frame | None]
"""Cuts a frame to its hands; None where it finds none."""

Tags = Callable[[Recording, Sequence[Span]], list[tuple[str, ...]]]
"""What is heard in each span, in words."""

VariantProgress = Callable[[str, int, int], None]
"""Called with the variant at work, how many of its stimuli are done and how many there are."""


def tag_sounds(recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
    """What is heard, by the AudioSet head that is here: the paper's BEATs first, YAMNet last."""
    namer = sound_namer(True, None)
    assert namer is not None, "it is wanted"
    return namer.encoder.tags(recording, spans)


@dataclass(frozen=True, slots=True)
class CaptionTools:
    """What asking takes: whom, how, and where answers are kept."""

    captioner: Captioner
    prompt: Prompt = field(default_factory=Prompt)
    limits: Limits = field(default_factory=Limits)
    crop: Crop = field(default_factory=HandCrop)
    tags: Tags = tag_sounds
    answer_tokens: int = 256
    blur: FaceBlur | None = None
    """What is blurred in what is sent; nothing if None."""
    log: CaptionLog = field(default_factory=CaptionLog)
    """What is answered there already is not asked again."""
    progress: VariantProgress = lambda *_: None
    instants: Mapping[Stimulus, float] = field(default_factory=dict)
    """When a run would look at each stimulus, for variants of the deployed frame."""
    has_hands: bool = False
    """Whether hands can be found."""
    has_sounds: bool = False
    """Whether sounds can be named."""

    def moment(self, stimulus: Stimulus, variant: CaptionVariant) -> float:
        """When the picture that `variant` shows of `stimulus` was taken."""
        own = self.instants.get(stimulus) if variant.is_deployed else None
        return stimulus.time if own is None else own


@dataclass(frozen=True, slots=True)
class VariantScore:
    """How one variant did."""

    variant: CaptionVariant
    captions: Mapping[Stimulus, Caption]
    noun_named: Mapping[Stimulus, bool]
    """Whether its caption says the noun of each stimulus."""
    verb_named: Mapping[Stimulus, bool]
    noun_p: float
    """McNemar against the first variant on what both answered; nan for the first itself."""
    verb_p: float
    failures: tuple[str, ...]
    """Why calls have no answer, a line each; they count neither for nor against."""

    @property
    def nouns(self) -> NamingCounts:
        """How often the noun is said."""
        return NamingCounts.of(self.noun_named.values())

    @property
    def verbs(self) -> NamingCounts:
        """How often the verb is said."""
        return NamingCounts.of(self.verb_named.values())

    @property
    def failed(self) -> int:
        """Calls without an answer."""
        return len(self.failures)

    @property
    def uncropped(self) -> int:
        """Frames shown whole because no hand was found."""
        return sum(caption.is_whole for caption in self.captions.values())

    @property
    def prompt_tokens(self) -> float:
        """Mean of a call; nan where the server does not say."""
        said = [caption.prompt_tokens for caption in self.captions.values()]
        return mean(tokens for tokens in said if tokens is not None)

    def to_json(self) -> dict[str, Any]:
        """Plain values; null where nothing was answered or there is no comparison."""
        names = ("variant", "tokens", "hand_crop", "sounds_told", "deployed_frame")
        values = {
            **dict(zip(names, astuple(self.variant), strict=True)),
            "answered": self.nouns.asked,
            "failed": self.failed,
            "uncropped": self.uncropped,
            "nouns_named": self.nouns.named,
            "verbs_named": self.verbs.named,
            "noun_accuracy": self.nouns.accuracy,
            "verb_accuracy": self.verbs.accuracy,
            "noun_p": self.noun_p,
            "verb_p": self.verb_p,
            "mean_prompt_tokens": self.prompt_tokens,
        }
        return {name: plain(value) for name, value in values.items()}


def compare(
    stimuli: Sequence[Stimulus],
    recordings: Mapping[str, Recording],
    variants: Sequence[CaptionVariant],
    tools: CaptionTools,
    *,
    nouns: Vocabulary,
    verbs: Vocabulary,
) -> list[VariantScore]:
    """Ask about every stimulus in every way; one score per variant, held against the first.

    All that can be missing is looked for before the first call.

    Raises:
        AnnotationError: a stimulus has no recording, or lies outside it.
        CallError: the model cannot be asked. A single failed call is counted, not raised.
        ModelMissing: a variant needs a network whose weights are not here.
    """
    check_inside(stimuli, recordings)
    if any(variant.crops_hands for variant in variants):
        tools.crop(Frame(0.0, np.zeros((64, 64, 3), np.uint8)))  # its weights, or what is amiss
    tools.captioner.check()
    heard: dict[Stimulus, tuple[str, ...]] = {}
    if any(variant.mentions_sounds for variant in variants):
        heard = _tag_stimuli(stimuli, recordings, tools)
    scores: list[VariantScore] = []
    for variant in variants:
        run = _VariantRun(variant, tools, recordings, heard if variant.mentions_sounds else {})
        run.ask(stimuli)
        said = run.captions.items()
        by_noun = {each: nouns.mentions(caption.text, each.noun) for each, caption in said}
        by_verb = {each: verbs.mentions(caption.text, each.verb) for each, caption in said}
        noun_p = compare_named(scores[0].noun_named, by_noun) if scores else math.nan
        verb_p = compare_named(scores[0].verb_named, by_verb) if scores else math.nan
        named = (by_noun, by_verb, noun_p, verb_p)
        scores.append(VariantScore(variant, run.captions, *named, tuple(run.failures)))
    return scores


def _tag_stimuli(
    stimuli: Sequence[Stimulus], recordings: Mapping[str, Recording], tools: CaptionTools
) -> dict[Stimulus, tuple[str, ...]]:
    """What is heard around each stimulus; every recording is listened to once."""
    heard: dict[Stimulus, tuple[str, ...]] = {}
    for name in dict.fromkeys(each.recording for each in stimuli):
        own = [each for each in stimuli if each.recording == name]
        if not recordings[name].has_audio:
            raise NoAudioStream(f"{name} has no audio stream, so no sounds can be told of it")
        tags = tools.tags(recordings[name], [each.window for each in own])
        heard |= dict(zip(own, tags, strict=True))
    return heard


@dataclass(slots=True)
class _VariantRun:
    """One variant asked about all stimuli."""

    variant: CaptionVariant
    tools: CaptionTools
    recordings: Mapping[str, Recording]
    heard: Mapping[Stimulus, tuple[str, ...]]
    captions: dict[Stimulus, Caption] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _about: dict[str, list[Stimulus]] = field(default_factory=dict)
    """By identity: actions around the same moment may be one question."""
    _whole: set[str] = field(default_factory=set)
    _count: int = 0

    def ask(self, stimuli: Sequence[Stimulus]) -> None:
        """Ask about each that has no answer yet; frames are decoded as calls come free."""
        self._count = len(stimuli)
        waiting: dict[str, Request] = {}
        for each in stimuli:
            request = self._request(each)
            self._about.setdefault(request.identity, []).append(each)
            waiting[request.identity] = request
        for identity in waiting.keys() & self.tools.log.captions.keys():
            self._take(self.tools.log.captions[identity])
            del waiting[identity]
        self._report()
        tally = dispatch(
            self._shown([*waiting.values()]), self.tools.captioner, self.tools.limits, self
        )
        if tally.stopped:
            every = [each for about in self._about.values() for each in about]
            left = sum(each not in self.captions for each in every) - len(self.failures)
            self.failures += [f"stopped: {tally.stopped}"] * left

    def begin(self, request: Request) -> None:
        """Nothing to note: what is not answered is asked again next time."""

    withdraw = lost = begin

    def together(self) -> AbstractContextManager[None]:
        """Nothing is gained by it here."""
        return nullcontext()

    def answered(self, request: Request, answer: Answer) -> None:
        """Keep what the model said, for all stimuli it is about."""
        caption = Caption(
            variant=self.variant.name,
            stimulus=self._about[request.identity][0],
            text=answer.text,
            prompt_tokens=answer.prompt_tokens,
            sounds=request.tags,
            is_whole=request.identity in self._whole,
            identity=request.identity,
        )
        self.tools.log.add(caption)
        self._take(caption)
        self._report()

    def failed(self, failure: Failure) -> None:
        """Count the stimuli that stay without a caption."""
        self.failures += [failure.reason] * len(self._about[failure.request.identity])
        self._report()

    def _report(self) -> None:
        done = len(self.captions) + len(self.failures)
        self.tools.progress(self.variant.name, done, self._count)

    def _take(self, caption: Caption) -> None:
        for each in self._about[caption.identity]:
            self.captions[each] = replace(caption, variant=self.variant.name, stimulus=each)

    def _shown(self, waiting: Sequence[Request]) -> Iterator[Request | Failure]:
        """The requests with their frames; one whose frame cannot be decoded has failed."""
        for request in waiting:
            stimulus = self._about[request.identity][0]
            try:
                at = self.tools.moment(stimulus, self.variant)
                recording = self.recordings[stimulus.recording]
                frame, is_whole = show(recording, at, self.variant, self.tools.crop)
            except MediaError as error:
                yield Failure(request, str(error), attempts=0)
                continue
            if is_whole:
                self._whole.add(request.identity)
            yield request.showing([frame])

    def _request(self, each: Stimulus) -> Request:
        """A variant that shows another picture is another question: its name is in the identity."""
        key, tags = self.recordings[each.recording].key, self.heard.get(each, ())
        times = (self.tools.moment(each, self.variant),)
        return Request(
            recording=f"{key} {self.variant.name}" if self.variant.crops_hands else key,
            span=each.window,
            times=times,
            prompt=self.tools.prompt.render(each.window, times=times, tags=tags),
            model=self.tools.captioner.model,
            tokens=self.variant.tokens,
            tags=tags,
            schema=self.tools.prompt.schema,
            answer_tokens=self.tools.answer_tokens,
            blur=self.tools.blur,
        )


def show(
    recording: Recording, at: float, variant: CaptionVariant, crop: Crop
) -> tuple[Frame, bool]:
    """What `variant` shows of the moment `at`, and whether that is whole for want of a hand."""
    (frame,) = recording.frames([at])
    if not variant.crops_hands:
        return frame, False
    cut = crop(frame)
    return replace(cut or frame, time=frame.time), cut is None


def compare_named(first: Mapping[Stimulus, bool], second: Mapping[Stimulus, bool]) -> float:
    """McNemar's exact p on the stimuli both answered."""
    pairs = [(first[each], second[each]) for each in first.keys() & second.keys()]
    return mcnemar(pairs.count((True, False)), pairs.count((False, True)))
