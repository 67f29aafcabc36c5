"""Summary of a run in a few lines, for the top of the page and `earmark summary`."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from earmark.captioning.yes_or_no import is_seen
from earmark.evidence.evidence_entry import SOUND_TRACK, EvidenceEntry
from earmark.evidence.sound_ontology import family_of, narrower
from earmark.evidence.word_stems import stems
from earmark.gate.listener import SILENT_DB
from earmark.ledger.records import HeardRow, PickRow, RecordingRow
from earmark.ledger.run_reader import Run
from earmark.reporting.text_format import counted, format_length
from earmark.timeline import Span, Track, format_clock, merge

LOUDER_DB = 12.0
"""Decibels above the quiet level of a recording (its 10 % quantile) from which a window is loud."""

MOSTLY = 0.9
"""Share of a recording with sound below which its silent parts are listed."""

FINEST = 0.5
"""Approximate length, in seconds, of the time steps for the expected activity."""

PAUSE = 60.0
"""Longest pause, in seconds, within one section of speech, for a recording of an hour or more;
proportionally less for a shorter one."""

TOGETHER = 5.0
"""Longest pause, in seconds, between two sounds of a kind that count as one."""

STRETCH = 300.0
"""Longest of the busiest sections, in seconds, for a recording of an hour or more."""

MOST_TIMES = 5
"""Highest number of times listed for one sound."""

MOST_SOUNDS = 8
"""Highest number of sounds listed, the most frequent first."""

MOST_ACTIVITIES = 12

MOST_GLANCED = 4
"""Highest number of sounds per run in a list of runs."""

SAME = 0.85
"""Share of the words of two answers that both must contain to count as the same."""

FEWEST = 3
"""Least number of consecutive answers that are folded."""

COMPARED = 10_000
"""Characters of an answer that are compared, since a server may send megabytes."""

UNHEARD = "not listened to: it has no sound, or its windows were chosen without listening"

SOUNDS_MEANT = "sounds meant by "
"""Start of the name of the note with the sounds that match a question; the question follows."""


@dataclass(frozen=True, slots=True)
class SoundTally:
    """A named sound, or several of one family, and when it was heard."""

    name: str
    kinds: tuple[str, ...]
    """Names of the sounds of the family other than `name`, the most frequent first."""
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        times = ", ".join(clock(span.start) for span in self.spans[:MOST_TIMES])
        more = ", …" if len(self.spans) > MOST_TIMES else ""
        kinds = f" ({', '.join(map(short_name, self.kinds))})" if self.kinds else ""
        return f"{short_name(self.name)}{kinds} {len(self.spans)}× at {times}{more}"


@dataclass(frozen=True, slots=True)
class Activity:
    """What captions say about a section of a recording."""

    span: Span
    text: str
    picks: int = 1

    def __str__(self) -> str:
        until = f" – {clock(self.span.end)}" if self.picks > 1 else ""
        return f"{clock(self.span.start)}{until} {self.text}"


@dataclass(frozen=True, slots=True)
class SoughtThing:
    """What `find` searched for in a recording, and the result."""

    question: str
    asked: int
    """Number of windows answered yes or no."""
    seen: tuple[Span, ...]
    """When it was seen, by time: windows answered yes, extended by the matching sounds in them."""

    def __str__(self) -> str:
        if not self.seen:
            return f"“{self.question}” in none of {counted(self.asked, 'window')} asked about"
        times = ", ".join(map(_from_to, self.seen[:MOST_TIMES]))
        rest = len(self.seen) - MOST_TIMES
        more = f" and {rest} more" if rest > 0 else ""
        return f"“{self.question}” {len(self.seen)}× at {times}{more}"


@dataclass(frozen=True, slots=True)
class RecordingOverview:
    """Summary of one recording; times in seconds."""

    path: str
    name: str
    duration: float
    active: float | None
    """Expected seconds with an action going on, from the rates of the sound and the lengths of
    actions; None if there is no sound to estimate it from."""
    sounding: Span | None = None
    """The part with sound, if it is much shorter than the recording; else None."""
    louder: float | None = None
    """Seconds that are loud or have a named sound; None if the recording was not listened to."""
    sounds: tuple[SoundTally, ...] = ()
    """Most frequent first, then longest; without speech."""
    speech: tuple[Span, ...] = ()
    busiest: tuple[Span, ...] = ()
    """By time."""
    activities: tuple[Activity, ...] = ()
    """By time."""
    is_named: bool = False
    """Whether sounds were classified at all."""
    sought: SoughtThing | None = None
    """What `find` searched for, if anything."""

    @property
    def heard_for(self) -> float:
        """Seconds of the part with sound."""
        return self.sounding.duration if self.sounding else self.duration

    @property
    def has_something(self) -> bool:
        """Whether anything loud, named, spoken, captioned or searched for was found."""
        is_seen = self.sought is not None and bool(self.sought.seen)
        return bool(self.louder or self.sounds or self.speech or self.activities or is_seen)

    def lines(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The summary: headings, each with its lines."""
        if self.sought is not None:
            yield "Found", (str(self.sought),)
        if self.active is not None:
            yield "Active", (_describe_active(self.active, self.heard_for),)
        if self.sounding:
            yield "Silent", _describe_silent(self.sounding, self.duration)
        if heard := self._heard_lines():
            yield "Heard", heard
        if self.speech:
            yield "Speech", _first_lines(map(_from_to, self.speech), MOST_TIMES, "other time")
        if self.busiest:
            yield "Busiest", tuple(map(_from_to, self.busiest))
        if self.louder is not None:
            yield "Louder", (_describe_louder(self.louder, self.heard_for),)
        if self.activities:
            captions = map(str, self.activities)
            yield "Activities", _first_lines(captions, MOST_ACTIVITIES, "later caption")
        if self.louder is None and not self.sounds:
            yield "Heard", (UNHEARD,)

    def _heard_lines(self) -> tuple[str, ...]:
        """The named sounds, or a line that there are none; empty if there is only speech."""
        if self.sounds:
            return _first_lines(map(str, self.sounds), MOST_SOUNDS, "other sound")
        if self.speech or self.louder is None:
            return ()
        unnamed = "sounds have no names here: `earmark models get yamnet`"
        return ("nothing that has a name" if self.is_named else unnamed,)


