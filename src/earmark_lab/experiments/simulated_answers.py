from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from operator import eq

import numpy as np

from earmark.grid import Windows
from earmark.selection.allocation import allocate, choose_without_evidence
from earmark.selection.answer_evidence import NO_ACTIVITY, ObservedActivity
from earmark.selection.budget import Budget, Rounds
from earmark.selection.pick import Pick
from earmark.selection.rounds import (
    Turn,
    calls_now,
    revise_by_answers,
    spread_evenly,
    turns,
)
from earmark.selection.rules.coverage import Coverage
from earmark_lab.annotations.actions import Action
from earmark_lab.metrics.counts import longest_overlaps


@dataclass(frozen=True, slots=True)
class AnswerSimulator:
    """Answers for every window as a model would: the action that fills most of it, or nothing.

    >>> AnswerSimulator.parse("noisy:missed=0.1")
    AnswerSimulator(missed=0.1, invented=0.05, renamed=0.3, seed=0)
    """

    missed: float = 0.0
    """Share of windows with an action."""
    invented: float = 0.0
    """Share of windows without an action."""
    renamed: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("missed", "invented", "renamed"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share from 0 to 1, not {getattr(self, name):g}")

    @classmethod
    def parse(cls, words: str) -> AnswerSimulator:
        """`perfect`, `noisy` or, for example, `noisy:missed=0.1,seed=3`."""
        kind, _, options = words.partition(":")
        usual = {"perfect": {}, "noisy": {"missed": 0.2, "invented": 0.05, "renamed": 0.3}}
        if kind not in usual:
            raise ValueError(f"no answers {kind!r}; there are {', '.join(usual)}")
        chosen: dict[str, float] = dict(usual[kind])
        for option in filter(None, options.split(",")):
            name, _, value = option.partition("=")
            try:
                if name not in {field.name for field in fields(cls)}:
                    raise ValueError(name)
                chosen[name] = int(value) if name == "seed" else float(value)
            except ValueError:
                raise ValueError(
                    f"{option!r} is no option of answers: write missed=, invented=, renamed= with "
                    "a share, or seed= with a number"
                ) from None
        return cls(**chosen)  # type: ignore[arg-type]

    def activities(self, recording: str, actions: Sequence[Action], windows: Windows) -> list[str]:
        """Deterministic by recording and seed."""
        answers = [
            NO_ACTIVITY if index < 0 else actions[index].label or f"action {index}"
            for index in longest_overlaps(
                actions, len(windows), window=windows.length, duration=windows.duration
            ).tolist()
        ]
        digest = hashlib.sha256(f"{recording} {self.seed}".encode()).digest()
        chance = np.random.default_rng(int.from_bytes(digest[:8])).random((len(answers), 2))
        for index, (luck, naming) in enumerate(chance.tolist()):
            if answers[index] == NO_ACTIVITY:
                answers[index] = f"imagined {index}" if luck < self.invented else NO_ACTIVITY
            elif luck < self.missed:
                answers[index] = NO_ACTIVITY
            elif naming < self.renamed:
                answers[index] = f"renamed {index}"
        return answers


def simulate_rounds(
    many: Sequence[Windows], answers: Sequence[Sequence[str]], budget: Budget, rounds: Rounds
) -> list[list[Pick]]:
    asked_windows: list[set[int]] = [set() for _ in many]
    plans: list[list[Pick]] = []
    for scheduled in turns(rounds):
        updated, activities = _add_answers(many, answers, asked_windows)
        is_priced = budget.price is not None
        rated, turn = revise_by_answers(
            updated, activities, scheduled, agree=eq, is_priced=is_priced
        )
        plans = [choice.picks for choice in allocate(Coverage(), rated, budget)]
        for windows, picks, own in zip(many, plans, asked_windows, strict=True):
            own.update(_windows_to_ask(windows, picks, own, turn))
        if turn.is_last:
            break
    return plans


def simulate_runs(
    many: Sequence[Windows], answers: Sequence[Sequence[str]], calls: Sequence[int]
) -> list[list[Pick]]:
    """The same as `simulate_rounds` of each, but many times faster: all plans are made together."""
    rule = Coverage()
    asked_windows: list[set[int]] = [set() for _ in many]
    plans: list[list[Pick]] = []
    for scheduled in turns("auto"):
        rated, now = [], []
        for windows, activities in zip(*_add_answers(many, answers, asked_windows), strict=True):
            (revised,), turn = revise_by_answers([windows], [activities], scheduled, agree=eq)
            rated.append(revised)
            now.append(turn)
        plans = rule.each(rated, budgets=calls)
        for index, windows in enumerate(many):
            plans[index] = choose_without_evidence(rule, rated[index], calls[index]) or plans[index]
            asked_windows[index].update(
                _windows_to_ask(windows, plans[index], asked_windows[index], now[index])
            )
    return plans


def _add_answers(
    many: Sequence[Windows], answers: Sequence[Sequence[str]], asked_windows: Sequence[set[int]]
) -> tuple[list[Windows], list[list[ObservedActivity]]]:
    updated = [
        replace(windows, owned=tuple(sorted(own)))
        for windows, own in zip(many, asked_windows, strict=True)
    ]
    activities = [
        [ObservedActivity(window, words[window]) for window in sorted(own)]
        for words, own in zip(answers, asked_windows, strict=True)
    ]
    return updated, activities


def _windows_to_ask(
    windows: Windows, picks: Sequence[Pick], own: set[int], turn: Turn
) -> list[int]:
    places = (windows.window_at(pick.start) for pick in picks)
    waiting = [index for index in places if index not in own]
    return spread_evenly(waiting, calls_now(len(picks), len(own), turn.share))
