"""Naming accuracy of captions: one set of moments, captioned in several variants.

stimuli (annotated actions) ──▶ variants (full frame, hands, sounds, tokens) ──▶ ask ──▶ named?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from earmark.captioning.captioner import Captioner
from earmark.captioning.dispatch import Failure, dispatch
from earmark.captioning.request import Answer, Question, Request
from earmark.errors import AnnotationError, MediaError, NoAudioStream
from earmark.evidence.sound_names import sound_namer
from earmark.media import Frame, Recording, open_recording
from earmark.settings import Limits
from earmark.timeline import Span
from earmark_lab.annotations.actions import find_media
from earmark_lab.experiments.captions import (
    Caption,
    CaptionLog,
    HandCrop,
    NamingCounts,
    Stimulus,
    Vocabulary,
    check_inside,
    draw_stimuli,
    read_stimuli,
)
from earmark_lab.experiments.report import Cells, Table, interval, mean, p_value, plain
from earmark_lab.metrics.counts import or_dash
from earmark_lab.metrics.statistics import cohen_kappa, mcnemar

TOKENS = 1024
ANSWER_TOKENS = 256


@dataclass(frozen=True, slots=True)
class CaptionVariant:
    name: str
    tokens: int = TOKENS
    crops_hands: bool = False
    mentions_sounds: bool = False
    is_deployed: bool = False
    """Show the frame that a run would choose, not the middle of the action."""


def list_variants(words: Iterable[str | int] = (), *, base: int = TOKENS) -> list[CaptionVariant]:
    """`words` are `hands`, `sounds`, or numbers of visual tokens.

    >>> [variant.name for variant in list_variants(["hands", "64"])]
    ['full frame', 'hand crop', '64 tokens']
    """
    full = CaptionVariant("full frame", base)
    named = {
        "hands": replace(full, name="hand crop", crops_hands=True),
        "sounds": replace(full, name="sounds told", mentions_sounds=True),
        str(base): full,
    }
    variants = [full]
    for word in map(str, words):
        if not (word in named or (word.isdecimal() and int(word) > 0)):
            raise ValueError(f"{word!r} is no variant: write hands, sounds or a number of tokens")
        variants.append(named.get(word) or CaptionVariant(f"{word} tokens", int(word)))
    return list(dict.fromkeys(variants))


def tag_sounds(recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
    """By the first installed AudioSet model: the paper's BEATs first, YAMNet last."""
    namer = sound_namer(True, None)
    assert namer is not None, "it is wanted"
    return namer.encoder.tags(recording, spans)


@dataclass(frozen=True, slots=True)
class CaptionTools:
    captioner: Captioner
    question: Question = field(default_factory=Question)
    limits: Limits = field(default_factory=Limits)
    crop: Callable[[Frame], Frame | None] = field(default_factory=HandCrop)
    tags: Callable[[Recording, Sequence[Span]], list[tuple[str, ...]]] = tag_sounds
    log: CaptionLog = field(default_factory=CaptionLog)
    progress: Callable[[str, int, int], None] = lambda *_: None
    """Called with the variant, the stimuli finished, and the stimuli in all."""
    instants: Mapping[Stimulus, float] = field(default_factory=dict)
    """Shown by the deployed variant; the middle of the action if it is missing."""