def total_lines(every: Sequence[RecordingOverview]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Summary of many recordings together: headings, each with its lines."""
    if sought := [one.sought for one in every if one.sought]:
        yield "Found", (_describe_found(sought),)
    if heard := [one for one in every if one.active is not None]:
        active = sum(one.active or 0.0 for one in heard)
        yield "Active", (_describe_active(active, sum(one.heard_for for one in heard)),)
    times: dict[str, list[int]] = defaultdict(list)
    for one in every:
        for tally in one.sounds:
            times[tally.name].append(len(tally.spans))
    if times:
        often = sorted(times, key=lambda name: (-len(times[name]), -sum(times[name]), name))
        sounds = (
            f"{short_name(name)} {sum(times[name])}× in {counted(len(times[name]), 'recording')}"
            for name in often
        )
        yield "Heard", _first_lines(sounds, MOST_SOUNDS, "other sound")
    if spoken := [one for one in every if one.speech]:
        yield "Speech", (f"in {counted(len(spoken), 'recording')}",)
    if listened := [one for one in every if one.louder is not None]:
        louder = sum(one.louder or 0.0 for one in listened)
        yield "Louder", (_describe_louder(louder, sum(one.heard_for for one in listened)),)


def _describe_found(sought: Sequence[SoughtThing]) -> str:
    """What `find` searched for in several recordings, and how often it was seen."""
    seen = [one for one in sought if one.seen]
    if not seen:
        asked = counted(sum(one.asked for one in sought), "window")
        return f"“{sought[0].question}” in none of {asked} asked about"
    count = sum(len(one.seen) for one in seen)
    return f"“{seen[0].question}” {count}× in {counted(len(seen), 'recording')}"


def _describe_active(active: float, duration: float) -> str:
    return f"about {format_length(active)} of {format_length(duration)}, estimated from the sound"


def _describe_silent(sounding: Span, duration: float) -> tuple[str, ...]:
    """The parts before and after the sound, of a second or more; nothing is known about them."""
    parts = Span(0.0, sounding.start), Span(sounding.end, max(sounding.end, duration))
    return tuple(f"{_from_to(part)}: no sound to tell by" for part in parts if part.duration >= 1)


def _describe_louder(louder: float, duration: float) -> str:
    why = f"{LOUDER_DB:.0f} dB above the quiet, or a sound with a name"
    return f"{format_length(louder)} of {format_length(duration)} ({why})"


def short_name(sound: str) -> str:
    """The first of the names of a sound, which are separated by commas.

    >>> short_name("Dishes, pots, and pans")
    'Dishes'
    """
    return sound.partition(",")[0]


def clock(seconds: float) -> str:
    """A time in hours, minutes and seconds, without tenths."""
    return format_clock(seconds, tenths=False)


def _from_to(span: Span) -> str:
    start, end = clock(span.start), clock(span.end)
    return start if start == end else f"{start} – {end}"


def _first_lines(lines: Iterable[str], most: int, thing: str) -> tuple[str, ...]:
    """The first `most` lines; if there are more, a last line that counts the rest as `thing`."""
    every = tuple(lines)
    more = len(every) - most
    return (*every[:most], f"and {counted(more, thing)}") if more > 0 else every


def summarise_run(run: Run) -> str:
    """One line on a run for a list of runs, from a few quick queries.

    What `find` looked for, the most frequent sounds, and the first caption.
    """
    parts = []
    if question := run.plan().get("find"):
        parts.append(f"Looked for “{question}”")
    if sounds := run.common_sounds(most=MOST_GLANCED, origin=SOUND_TRACK):
        parts.append(f"Heard {'; '.join(map(short_name, sounds))}")
    start, caption = (0.0, "") if question else run.first_caption()
    if caption:
        parts.append(f"Seen first, at {clock(start)}: {first_sentence(caption, most=80)}")
    return " · ".join(parts)


def overview(run: Run) -> list[RecordingOverview]:
    """Summary of each recording of `run`: first those where something was found, then by path."""
    found = [overview_of(run, recording) for recording in run.recordings()]
    return sorted(found, key=lambda each: not each.has_something)


def overview_of(run: Run, recording: RecordingRow) -> RecordingOverview:
    """Summary of one recording."""
    heard = run.heard(recording.id) or HeardRow(recording.id)
    entries = list(run.evidence(recording.id, kinds=("heard", "said")))
    tracked = [entry for entry in entries if entry.origin == SOUND_TRACK]
    sounds = tracked or [entry for entry in entries if entry.kind == "heard"]
    speech = {"Speech", *narrower("Speech")} if sounds else set()
    named = [entry for entry in sounds if entry.text not in speech]
    transcribed = [entry.span for entry in entries if entry.kind == "said"]
    spoken = transcribed or [entry.span for entry in sounds if entry.text in speech]
    has_listened = heard.level is not None or bool(sounds or transcribed)
    loud = _louder_windows(heard, [entry.span for entry in sounds] + transcribed)
    going = _expected_activity(run, heard)
    sounding = _sounding(heard.level, recording.duration)
    longest = sounding.duration if sounding else recording.duration  # windows reach beyond it
    answered = [row for row in run.picks(recording.id) if row.kept]
    plan = run.plan()
    return RecordingOverview(
        path=recording.path,
        name=recording.title,
        duration=recording.duration,
        active=min(longest, going.hop * float(going.values.sum())) if going else None,
        sounding=sounding,
        louder=min(longest, loud * heard.window) if has_listened else None,
        sounds=tuple(_tally(named)) if named else (),
        speech=tuple(merge(spoken, gap=PAUSE * min(1.0, recording.duration / 3600)))
        if spoken
        else (),
        busiest=tuple(_busiest(going, heard.window, recording.duration)) if going else (),
        activities=tuple(_activities(answered)) if answered else (),
        is_named=bool(tracked) or plan.get("sounds") is not None,
        sought=_find_result(run, recording.id) if plan.get("find") else None,
    )


def seen_moments(run: Run, recording: str) -> tuple[Span, ...]:
    """When `find` saw what it searched for in a recording, by time; empty if it did not search."""
    sought = _find_result(run, recording)
    return sought.seen if sought else ()


def _find_result(run: Run, recording: str) -> SoughtThing | None:
    question = str(run.plan().get("find") or "")
    picks = run.picks(recording) if question else ()
    answers = [(row.span, seen) for row in picks if (seen := is_seen(row.answer)) is not None]
    if not answers:
        return None
    meant = json.loads(run.note(f"{SOUNDS_MEANT}{question}") or "[]")
    heard = run.evidence(recording, kinds=("heard",))
    sounds = [one.span for one in heard if one.origin == SOUND_TRACK and one.text in meant]
    spans = _with_sounds([span for span, is_seen in answers if is_seen], sounds)
    return SoughtThing(question, len(answers), tuple(merge(spans, gap=TOGETHER)))


def _with_sounds(windows: Iterable[Span], sounds: Sequence[Span]) -> Iterator[Span]:
    """Each of `windows`, extended to the start and end of the sounds that overlap it.

    sound         ▁▁▁▂▆▇▇▇▆▂▁▁▁▁
    window            ├───┤
    moment           ├──────┤
    """
    for window in windows:
        every = [window, *(sound for sound in sounds if sound.overlaps(window))]
        yield Span(min(one.start for one in every), max(one.end for one in every))


def _expected_activity(run: Run, heard: HeardRow) -> Track | None:
    """Probability that an action is going on at each step; None without sound to estimate it from.

    The actions expected in a window may begin anywhere in it; their lengths are those of the run.
    """
    survival = run.survival()
    is_heard = heard.level is not None and bool(np.isfinite(heard.level.values).any())
    if not survival or not is_heard:
        return None
    if len(heard.rates) > 1 and not heard.windows(survival).has_evidence:
        return None
    parts = max(1, round(heard.window / heard.per_call / FINEST))
    step = heard.window / heard.per_call / parts
    starts = np.repeat(heard.rates / parts, parts)
    begins = np.append(survival.reach(step), 0.0)  # still going on at the start of each later step
    begins[0] = 0.0
    going = np.convolve(starts, (begins[:-1] + begins[1:]) / 2)
    return Track(1 - np.exp(-going[: round(heard.duration / step)]), hop=step)


def _sounding(level: Track | None, duration: float) -> Span | None:
    """The part with sound, if much of `duration` is silent; else None."""
    heard = np.flatnonzero(level.values > SILENT_DB) if level else np.empty(0)
    if not level or not len(heard):
        return None
    sounding = Span(float(heard[0] * level.hop), float((heard[-1] + 1) * level.hop))
    # Of two seconds before and after it, one side has the whole second that is listed.
    least = max((1 - MOSTLY) * duration, 2.0)
    return sounding if duration - sounding.duration > least else None


def _louder_windows(heard: HeardRow, spans: Iterable[Span]) -> int:
    """Number of windows that are loud or overlap one of `spans` (named sounds and speech)."""
    louder = np.zeros(len(heard.scores), dtype=np.bool_)
    if not heard.window:
        return 0
    level = heard.level.values if heard.level else np.empty(0)
    sounding = level[np.isfinite(level) & (level > SILENT_DB)]
    if heard.level and len(sounding):
        times = np.arange(len(level)) * heard.level.hop
        loud = times[level >= np.quantile(sounding, 0.1) + LOUDER_DB]
        places = (loud / heard.window).astype(int)
        louder[places[places < len(louder)]] = True
    for span in spans:
        first = int(span.start / heard.window)
        louder[first : int(np.ceil(span.end / heard.window - 1e-9))] = True
    return int(louder.sum())


def _tally(every: Sequence[EvidenceEntry]) -> list[SoundTally]:
    """Sounds by family, the most frequent first, then the longest."""
    present = {entry.text for entry in every}
    families: dict[str, list[EvidenceEntry]] = defaultdict(list)
    for entry in every:
        families[_widest_family(entry.text, present)].append(entry)
    tallies = []
    for name, members in families.items():
        often = Counter(entry.text for entry in members if entry.text != name)
        kinds = tuple(sorted(often, key=lambda kind: (-often[kind], kind)))
        spans = merge((entry.span for entry in members), gap=TOGETHER)
        tallies.append(SoundTally(name, kinds, tuple(spans)))

    def place(one: SoundTally) -> tuple[int, float, str]:
        return -len(one.spans), -sum(span.duration for span in one.spans), one.name

    return sorted(tallies, key=place)


def _widest_family(name: str, present: Collection[str]) -> str:
    """The family of `name`, widened as long as it is `present` itself: caw, crow, animal."""
    wider = family_of(name, present)
    return wider if wider == name or wider not in present else _widest_family(wider, present)


def _busiest(going: Track, window: float, duration: float) -> list[Span]:
    """Up to three sections with most expected activity, by time; joined if adjacent.

    Together they are no longer than the expected activity in all, and each contains more than one
    window of it. Empty if a section would be shorter than two windows.
    """
    active = going.hop * float(going.values.sum())
    stretch = window * int(min(STRETCH, duration / 12, active / 3) / window)
    if stretch < 2 * window:
        return []
    size = round(stretch / going.hop)
    sums = going.hop * np.add.reduceat(going.values, np.arange(0, len(going), size))
    best = [
        place for place in np.argsort(-sums, kind="stable")[:3].tolist() if sums[place] > window
    ]
    return merge(Span(p * stretch, min(duration, (p + 1) * stretch)) for p in best)


def _activities(picks: Sequence[PickRow]) -> Iterator[Activity]:
    """The captions by time, consecutive repeats joined; without answers to `find`."""
    captions = [(row.span, row.caption or "") for row in picks if is_seen(row.answer) is None]
    leaders = fold_repeats([text for _, text in captions])
    for leader, places in groupby(range(len(captions)), key=leaders.__getitem__):
        *_, last = same = list(places)
        span = Span(captions[leader][0].start, captions[last][0].end)
        yield Activity(span, first_sentence(captions[leader][1]), len(same))


def fold_repeats(texts: Sequence[str | None]) -> list[int]:
    """For each of `texts`, in order of time, the index of the text it is folded into.

    Its own index if it is not folded. A missing or empty text ends a row of repeats.

    >>> fold_repeats(["A bench.", "a bench", "The bench, a bench!", "A hammer strikes."])
    [0, 1, 2, 3]
    >>> fold_repeats(["A bench.", "a bench", "A bench!", "A hammer strikes."])
    [0, 0, 0, 3]
    """
    words = [frozenset(stems(text[:COMPARED]) if text else ()) for text in texts]
    leaders = list(range(len(texts)))
    first = 0
    for place in range(1, len(texts) + 1):
        if place < len(texts):
            one, other = words[first], words[place]
            if 0 < SAME * len(one | other) <= len(one & other):
                continue
        if place - first >= FEWEST:
            leaders[first:place] = [first] * (place - first)
        first = place
    return leaders


def first_sentence(text: str, most: int = 120) -> str:
    """The first sentence of an answer, cut to `most` characters.

    >>> first_sentence("A drill turns. Then it stops.")
    'A drill turns.'
    """
    line = " ".join(text.split())
    found = re.match(r".+?[.!?](?=\s|$)", line)
    first = found[0] if found else line
    return first if len(first) <= most else f"{first[: most - 1]}…"
