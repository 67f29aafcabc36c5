from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_query import family_of, narrower, stems
from earmark.gate.listener import SILENT_DB
from earmark.run.records import HeardRow, RecordingRow, RunPick
from earmark.run.run import Run
from earmark.text_format import counted, format_length
from earmark.timeline import Span, Track, format_clock, merge
from earmark.wall_clock import describe_began, time_of_day

LOUDER_DB = 12.0
"""Above the 10 % quantile of a recording, from which a window is loud."""

MOSTLY = 0.9
FINEST = 0.5

PAUSE = 60.0
"""Seconds within one section of speech, for a recording of an hour; less for a shorter one."""

TOGETHER = 5.0

STRETCH = 300.0
"""Seconds of a busy section, for a recording of an hour or more."""

MOST_TIMES = 5
MOST_SOUNDS = 8
MOST_ACTIVITIES = 12
MOST_GLANCED = 4

SAME = 0.85
"""Share of the words of two answers that both must contain."""

FEWEST = 3

COMPARED = 10_000
"""Characters of an answer, since a server may send megabytes."""

UNHEARD = "not listened to: it has no sound, or its windows were chosen without listening"
Clock = Callable[[float], str]

SOUNDS_MEANT = "sounds meant by "


@dataclass(frozen=True, slots=True)
class SoundTally:
    name: str
    kinds: tuple[str, ...]
    spans: tuple[Span, ...]

    def line(self, clock: Clock) -> str:
        times = ", ".join(clock(span.start) for span in self.spans[:MOST_TIMES])
        more = ", …" if len(self.spans) > MOST_TIMES else ""
        kinds = f" ({', '.join(map(short_name, self.kinds))})" if self.kinds else ""
        return f"{short_name(self.name)}{kinds} {len(self.spans)}× at {times}{more}"


@dataclass(frozen=True, slots=True)
class Activity:
    span: Span
    text: str
    picks: int = 1

    def line(self, clock: Clock) -> str:
        times = from_to(self.span, clock) if self.picks > 1 else clock(self.span.start)
        return f"{times} {self.text}"


@dataclass(frozen=True, slots=True)
class SoughtThing:
    question: str
    asked: int
    seen: tuple[Span, ...]
    """By time: windows answered yes, extended by the matching sounds in them."""

    def line(self, clock: Clock) -> str:
        if not self.seen:
            return f"“{self.question}” in none of {counted(self.asked, 'window')} asked about"
        times = ", ".join(from_to(span, clock) for span in self.seen[:MOST_TIMES])
        rest = len(self.seen) - MOST_TIMES
        more = f" and {rest} more" if rest > 0 else ""
        return f"“{self.question}” {len(self.seen)}× at {times}{more}"


