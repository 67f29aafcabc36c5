"""Whether captions name what is done: one set of moments, asked about in several ways.

    stimuli (annotated actions) ──▶ variants (full frame, hands, sounds, tokens) ──▶ ask ──▶ named?

The paper's composition and its negative results: a hand-centred crop and the sounds in the prompt
leave naming where it was. Every variant is asked about the same moments, so two of them are held
against each other pair by pair, by McNemar's exact test.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from earmark.call import Answer, Captioner, Failure, Limits, Prompt, Request, ask_all
from earmark.errors import AnnotationError, EarmarkError
from earmark.evaluate.naming import Named, Vocabulary
from earmark.evaluate.significance import mcnemar
from earmark.media import Frame, Recording
from earmark.timeline import Span

TOKENS = 1024
"""Visual tokens of a call unless a variant says otherwise."""

AROUND = 4.0
"""Seconds of the window a stimulus stands for: the paper's call, centred on the action."""


@dataclass(frozen=True, slots=True)
class Stimulus:
    """A moment to be asked about, and what a good answer names."""

    recording: str
    span: Span
    noun: str
    verb: str

    @property
    def time(self) -> float:
        """The moment shown: the middle of the action, as in the paper."""
        return self.span.middle

    @property
    def window(self) -> Span:
        """The stretch the question is about."""
        start = max(0.0, self.time - AROUND / 2)
        return Span(start, start + AROUND)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of asking."""

    name: str
    tokens: int = TOKENS
    crops_hands: bool = False
    """Show what the hands reach instead of the full frame."""
    tells_sounds: bool = False
    """Say in the prompt what is heard."""


def variants(
    *, tokens: Sequence[int] = (), hands: bool = False, sounds: bool = False, base: int = TOKENS
) -> list[Variant]:
    """The full frame first, then every variant asked for: one thing changes at a time."""
    made = [Variant("full frame", base)]
    made += [Variant("hand crop", base, crops_hands=True)] if hands else []
    made += [Variant("sounds told", base, tells_sounds=True)] if sounds else []
    return made + [Variant(f"{each} tokens", each) for each in tokens if each != base]


Crop = Callable[[Frame], Frame | None]
"""Cuts a frame to its hands; None where it finds none."""

Tags = Callable[[Recording, Sequence[Span]], list[tuple[str, ...]]]
"""What is heard in each span, in words."""


@dataclass(frozen=True, slots=True)
class Means:
    """What asking takes."""

    captioner: Captioner
    prompt: Prompt = field(default_factory=Prompt.load)
    limits: Limits = field(default_factory=Limits)
    crop: Crop | None = None
    tags: Tags | None = None
    answer_tokens: int = 256


@dataclass(frozen=True, slots=True)
class Row:
    """How one variant did."""

    variant: Variant
    nouns: Named
    verbs: Named
    failed: int
    """Calls without an answer; they count neither for nor against."""
    uncropped: int
    """Frames shown whole because no hand was found."""
    prompt_tokens: float | None
    """Mean of a call, where the server says."""
    noun_p: float | None
    """McNemar against the first variant on what both answered; None for the first itself."""
    verb_p: float | None
    captions: Mapping[Stimulus, str]


def read_stimuli(path: Path, *, nouns: Vocabulary, verbs: Vocabulary) -> list[Stimulus]:
    """The actions of an EPIC-KITCHENS table, or of one with recording, start, end, noun and verb.

    Raises:
        AnnotationError: a column or a time is missing, or nothing is marked.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    stimuli = []
    for number, row in enumerate(rows, start=2):
        try:
            name = row.get("video_id") or row["recording"]
            start = seconds(row.get("start_timestamp") or row["start"])
            end = seconds(row.get("stop_timestamp") or row["end"])
            noun, verb = row["noun"], row["verb"]
            span = Span(start, end)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise AnnotationError(
                f"{path.name} line {number}: an action needs recording, start, end, noun and verb "
                f"({error})"
            ) from error
        stimuli.append(Stimulus(name, span, class_of(noun, nouns), class_of(verb, verbs)))
    if not stimuli:
        raise AnnotationError(f"{path.name} marks no action, so there is nothing to ask about")
    return stimuli


def seconds(text: str) -> float:
    """Seconds from `12.5` or `00:00:12.5`.

    >>> seconds("01:02:03.5")
    3723.5
    """
    total = 0.0
    for part in text.split(":"):
        total = 60 * total + float(part)
    return total


def class_of(word: str, vocabulary: Vocabulary) -> str:
    """The class that `word` is one way of saying; itself where no class says so."""
    if word in vocabulary.ways:
        return word
    return next((label for label, ways in vocabulary.ways.items() if word in ways), word)


def draw(stimuli: Sequence[Stimulus], count: int, *, seed: int = 0) -> list[Stimulus]:
    """`count` of them at random, in order of recording and time; all where there are no more."""
    chosen = random.Random(seed).sample(list(stimuli), min(count, len(stimuli)))  # noqa: S311
    return sorted(chosen, key=lambda each: (each.recording, each.span))


