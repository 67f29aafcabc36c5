"""The flow: listen to recordings, lay the grid, spend the calls.

    sources ──▶ open ──▶ listen ──▶ windows ──▶ choose ──▶ Selection
                            └──────── a failure is a row, the others go on

The only module that knows the order of the stages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from earmark.errors import EarmarkError
from earmark.gate.frontline import EVERYDAY, Frontline
from earmark.gate.frontline_registry import AUTO, frontline_named
from earmark.gate.listener import Heard, listen
from earmark.gate.rates import RankRates
from earmark.gate.score_cache import ScoreCache
from earmark.grid import Grid, Windows
from earmark.media import Recording, Source, find, open_recording
from earmark.media.recording_description import content_key
from earmark.selection import (
    RULES,
    Budget,
    Choice,
    Rule,
    allocate,
    fixed_budget,
    forecast,
    is_blind,
    left_out,
    rule_named,
)
from earmark.selection.result import Chosen, Failed, Selection
from earmark.timeline import Track
from earmark.version import VERSION


@dataclass(frozen=True, slots=True)
class Plan:
    """Every choice of a run, saved beside every result."""

    budget: Budget
    rule: Rule
    frontline: Frontline | None
    """None where the rule is blind, so that nothing need be heard."""
    grid: Grid = field(default_factory=Grid)
    across: bool = False
    """One budget over all recordings, spent at one price, instead of one each."""
    audio_track: int = 0

    def __post_init__(self) -> None:
        if self.audio_track < 0:
            raise ValueError(f"audio tracks are counted from 0, not {self.audio_track}")

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "budget": str(self.budget),
            "rule": RULES.name_of(type(self.rule)),
            "frontline": self.frontline.name if self.frontline else "none",
            "window": self.grid.length,
            "across": self.across,
            "audio_track": self.audio_track,
            "earmark": VERSION,
        }


def make_plan(
    *,
    budget: str | Budget = "25%",
    rule: str | Rule = "coverage",
    frontline: str | Frontline | None = AUTO,
    window: float = 4.0,
    across: bool = False,
    audio_track: int = 0,
) -> Plan:
    """A plan from names and numbers.

    A blind rule listens to nothing unless a frontline is named outright.

    Raises:
        ValueError: a name is unknown or a number out of range; the message lists what there is.
    """
    spender = rule_named(rule) if isinstance(rule, str) else rule
    budget = fixed_budget(spender) or budget
    if isinstance(frontline, str):
        unheard = frontline == AUTO and is_blind(spender)
        frontline = None if unheard else frontline_named(frontline)
    return Plan(
        budget=Budget.parse(budget) if isinstance(budget, str) else budget,
        rule=spender,
        frontline=frontline,
        grid=Grid(window),
        across=across,
        audio_track=audio_track,
    )


Watch = Callable[[Source, float, float], None]
"""Told the source at work, the seconds heard so far and the seconds in all."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One recording heard and laid on the grid."""

    heard: Heard
    windows: Windows

    @property
    def weight(self) -> float:
        """What an action in it is worth beside those in others."""
        return self.heard.recording.source.weight

    def compact(self) -> Scored:
        """The same without the scores between windows, its level no finer than the eye needs.

        Some 40 kB an hour: thousands of recordings must fit, and travel.
        """
        level = None if self.heard.level is None else self.heard.level.sketched()
        silent = Track(np.zeros(0, np.float32))
        return Scored(replace(self.heard, scores=silent, level=level), self.windows)


def hear(
    source: Source, plan: Plan, *, cache: ScoreCache | None = None, watch: Watch | None = None
) -> Scored:
    """Listen to one recording, or take what was heard of it before, and lay it on the grid.

    Raises:
        MediaError: the recording cannot be read as asked.
    """
    frontline = plan.frontline
    if frontline is None:
        return _unheard(source, plan)
    heard = cache.find(source, frontline, audio_track=plan.audio_track) if cache else None
    if heard is None:
        recording = open_recording(source, audio_track=plan.audio_track)
        length = recording.duration
        progress = None if watch is None else lambda seconds: watch(source, seconds, length)
        heard = listen(recording, frontline, progress=progress)
        heard = cache.keep(heard, frontline) if cache else heard
    windows = plan.grid.score(
        heard.scores, heard.recording.duration, rates=frontline.rates, survival=frontline.survival
    )
    return Scored(heard, windows)


def hear_anew(
    source: Source,
    plan: Plan,
    *,
    known: str | None = None,
    cache: ScoreCache | None = None,
    watch: Watch | None = None,
) -> Scored | Recording:
    """Listen to one recording unless its content is still the `known` one: then its description.

    Raises:
        MediaError: the recording cannot be read as asked.
    """
    if known is not None and content_key(source) == known:
        return open_recording(source, audio_track=plan.audio_track)
    return hear(source, plan, cache=cache, watch=watch).compact()


def _unheard(source: Source, plan: Plan) -> Scored:
    """The windows of a recording that nobody listened to: all alike."""
    recording = open_recording(source, audio_track=plan.audio_track)
    silence = Track(np.zeros(0, np.float32))
    heard = Heard(recording, "none", silence, None, "none", 0, 0.0)
    windows = plan.grid.score(silence, recording.duration, rates=RankRates(), survival=EVERYDAY)
    return Scored(heard, windows)


