"""What `find` has seen in a recording."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from earmark.report.sound_ranking import TOGETHER
from earmark.run.records import RunPick
from earmark.run.run import Run
from earmark.text_format import counted
from earmark.timeline import Span, merge

SOUNDS_MEANT = "sounds meant by "

MOST_TIMES = 5


@dataclass(frozen=True, slots=True)
class SoughtThing:
    question: str
    asked: int
    seen: tuple[Span, ...]
    """By time: windows answered yes, extended by the matching sounds in them."""

    def line(self, from_to: Callable[[Span], str]) -> str:
        if not self.seen:
            return f"“{self.question}” in none of {counted(self.asked, 'window')} asked about"
        times = ", ".join(map(from_to, self.seen[:MOST_TIMES]))
        rest = len(self.seen) - MOST_TIMES
        more = f" and {rest} more" if rest > 0 else ""
        return f"“{self.question}” {len(self.seen)}× at {times}{more}"


def find_result(run: Run, recording: str, picks: Iterable[RunPick]) -> SoughtThing | None:
    """None if nothing was looked for in it."""
    question = str(run.plan().get("find") or "")
    answers = [(pick.span, pick.seen) for pick in picks if pick.seen is not None]
    if not question or not answers:
        return None
    meant = json.loads(run.note(f"{SOUNDS_MEANT}{question}") or "[]")
    entries = [entry for entry in run.evidence(recording, kinds=("heard",)) if entry.text in meant]
    sounds = [entry.span for entry in entries if entry.is_tracked]
    spans = _with_sounds([span for span, seen in answers if seen], sounds)
    return SoughtThing(question, len(answers), tuple(merge(spans, gap=TOGETHER)))


def seen_moments(run: Run, recording: str) -> tuple[Span, ...]:
    sought = find_result(run, recording, run.picks(recording))
    return sought.seen if sought else ()


def _with_sounds(windows: Iterable[Span], sounds: Sequence[Span]) -> Iterator[Span]:
    """Each of `windows`, extended to the start and end of the sounds that overlap it.

    sound         ▁▁▁▂▆▇▇▇▆▂▁▁▁▁
    window            ├───┤
    moment           ├──────┤
    """
    for window in windows:
        spans = [window, *(sound for sound in sounds if sound.overlaps(window))]
        yield Span(min(span.start for span in spans), max(span.end for span in spans))