@dataclass(frozen=True, slots=True)
class RecordingOverview:
    path: str
    name: str
    duration: float
    active: float | None
    """Expected seconds with an action going on; None if there is no sound to estimate it from."""
    sounding: Span | None = None
    """None unless it is much shorter than the recording."""
    louder: float | None = None
    """Seconds that are loud or have a named sound; None if not listened to."""
    sounds: tuple[SoundTally, ...] = ()
    """Most frequent first, then longest; without speech."""
    speech: tuple[Span, ...] = ()
    busiest: tuple[Span, ...] = ()
    activities: tuple[Activity, ...] = ()
    is_named: bool = False
    sought: SoughtThing | None = None
    began: str = ""
    """ISO 8601; empty if it is not known."""

    def clock(self, seconds: float) -> str:
        """Such as `2:10 (13:02:10)`: since the beginning, and the time of day if it is known."""
        day = time_of_day(self.began, seconds)
        return f"{since_start(seconds)} ({day})" if day else since_start(seconds)

    @property
    def heard_for(self) -> float:
        return self.sounding.duration if self.sounding else self.duration

    @property
    def has_something(self) -> bool:
        is_seen = self.sought is not None and bool(self.sought.seen)
        return bool(self.louder or self.sounds or self.speech or self.activities or is_seen)

    def lines(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        active, louder = self.active, self.louder
        is_unheard = louder is None and not self.sounds
        sections: tuple[tuple[str, tuple[str, ...]], ...] = (
            ("Began", (describe_began(self.began),) if self.began else ()),
            ("Found", (self.sought.line(self.clock),) if self.sought else ()),
            ("Active", () if active is None else (_describe_active(active, self.heard_for),)),
            ("Silent", self._silent_lines(self.sounding) if self.sounding else ()),
            ("Heard", self._heard_lines()),
            ("Speech", _first_lines(map(self._from_to, self.speech), MOST_TIMES, "other time")),
            ("Busiest", tuple(map(self._from_to, self.busiest))),
            ("Louder", () if louder is None else (_describe_louder(louder, self.heard_for),)),
            (
                "Activities",
                _first_lines(
                    (activity.line(self.clock) for activity in self.activities),
                    MOST_ACTIVITIES,
                    "later caption",
                ),
            ),
            ("Heard", (UNHEARD,) if is_unheard else ()),
        )
        return (section for section in sections if section[1])

    def _heard_lines(self) -> tuple[str, ...]:
        if self.sounds or self.speech or self.louder is None:
            lines = (tally.line(self.clock) for tally in self.sounds)
            return _first_lines(lines, MOST_SOUNDS, "other sound")
        unnamed = "sounds were not named; install a model with `earmark models get mn04`"
        return ("no named sound" if self.is_named else unnamed,)

    def _silent_lines(self, sounding: Span) -> tuple[str, ...]:
        parts = Span(0.0, sounding.start), Span(sounding.end, max(sounding.end, self.duration))
        return tuple(f"{self._from_to(part)}: no sound" for part in parts if part.duration >= 1)

    def _from_to(self, span: Span) -> str:
        return from_to(span, self.clock)


def total_lines(overviews: Sequence[RecordingOverview]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if searches := [overview.sought for overview in overviews if overview.sought]:
        counts = [len(search.seen) for search in searches if search.seen]
        where = counted(len(counts), "recording")
        found = f"“{searches[0].question}” {sum(counts)}× in {where}"
        nowhere = replace(searches[0], asked=sum(search.asked for search in searches))
        yield "Found", (found if counts else nowhere.line(since_start),)
    if active := [(row.active, row.heard_for) for row in overviews if row.active is not None]:
        yield "Active", (_describe_active(*map(sum, zip(*active, strict=True))),)
    tallies: dict[str, list[int]] = defaultdict(list)
    for overview in overviews:
        for tally in overview.sounds:
            tallies[tally.name].append(len(tally.spans))
    if tallies:
        ranked = sorted(tallies.items(), key=lambda item: (-len(item[1]), -sum(item[1]), item[0]))
        sounds = (
            f"{short_name(name)} {sum(times)}× in {counted(len(times), 'recording')}"
            for name, times in ranked
        )
        yield "Heard", _first_lines(sounds, MOST_SOUNDS, "other sound")
    if spoken := sum(bool(overview.speech) for overview in overviews):
        yield "Speech", (f"in {counted(spoken, 'recording')}",)
    if louder := [(row.louder, row.heard_for) for row in overviews if row.louder is not None]:
        yield "Louder", (_describe_louder(*map(sum, zip(*louder, strict=True))),)


def _describe_active(active: float, duration: float) -> str:
    return f"about {format_length(active)} of {format_length(duration)}, estimated from the sound"


def _describe_louder(louder: float, duration: float) -> str:
    why = f"{LOUDER_DB:.0f} dB above the background, or a named sound"
    return f"{format_length(louder)} of {format_length(duration)} ({why})"


def short_name(sound: str) -> str:
    """The first of the names, which are separated by commas outside of brackets.

    >>> short_name("Dishes, pots, and pans"), short_name("Roaring cats (lions, tigers)")
    ('Dishes', 'Roaring cats (lions, tigers)')
    """
    first, *others = sound.split(",")
    while others and first.count("(") > first.count(")"):
        first += "," + others.pop(0)
    return first


def since_start(seconds: float) -> str:
    return format_clock(seconds, tenths=False)


def from_to(span: Span, clock: Clock) -> str:
    start, end = clock(span.start), clock(span.end)
    return start if start == end else f"{start} – {end}"


def _first_lines(lines: Iterable[str], most: int, thing: str) -> tuple[str, ...]:
    texts = tuple(lines)
    more = len(texts) - most
    return (*texts[:most], f"and {counted(more, thing)}") if more > 0 else texts


def summarise_run(run: Run) -> str:
    """What `find` looked for, the most frequent sounds, and the first caption, in one line."""
    parts = []
    if question := run.plan().get("find"):
        parts.append(f"Looked for “{question}”")
    if sounds := run.common_sounds(most=MOST_GLANCED):
        parts.append(f"Heard {'; '.join(map(short_name, sounds))}")
    start, caption = (0.0, "") if question else run.first_caption()
    if caption:
        parts.append(f"Seen first, at {since_start(start)}: {first_sentence(caption, most=80)}")
    return " · ".join(parts)


def overview(run: Run) -> list[RecordingOverview]:
    overviews = [overview_of(run, recording) for recording in run.recordings()]
    return sorted(overviews, key=lambda overview: not overview.has_something)


def overview_of(
    run: Run, recording: RecordingRow, *, within: Span | None = None
) -> RecordingOverview:
    heard = run.heard(recording.id)
    if within:
        heard = _only(heard, within)
    entries = list(run.evidence(recording.id, kinds=("heard", "said"), within=within))
    tracked = [entry for entry in entries if entry.is_tracked]
    sounds = tracked or [entry for entry in entries if entry.kind == "heard"]
    speech = {"Speech", *narrower("Speech")} if sounds else set()
    named = [entry for entry in sounds if entry.text not in speech]
    transcribed = [entry.span for entry in entries if entry.kind == "said"]
    spoken = transcribed or [entry.span for entry in sounds if entry.text in speech]
    has_listened = heard.level is not None or bool(sounds or transcribed)
    loud = _louder_windows(heard, [entry.span for entry in sounds] + transcribed)
    going = _expected_activity(heard)
    sounding = _sounding(heard.level, recording.duration)
    longest = sounding.duration if sounding else recording.duration  # windows reach beyond it
    answered = [
        pick
        for pick in run.picks(recording.id)
        if pick.answer and (within is None or pick.span.overlaps(within))
    ]
    plan = run.plan()
    return RecordingOverview(
        path=recording.path,
        name=recording.title,
        duration=recording.duration,
        active=min(longest, going.hop * float(going.values.sum())) if going else None,
        sounding=sounding,
        louder=min(longest, loud * heard.length) if has_listened else None,
        sounds=tuple(_tally(named)),
        speech=tuple(merge(spoken, gap=PAUSE * min(1.0, recording.duration / 3600))),
        busiest=tuple(_busiest(going, heard.length, recording.duration)) if going else (),
        activities=tuple(_activities(answered)),
        is_named=bool(tracked) or plan.get("sounds") is not None,
        sought=_find_result(run, recording.id) if plan.get("find") else None,
        began=recording.began,
    )


def seen_moments(run: Run, recording: str) -> tuple[Span, ...]:
    sought = _find_result(run, recording)
    return sought.seen if sought else ()


def _find_result(run: Run, recording: str) -> SoughtThing | None:
    question = str(run.plan().get("find") or "")
    picks = run.picks(recording) if question else ()
    answers = [(pick.span, pick.seen) for pick in picks if pick.seen is not None]
    if not answers:
        return None
    meant = json.loads(run.note(f"{SOUNDS_MEANT}{question}") or "[]")
    entries = [entry for entry in run.evidence(recording, kinds=("heard",)) if entry.text in meant]
    sounds = [entry.span for entry in entries if entry.is_tracked]
    spans = _with_sounds([span for span, seen in answers if seen], sounds)
    return SoughtThing(question, len(answers), tuple(merge(spans, gap=TOGETHER)))


def _with_sounds(windows: Iterable[Span], sounds: Sequence[Span]) -> Iterator[Span]:
    """Each of `windows`, extended to the start and end of the sounds that overlap it.

    sound         ▁▁▁▂▆▇▇▇▆▂▁▁▁▁
    window            ├───┤
    moment           ├──────┤
    """
    for window in windows:
        spans = [window, *(sound for sound in sounds if sound.overlaps(window))]
        yield Span(min(span.start for span in spans), max(span.end for span in spans))


def _only(heard: HeardRow, span: Span) -> HeardRow:
    """As if there were silence outside of `span`."""
    starts = np.arange(len(heard)) * heard.length
    is_inside = (starts + heard.length > span.start) & (starts < span.end)
    level = heard.level
    if level:
        times = level.start + np.arange(len(level)) * level.hop
        outside = (times < span.start) | (times >= span.end)
        level = replace(level, values=np.where(outside, -np.inf, level.values))
    return replace(heard, rates=np.where(is_inside, heard.rates, 0.0), level=level)


def _expected_activity(heard: HeardRow) -> Track | None:
    """Probability that an action is going on at each step; None without sound.

    The actions expected in a window may begin anywhere in it.
    """
    is_heard = heard.level is not None and bool(np.isfinite(heard.level.values).any())
    if not is_heard:
        return None
    if len(heard.rates) > 1 and not heard.has_evidence:
        return None
    parts = max(1, round(heard.length / FINEST))
    step = heard.length / parts
    starts = np.repeat(heard.rates / parts, parts)
    # The chance to be still going on at the start of each later step.
    begins = np.append(heard.lengths.reach(step), 0.0)
    begins[0] = 0.0
    going = np.convolve(starts, (begins[:-1] + begins[1:]) / 2)
    return Track(1 - np.exp(-going[: round(heard.duration / step)]), hop=step)


def _sounding(level: Track | None, duration: float) -> Span | None:
    steps = np.flatnonzero(level.values > SILENT_DB) if level else np.empty(0)
    if not level or not len(steps):
        return None
    sounding = Span(float(steps[0] * level.hop), float((steps[-1] + 1) * level.hop))
    # Of two seconds before and after it, one side has the whole second that is listed.
    least = max((1 - MOSTLY) * duration, 2.0)
    return sounding if duration - sounding.duration > least else None


def _louder_windows(heard: HeardRow, spans: Iterable[Span]) -> int:
    louder = np.zeros(len(heard.scores), dtype=np.bool_)
    if not heard.length:
        return 0
    level = heard.level.values if heard.level else np.empty(0)
    sounding = level[np.isfinite(level) & (level > SILENT_DB)]
    if heard.level and len(sounding):
        times = np.arange(len(level)) * heard.level.hop
        loud = times[level >= np.quantile(sounding, 0.1) + LOUDER_DB]
        places = (loud / heard.length).astype(int)
        louder[places[places < len(louder)]] = True
    for span in spans:
        first = int(span.start / heard.length)
        louder[first : int(np.ceil(span.end / heard.length - 1e-9))] = True
    return int(louder.sum())


def _tally(entries: Sequence[EvidenceEntry]) -> list[SoundTally]:
    present = {entry.text for entry in entries}
    families: dict[str, list[EvidenceEntry]] = defaultdict(list)
    for entry in entries:
        families[_widest_family(entry.text, present)].append(entry)
    tallies = []
    for name, members in families.items():
        counts = Counter(entry.text for entry in members if entry.text != name)
        kinds = tuple(sorted(counts, key=lambda kind: (-counts[kind], kind)))
        spans = merge((entry.span for entry in members), gap=TOGETHER)
        tallies.append(SoundTally(name, kinds, tuple(spans)))

    def order(tally: SoundTally) -> tuple[int, float, str]:
        return -len(tally.spans), -sum(span.duration for span in tally.spans), tally.name

    return sorted(tallies, key=order)


def _widest_family(name: str, present: Collection[str]) -> str:
    """Widened as long as it is `present` itself: caw, crow, animal."""
    wider = family_of(name, present)
    return wider if wider == name or wider not in present else _widest_family(wider, present)


def _busiest(going: Track, window: float, duration: float) -> list[Span]:
    """Up to three sections with most expected activity, by time; joined if adjacent.

    Together they are no longer than the expected activity in all, and each contains more than one
    window of it.
    """
    active = going.hop * float(going.values.sum())
    stretch = window * int(min(STRETCH, duration / 12, active / 3) / window)
    if stretch < 2 * window:
        return []
    size = round(stretch / going.hop)
    sums = going.hop * np.add.reduceat(going.values, np.arange(0, len(going), size))
    best = [
        index for index in np.argsort(-sums, kind="stable")[:3].tolist() if sums[index] > window
    ]
    return merge(Span(index * stretch, min(duration, (index + 1) * stretch)) for index in best)


def _activities(picks: Sequence[RunPick]) -> Iterator[Activity]:
    captions = [(pick.span, pick.caption or "") for pick in picks if pick.seen is None]
    leaders = fold_repeats([text for _, text in captions])
    for leader, places in groupby(range(len(captions)), key=leaders.__getitem__):
        *_, last = same = list(places)
        span = Span(captions[leader][0].start, captions[last][0].end)
        yield Activity(span, first_sentence(captions[leader][1]), len(same))


def fold_repeats(texts: Sequence[str | None]) -> list[int]:
    """The index of the text that each is folded into; an empty text ends a row of repeats.

    >>> fold_repeats(["A bench.", "a bench", "The bench, a bench!", "A hammer strikes."])
    [0, 1, 2, 3]
    >>> fold_repeats(["A bench.", "a bench", "A bench!", "A hammer strikes."])
    [0, 0, 0, 3]
    """
    words = [frozenset(stems(text[:COMPARED]) if text else ()) for text in texts]
    leaders = list(range(len(texts)))
    first = 0
    for index in range(1, len(texts) + 1):
        if index < len(texts):
            either, both = words[first] | words[index], words[first] & words[index]
            if 0 < SAME * len(either) <= len(both):
                continue
        if index - first >= FEWEST:
            leaders[first:index] = [first] * (index - first)
        first = index
    return leaders


def first_sentence(text: str, most: int = 120) -> str:
    """Cut to `most` characters.

    >>> first_sentence("A drill turns. Then it stops.")
    'A drill turns.'
    """
    line = " ".join(text.split())
    sentence = re.match(r".+?[.!?](?=\s|$)", line)
    first = sentence[0] if sentence else line
    return first if len(first) <= most else f"{first[: most - 1]}…"