@dataclass(frozen=True, slots=True)
class VariantScore:
    model: str
    variant: CaptionVariant
    captions: Mapping[Stimulus, Caption]
    noun_named: Mapping[Stimulus, bool]
    verb_named: Mapping[Stimulus, bool]
    noun_p: float
    """McNemar's, against the first variant on stimuli with both captions; nan for the first."""
    verb_p: float
    failures: tuple[str, ...]
    """They count neither as named nor as unnamed."""

    @property
    def nouns(self) -> NamingCounts:
        return NamingCounts.of(self.noun_named.values())

    @property
    def verbs(self) -> NamingCounts:
        return NamingCounts.of(self.verb_named.values())

    @property
    def uncropped(self) -> int:
        return sum(caption.is_whole for caption in self.captions.values())

    @property
    def prompt_tokens(self) -> float:
        """Mean of a call; nan if the server does not report them."""
        counts = [caption.prompt_tokens for caption in self.captions.values()]
        return mean(tokens for tokens in counts if tokens is not None)

    @property
    def correct(self) -> int:
        """Captions that name both the noun and the verb."""
        return sum(named and self.verb_named[about] for about, named in self.noun_named.items())

    @property
    def calls_per_correct(self) -> float:
        return len(self.captions) / self.correct if self.correct else math.nan

    @property
    def tokens_per_correct(self) -> float:
        """Read and written; nan if the server does not report them."""
        return self.calls_per_correct * mean(
            caption.tokens for caption in self.captions.values() if caption.tokens is not None
        )

    def to_json(self) -> dict[str, Any]:
        names = ("variant", "tokens", "hand_crop", "sounds_told", "deployed_frame")
        values = {
            "model": self.model,
            **dict(zip(names, astuple(self.variant), strict=True)),
            "answered": self.nouns.asked,
            "failed": len(self.failures),
            "uncropped": self.uncropped,
            "nouns_named": self.nouns.named,
            "verbs_named": self.verbs.named,
            "noun_accuracy": self.nouns.accuracy,
            "verb_accuracy": self.verbs.accuracy,
            "noun_p": self.noun_p,
            "verb_p": self.verb_p,
            "mean_prompt_tokens": self.prompt_tokens,
            "calls_per_correct": self.calls_per_correct,
            "tokens_per_correct": self.tokens_per_correct,
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
    """Everything needed is checked before the first call; a failed call is counted, not raised."""
    check_inside(stimuli, recordings)
    if any(variant.crops_hands for variant in variants):
        tools.crop(Frame(0.0, np.zeros((64, 64, 3), np.uint8)))  # raises without its weights
    tools.captioner.check()
    sounds: dict[Stimulus, tuple[str, ...]] = {}
    if any(variant.mentions_sounds for variant in variants):
        sounds = _tag_stimuli(stimuli, recordings, tools)
    scores: list[VariantScore] = []
    for variant in variants:
        run = _VariantRun(variant, tools, recordings, sounds if variant.mentions_sounds else {})
        run.ask(stimuli)
        captions = run.captions.items()
        by_noun = {about: nouns.mentions(caption.text, about.noun) for about, caption in captions}
        by_verb = {about: verbs.mentions(caption.text, about.verb) for about, caption in captions}
        noun_p = compare_named(scores[0].noun_named, by_noun) if scores else math.nan
        verb_p = compare_named(scores[0].verb_named, by_verb) if scores else math.nan
        named = (by_noun, by_verb, noun_p, verb_p)
        model, failures = tools.captioner.model, tuple(run.failures)
        scores.append(VariantScore(model, variant, run.captions, *named, failures))
    return scores


def _tag_stimuli(
    stimuli: Sequence[Stimulus], recordings: Mapping[str, Recording], tools: CaptionTools
) -> dict[Stimulus, tuple[str, ...]]:
    sounds: dict[Stimulus, tuple[str, ...]] = {}
    for name in dict.fromkeys(stimulus.recording for stimulus in stimuli):
        own = [stimulus for stimulus in stimuli if stimulus.recording == name]
        if not recordings[name].has_audio:
            raise NoAudioStream(f"{name} has no audio stream, so no sounds can be told of it")
        tags = tools.tags(recordings[name], [stimulus.window for stimulus in own])
        sounds |= dict(zip(own, tags, strict=True))
    return sounds


@dataclass(slots=True)
class _VariantRun:
    variant: CaptionVariant
    tools: CaptionTools
    recordings: Mapping[str, Recording]
    sounds: Mapping[Stimulus, tuple[str, ...]]
    captions: dict[Stimulus, Caption] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _about: dict[str, list[Stimulus]] = field(default_factory=dict)
    """By request: actions around the same moment may share one."""
    _whole: set[str] = field(default_factory=set)
    _count: int = 0

    def ask(self, stimuli: Sequence[Stimulus]) -> None:
        self._count = len(stimuli)
        waiting: dict[str, Request] = {}
        for stimulus in stimuli:
            request = self._request(stimulus)
            self._about.setdefault(request.identity, []).append(stimulus)
            waiting[request.identity] = request
        for identity in waiting.keys() & self.tools.log.captions.keys():
            self._take(self.tools.log.captions[identity])
            del waiting[identity]
        self._report()
        tally = dispatch(
            self._shown([*waiting.values()]), self.tools.captioner, self.tools.limits, self
        )
        if tally.stopped:
            every = [stimulus for about in self._about.values() for stimulus in about]
            unasked = sum(stimulus not in self.captions for stimulus in every) - len(self.failures)
            self.failures += [f"stopped: {tally.stopped}"] * unasked

    def begin(self, request: Request, **_: bool) -> None:
        """Does nothing: unanswered requests are asked again in the next run."""

    withdraw = lost = begin

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def answered(self, request: Request, answer: Answer) -> None:
        identity = request.identity
        words = (identity, answer.text, answer.prompt_tokens, request.tags)
        whole = identity in self._whole
        caption = Caption(*words, is_whole=whole, answer_tokens=answer.completion_tokens)
        about = {"model": request.model, "variant": self.variant.name}
        self.tools.log.add(caption, about, stimulus=self._about[identity][0])
        self._take(caption)
        self._report()

    def failed(self, failure: Failure) -> None:
        self.failures += [failure.reason] * len(self._about[failure.request.identity])
        self._report()

    def _report(self) -> None:
        done = len(self.captions) + len(self.failures)
        self.tools.progress(self.variant.name, done, self._count)

    def _take(self, caption: Caption) -> None:
        self.captions |= dict.fromkeys(self._about[caption.identity], caption)

    def _shown(self, waiting: Sequence[Request]) -> Iterator[Request | Failure]:
        for request in waiting:
            stimulus = self._about[request.identity][0]
            try:
                (frame,) = self.recordings[stimulus.recording].frames(request.times)
                crop = self.tools.crop(frame) if self.variant.crops_hands else frame
            except MediaError as error:
                yield Failure(request, str(error), attempts=0)
                continue
            if crop is None:
                self._whole.add(request.identity)
            yield request.showing([replace(crop or frame, time=frame.time)])

    def _request(self, stimulus: Stimulus) -> Request:
        key, tags = self.recordings[stimulus.recording].key, self.sounds.get(stimulus, ())
        instants = self.tools.instants if self.variant.is_deployed else {}
        times = (instants.get(stimulus, stimulus.time),)
        return Request(
            recording=f"{key} {self.variant.name}" if self.variant.crops_hands else key,
            span=stimulus.window,
            times=times,
            prompt=self.tools.question.prompt(stimulus.window, times=times, tags=tags),
            model=self.tools.captioner.model,
            question=replace(self.tools.question, tokens=self.variant.tokens),
            tags=tags,
        )


def compare_named(first: Mapping[Stimulus, bool], second: Mapping[Stimulus, bool]) -> float:
    pairs = [(first[stimulus], second[stimulus]) for stimulus in first.keys() & second.keys()]
    return mcnemar(pairs.count((True, False)), pairs.count((False, True)))


def evaluate_captions(
    actions: Path,
    media: Sequence[str],
    tools: CaptionTools | Sequence[CaptionTools],
    *,
    nouns: Path,
    verbs: Path,
    variants: Sequence[CaptionVariant] = (CaptionVariant("full frame"),),
    stimuli: int = 200,
    seed: int = 0,
) -> list[VariantScore]:
    """Of each of `tools`, on the same stimuli.

    `actions` is a CSV with recording, start, end, noun and verb, or EPIC-KITCHENS' own.
    """
    known_nouns, known_verbs = Vocabulary.from_epic(nouns), Vocabulary.from_epic(verbs)
    marked = read_stimuli(actions, nouns=known_nouns, verbs=known_verbs)
    named = {stimulus.recording for stimulus in marked}
    sources = find_media(media, wanted=named)
    recordings = {name: open_recording(sources[name]) for name in sources if name in named}
    usable = [stimulus for stimulus in marked if stimulus.recording in recordings]
    if not usable:
        raise AnnotationError(
            f"{actions.name} marks no action of {', '.join(sorted(sources)[:3])}; files go "
            f"by the names of their recordings, such as {marked[0].recording}.mp4"
        )
    check_inside(usable, recordings)
    chosen = draw_stimuli(usable, stimuli, seed=seed)
    every = [tools] if isinstance(tools, CaptionTools) else tools
    models = [each.captioner.model for each in every]
    if len(set(models)) < len(models):
        raise ValueError(f"models are told apart by their names, and these are {models}")
    known = {"nouns": known_nouns, "verbs": known_verbs}
    return [
        score for each in every for score in compare(chosen, recordings, variants, each, **known)
    ]


def captions_table(scores: Sequence[VariantScore]) -> Table:
    rows: list[Cells] = []
    for score in scores:
        noun = (100 * score.nouns.accuracy, p_value(score.noun_p))
        verb = (100 * score.verbs.accuracy, p_value(score.verb_p))
        whole = score.uncropped if score.variant.crops_hands else "—"
        key = (score.model, score.variant.name, score.nouns.asked)
        cost = (score.prompt_tokens, score.calls_per_correct, score.tokens_per_correct)
        rows.append((*key, *noun, *verb, len(score.failures), whole, *cost))
    note = (
        "Share of answered captions whose words name the class: a lexical score, which neither "
        "sees a wrong detail nor accepts every right word. p: McNemar's exact test against the "
        "model's first variant, on the moments both answered. Correct: noun and verb are named."
    )
    columns = (
        *("model", "variant", "n", "noun %", "p noun", "verb %", "p verb"),
        *("failed", "shown whole", "tokens in", "calls / correct", "tokens / correct"),
    )
    return Table("Ways of asking", columns, rows, note)


def agreement_table(scores: Sequence[VariantScore]) -> Table | None:
    """Every two models on the first variant; None for one model."""
    first = {score.model: score for score in reversed(scores)}
    rows: list[Cells] = []
    for one, other in combinations(reversed(first.values()), 2):
        for what in ("noun", "verb"):
            ours, theirs = (getattr(score, f"{what}_named") for score in (one, other))
            both = [about for about in ours if about in theirs]
            kappa = cohen_kappa([(str(ours[about]), str(theirs[about])) for about in both])
            gap = 100 * mean(float(ours[about]) - theirs[about] for about in both)
            ends = interval(kappa.low, kappa.high, ".2f")
            cells = (kappa.n, 100 * kappa.agreed, or_dash(kappa.value, ".2f"), ends)
            p = p_value(compare_named(ours, theirs))
            rows.append((f"{one.model} – {other.model}", what, *cells, gap, p))
    note = (
        "On the moments that both answered: whether both name the class or both do not, Cohen's "
        "kappa of that with a 95 % interval, and the difference of their shares with McNemar's p."
    )
    columns = ("models", "class", "n", "agree %", "kappa", "95 %", "difference", "p")
    return Table("Agreement between models", columns, rows, note) if rows else None