def compare(
    stimuli: Sequence[Stimulus],
    recordings: Mapping[str, Recording],
    ways: Sequence[Variant],
    means: Means,
    *,
    nouns: Vocabulary,
    verbs: Vocabulary,
) -> list[Row]:
    """Ask about every stimulus in every way; one row a variant, held against the first.

    Raises:
        CallError: no call could succeed. A single failed call is counted, not raised.
        EarmarkError: a variant needs a crop or tags that `means` does not have.
    """
    lost = sorted({each.recording for each in stimuli} - set(recordings))
    if lost:
        raise AnnotationError(f"no media for {', '.join(lost[:3])}; the names must agree")
    means.captioner.check()
    rows: list[Row] = []
    for variant in ways:
        run = _Run(variant, means, recordings)
        run.ask(stimuli)
        rows.append(_row(run, nouns, verbs, rows[0] if rows else None))
    return rows


class _Run:
    """One variant asked about all stimuli."""

    def __init__(self, variant: Variant, means: Means, recordings: Mapping[str, Recording]) -> None:
        if variant.crops_hands and means.crop is None:
            raise EarmarkError(f"{variant.name} needs a hand detector: give `Means.crop`")
        if variant.tells_sounds and means.tags is None:
            raise EarmarkError(f"{variant.name} needs names of sounds: give `Means.tags`")
        self.variant, self.means, self.recordings = variant, means, recordings
        self.answers: dict[Stimulus, Answer] = {}
        self.failed = self.uncropped = 0
        self._asked: dict[str, Stimulus] = {}

    def ask(self, stimuli: Sequence[Stimulus]) -> None:
        """Ask about each; frames are decoded as calls come free."""

        def settle(request: Request, answer: Answer) -> None:
            self.answers[self._asked[request.identity]] = answer

        def fail(_: Failure) -> None:
            self.failed += 1

        ask_all(self._requests(stimuli), self.means.captioner, self.means.limits, settle, fail)

    def _requests(self, stimuli: Sequence[Stimulus]) -> Iterator[Request]:
        for name in dict.fromkeys(each.recording for each in stimuli):
            own = [each for each in stimuli if each.recording == name]
            recording = self.recordings[name]
            heard: list[tuple[str, ...]] = [()] * len(own)
            if self.variant.tells_sounds and self.means.tags is not None:
                heard = self.means.tags(recording, [each.window for each in own])
            for each, tags in zip(own, heard, strict=True):
                request = self._request(recording, each, tags)
                self._asked[request.identity] = each
                yield request.showing([self._frame(recording, each)])

    def _request(self, recording: Recording, each: Stimulus, tags: tuple[str, ...]) -> Request:
        """A variant that shows another picture is another question: its name is in the identity."""
        shown = (
            f"{recording.key} {self.variant.name}" if self.variant.crops_hands else recording.key
        )
        return Request(
            recording=shown,
            window=each.window,
            times=(each.time,),
            prompt=self.means.prompt.render(each.window, times=(each.time,), tags=tags),
            model=self.means.captioner.model,
            tokens=self.variant.tokens,
            tags=tags,
            schema=self.means.prompt.schema,
            answer_tokens=self.means.answer_tokens,
        )

    def _frame(self, recording: Recording, each: Stimulus) -> Frame:
        frame = recording.frames([each.time])[0]
        if not self.variant.crops_hands or self.means.crop is None:
            return frame
        cut = self.means.crop(frame)
        self.uncropped += cut is None
        return replace(cut or frame, time=frame.time)


def _row(run: _Run, nouns: Vocabulary, verbs: Vocabulary, first: Row | None) -> Row:
    captions = {each: answer.text for each, answer in run.answers.items()}
    taken = [a.prompt_tokens for a in run.answers.values() if a.prompt_tokens is not None]
    row = Row(
        variant=run.variant,
        nouns=Named(
            sum(nouns.names(text, each.noun) for each, text in captions.items()), len(captions)
        ),
        verbs=Named(
            sum(verbs.names(text, each.verb) for each, text in captions.items()), len(captions)
        ),
        failed=run.failed,
        uncropped=run.uncropped,
        prompt_tokens=sum(taken) / len(taken) if taken else None,
        noun_p=None,
        verb_p=None,
        captions=captions,
    )
    if first is None:
        return row
    return replace(
        row,
        noun_p=_paired(first, row, lambda each, text: nouns.names(text, each.noun)),
        verb_p=_paired(first, row, lambda each, text: verbs.names(text, each.verb)),
    )


def _paired(first: Row, second: Row, names: Callable[[Stimulus, str], bool]) -> float:
    """McNemar's exact p on the stimuli both answered."""
    both = first.captions.keys() & second.captions.keys()
    pairs = [(names(s, first.captions[s]), names(s, second.captions[s])) for s in both]
    return mcnemar(
        sum(ours and not theirs for ours, theirs in pairs),
        sum(theirs and not ours for ours, theirs in pairs),
    )
