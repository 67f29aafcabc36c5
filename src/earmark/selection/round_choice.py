"""The plan of one round: the reason for each pick, and which picks are asked now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from earmark.grid import Windows
from earmark.selection.allocation import Choice
from earmark.selection.answer_evidence import ObservedActivity, RevisedWindows
from earmark.selection.hidden_activity import Agrees
from earmark.selection.pick import explain, places_of
from earmark.selection.round_schedule import Turn, calls_now, spread_evenly
from earmark.selection.stopping import RoundOptions, revise_by_answers


def choose_round(
    spend: Callable[[Collection[Windows]], Iterator[Choice]],
    many: Collection[Windows],
    paid: Sequence[Sequence[ObservedActivity]],
    *,
    agree: Agrees,
    options: RoundOptions,
) -> tuple[Iterator[Choice], Turn]:
    """The picks to ask in each recording in this round, and the round, given the answers so far.

    `spend` plans all remaining calls; a round that is not the last asks only a part of that plan.
    """
    revised, turn = revise_by_answers(many, paid, agree=agree, options=options)
    choices = spend(revised)
    if not turn.is_last:
        choices = (
            limit_to_round(one, places, turn) for one, places in zip(choices, paid, strict=True)
        )
    return _describe_picks(choices, revised), turn


def limit_to_round(choice: Choice, paid: Sequence[ObservedActivity], turn: Turn) -> Choice:
    """The plan without the picks that wait for a later round."""
    starts = {one.start for one in paid}
    waiting = [pick for pick in choice.picks if pick.start not in starts]
    done = len(choice.picks) - len(waiting)
    now = spread_evenly(waiting, calls_now(len(choice.picks), done, turn.share))
    starts |= {pick.start for pick in now}
    return replace(choice, picks=[pick for pick in choice.picks if pick.start in starts])


def _describe_picks(choices: Iterable[Choice], revised: RevisedWindows) -> Iterator[Choice]:
    """Add to the reason of each pick how the answers around it compare.

    Its rate and its expected actions are those of the sound alone. The answers decide where to ask.
    A forecast is a share of the actions expected before any answer, in every round; rates revised
    by answers would not be a share of those.
    """
    for number, (choice, windows) in enumerate(zip(choices, revised.many, strict=True)):
        by_sound = explain(windows, places_of(windows, choice.picks), lambda *_: "")
        picks = []
        for pick, one in zip(choice.picks, by_sound, strict=True):
            gap = revised.gap_reason(number, pick.start)
            reason = f"{pick.reason}, {gap}" if gap else pick.reason
            picks.append(replace(pick, rate=one.rate, expected=one.expected, reason=reason))
        yield replace(choice, picks=picks)
