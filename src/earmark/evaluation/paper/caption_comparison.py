"""Naming accuracy of captions: one set of moments, captioned in several variants.

    stimuli (annotated actions) ──▶ variants (full frame, hands, sounds, tokens) ──▶ ask ──▶ named?

Every variant captions the same moments, so two variants are compared in pairs by McNemar's exact
test.
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
"""Visual tokens of a call unless a variant sets another number."""


@dataclass(frozen=True, slots=True)
class CaptionVariant:
    """One way to ask for a caption."""

    name: str
    tokens: int = TOKENS
    crops_hands: bool = False
    """Show a crop around the hands instead of the full frame."""
    mentions_sounds: bool = False
    """Name the sounds in the prompt."""
    is_deployed: bool = False
    """Show the frame that a run would choose instead of the middle of the action."""


def list_variants(
    *, tokens: Sequence[int] = (), hands: bool = False, sounds: bool = False, base: int = TOKENS
) -> list[CaptionVariant]:
    """The full frame, then every requested variant; each differs from it in one setting."""
    made = [CaptionVariant("full frame", base)]
    made += [CaptionVariant("hand crop", base, crops_hands=True)] if hands else []
    made += [CaptionVariant("sounds told", base, mentions_sounds=True)] if sounds else []
    others = dict.fromkeys(each for each in tokens if each != base)
    return made + [CaptionVariant(f"{each} tokens", each) for each in others]


Crop = Callable[[Frame], Frame | None]
"""Crops a frame to its hands; None if it finds none."""

Tags = Callable[[Recording, Sequence[Span]], list[tuple[str, ...]]]
"""Names of the sounds in each span."""

VariantProgress = Callable[[str, int, int], None]
"""Called with the name of the variant, the number of finished stimuli, and of all stimuli."""


def tag_sounds(recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
    """Sound names by the first installed AudioSet model: the paper's BEATs first, YAMNet last."""
    namer = sound_namer(True, None)
    assert namer is not None, "it is wanted"
    return namer.encoder.tags(recording, spans)


@dataclass(frozen=True, slots=True)
class CaptionTools:
    """What captioning needs: the captioner, its settings, and the log of captions."""

    captioner: Captioner
    prompt: Prompt = field(default_factory=Prompt)
    limits: Limits = field(default_factory=Limits)
    crop: Crop = field(default_factory=HandCrop)
    tags: Tags = tag_sounds
    answer_tokens: int = 256
    blur: FaceBlur | None = None
    """Blurs faces in the frames that are sent; None for no blur."""
    log: CaptionLog = field(default_factory=CaptionLog)
    """Requests with a caption in the log are not asked again."""
    progress: VariantProgress = lambda *_: None
    instants: Mapping[Stimulus, float] = field(default_factory=dict)
    """The time a run would show of each stimulus, for variants of the deployed frame."""
    has_hands: bool = False
    """Whether the hand crop was requested."""
    has_sounds: bool = False
    """Whether sounds in the prompt were requested."""

    def moment(self, stimulus: Stimulus, variant: CaptionVariant) -> float:
        """The time of the frame that `variant` shows of `stimulus`."""
        own = self.instants.get(stimulus) if variant.is_deployed else None
        return stimulus.time if own is None else own


@dataclass(frozen=True, slots=True)
class VariantScore:
    """The result of one variant."""

    variant: CaptionVariant
    captions: Mapping[Stimulus, Caption]
    noun_named: Mapping[Stimulus, bool]
    """Whether the caption of each stimulus names its noun."""
    verb_named: Mapping[Stimulus, bool]
    noun_p: float
    """McNemar's p against the first variant on stimuli with both captions; nan for the first."""
    verb_p: float
    failures: tuple[str, ...]
    """Reasons of failed calls, one line each; they count neither as named nor as unnamed."""

    @property
    def nouns(self) -> NamingCounts:
        """How often the noun is named."""
        return NamingCounts.of(self.noun_named.values())

    @property
    def verbs(self) -> NamingCounts:
        """How often the verb is named."""
        return NamingCounts.of(self.verb_named.values())

    @property
    def failed(self) -> int:
        """The number of failed calls."""
        return len(self.failures)

    @property
    def uncropped(self) -> int:
        """The number of frames shown in full because no hand was found."""
        return sum(caption.is_whole for caption in self.captions.values())

    @property
    def prompt_tokens(self) -> float:
        """Mean prompt tokens of a call; nan if the server does not report them."""
        said = [caption.prompt_tokens for caption in self.captions.values()]
        return mean(tokens for tokens in said if tokens is not None)

    def to_json(self) -> dict[str, Any]:
        """The score as JSON values; null for nan."""
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
    """Caption every stimulus in every variant; one score per variant, compared with the first.

    Everything needed is checked before the first call.

    Raises:
        AnnotationError: a stimulus has no recording, or lies outside it.
        CallError: the model cannot be reached. A single failed call is counted, not raised.
        ModelMissing: a variant needs a network whose weights are missing.
    """
    check_inside(stimuli, recordings)
    if any(variant.crops_hands for variant in variants):
        tools.crop(Frame(0.0, np.zeros((64, 64, 3), np.uint8)))  # raises without its weights
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
    """The sound names around each stimulus; every recording is decoded once."""
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
    """One variant on all stimuli."""

    variant: CaptionVariant
    tools: CaptionTools
    recordings: Mapping[str, Recording]
    heard: Mapping[Stimulus, tuple[str, ...]]
    captions: dict[Stimulus, Caption] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _about: dict[str, list[Stimulus]] = field(default_factory=dict)
    """By request identity: actions around the same moment may share a request."""
    _whole: set[str] = field(default_factory=set)
    _count: int = 0

    def ask(self, stimuli: Sequence[Stimulus]) -> None:
        """Ask about each stimulus without a caption; frames are decoded just before their call."""
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
        """Do nothing: unanswered requests are asked again in the next run."""

    withdraw = lost = begin

    def together(self) -> AbstractContextManager[None]:
        """Do nothing: the log has no transactions."""
        return nullcontext()

    def answered(self, request: Request, answer: Answer) -> None:
        """Log the caption for all stimuli of the request."""
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
        """Record the reason for all stimuli of the request."""
        self.failures += [failure.reason] * len(self._about[failure.request.identity])
        self._report()

    def _report(self) -> None:
        done = len(self.captions) + len(self.failures)
        self.tools.progress(self.variant.name, done, self._count)

    def _take(self, caption: Caption) -> None:
        for each in self._about[caption.identity]:
            self.captions[each] = replace(caption, variant=self.variant.name, stimulus=each)

    def _shown(self, waiting: Sequence[Request]) -> Iterator[Request | Failure]:
        """The requests with their frames; a `Failure` if a frame cannot be decoded."""
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
        """The request for a stimulus; a cropped frame has the variant's name in its identity."""
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
    """The frame that `variant` shows at `at`, and whether no hand was found to crop to."""
    (frame,) = recording.frames([at])
    if not variant.crops_hands:
        return frame, False
    cut = crop(frame)
    return replace(cut or frame, time=frame.time), cut is None


def compare_named(first: Mapping[Stimulus, bool], second: Mapping[Stimulus, bool]) -> float:
    """McNemar's exact p on the stimuli that both have captions for."""
    pairs = [(first[each], second[each]) for each in first.keys() & second.keys()]
    return mcnemar(pairs.count((True, False)), pairs.count((False, True)))