@dataclass(frozen=True, slots=True, eq=False)
class Hearing:
    """Many recordings heard: those that could be, and why the others could not."""

    scored: tuple[Scored, ...]
    failures: tuple[Failed, ...]


Told = Scored | Recording | EarmarkError
"""What became of a source: heard, still the recording that is known, or why neither."""


class Ears(Protocol):
    """Listens to many recordings.

    Gives what became of each source, once, in any order. A source whose key is `known` and still
    the same is not listened to: its description is given.
    """

    def __call__(
        self,
        sources: Sequence[Source],
        plan: Plan,
        *,
        known: Mapping[Source, str],
        cache: ScoreCache | None,
    ) -> Iterable[tuple[Source, Told]]:
        """What became of each of `sources`."""
        ...


@dataclass(frozen=True, slots=True)
class OwnEars:
    """Listens in this process, one recording after the other."""

    watch: Watch | None = None

    def __call__(
        self,
        sources: Sequence[Source],
        plan: Plan,
        *,
        known: Mapping[Source, str],
        cache: ScoreCache | None,
    ) -> Iterator[tuple[Source, Told]]:
        """What became of each of `sources`, in order."""
        for source in sources:
            again = known.get(source)
            try:
                yield source, hear_anew(source, plan, known=again, cache=cache, watch=self.watch)
            except EarmarkError as error:
                yield source, error


def hear_all(
    paths: Sequence[str | Path | Source],
    plan: Plan,
    *,
    cache: ScoreCache | None = None,
    watch: Watch | None = None,
    ears: Ears | None = None,
) -> Hearing:
    """Listen to everything at `paths`; a recording that fails is a row, the others go on."""
    sources = find(paths)
    listen = ears or OwnEars(watch)
    told = dict(listen(sources, plan, known={}, cache=cache))
    found = [(source, told[source]) for source in sources]
    return Hearing(
        tuple(one for _, one in found if isinstance(one, Scored)),
        tuple(
            Failed(source.uris[0], str(one)) for source, one in found if isinstance(one, Exception)
        ),
    )


def select(
    paths: Sequence[str | Path | Source],
    *,
    plan: Plan | None = None,
    cache: ScoreCache | None = None,
    watch: Watch | None = None,
    ears: Ears | None = None,
    explain: int = 0,
    **choices: Any,
) -> Selection:
    """The windows of the recordings at `paths` worth a call.

    Args:
        paths: Files, folders, globs and addresses.
        plan: Every choice; or give them one by one as `choices`, see `make_plan`.
        cache: Where to keep what was heard; a second run with another budget reads no media.
        watch: Told how far listening has come.
        ears: Who listens; this process, one recording after the other, if not given.
        explain: How many of the best windows left out to list, a recording.
        choices: `budget`, `rule`, `frontline`, `window`, `across`, `audio_track`.

    Raises:
        ValueError: a choice is unknown or out of range. What is wrong with a recording is not
            raised but listed in `Selection.failures`.
    """
    plan = make_plan(**choices) if plan is None else plan
    hearing = hear_all(paths, plan, cache=cache, watch=watch, ears=ears)
    choices_made = spend(
        plan,
        [one.windows for one in hearing.scored],
        weights=[one.weight for one in hearing.scored],
    )
    chosen = tuple(
        _chosen(plan, scored, choice, explain)
        for scored, choice in zip(hearing.scored, choices_made, strict=True)
    )
    return Selection(plan.to_json(), chosen, hearing.failures)


def spend(
    plan: Plan, many: Sequence[Windows], *, weights: Sequence[float] | None = None
) -> Iterator[Choice]:
    """The plan's budget spent on `many` recordings, told a recording at a time.

    Args:
        plan: With one budget each, or one over all.
        many: The windows of each recording; gone over a few times.
        weights: What an action in each is worth beside those in others; alike if not given. They
            play a part only where recordings share a budget.
    """
    return allocate(plan.rule, many, plan.budget, across=plan.across, weights=weights)


def _chosen(plan: Plan, scored: Scored, choice: Choice, explain: int) -> Chosen:
    heard, windows, recording = scored.heard, scored.windows, scored.heard.recording
    share = forecast(windows, [pick.window for pick in choice.picks])
    has_count = not plan.across and plan.budget.price is None
    chaptered = len(recording.parts) > 1
    return Chosen(
        path=recording.source.uris[0],
        duration=recording.duration,
        window=windows.length,
        windows=len(windows),
        budget=plan.budget.calls(len(windows)) if has_count else len(choice.picks),
        rule=choice.rule_used,
        frontline=heard.frontline,
        access=heard.access,
        bytes_read=heard.bytes_read,
        bytes_total=recording.size_bytes,
        forecast=None if math.isnan(share) else share,
        picks=tuple(choice.picks),
        chapters=recording.source.uris if chaptered else (),
        chapter_starts=tuple(part.start for part in recording.parts) if chaptered else (),
        notes=notes_on(heard, choice),
        left_out=tuple(left_out(windows, choice.picks, explain)) if explain else (),
    )


def notes_on(heard: Heard, choice: Choice | None = None) -> tuple[str, ...]:
    """What a reader of the result should know, of the sound and of the choice if one was made."""
    silent = "the sound track is silent" if heard.is_silent else ""
    chosen = choice.note if choice else ""
    return tuple(note for note in (silent, chosen, *heard.warnings) if note)
