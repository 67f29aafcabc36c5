"""The day: when work went on, what it was, what is worth a look, what it cost, what is missing.

`show`, the report, `serve` and agents all show this one record.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import numpy as np

from earmark.captioning.dispatch import Tally
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_query import narrower
from earmark.evidence.sound_taste import SoundTaste
from earmark.gate.forecast_error import as_range
from earmark.gate.listener import SILENT_DB
from earmark.media.source import place_of
from earmark.report.find_result import SoughtThing, find_result
from earmark.report.moments import Moment, Pictures, Reason, says_same
from earmark.report.sound_ranking import (
    SoundTally,
    also_named,
    best_name,
    join_alike,
    rank_sounds,
    short_name,
    trust,
)
from earmark.run.records import HeardRow, RecordingRow, RunPick, Totals
from earmark.run.run import Run
from earmark.text_format import Heading, counted, format_length, format_spend
from earmark.timeline import Span, Track, format_clock, merge
from earmark.wall_clock import describe_began, time_of_day

FINEST = 0.5
"""Seconds of a step of the expected activity, at most."""

SMOOTH = 30.0
"""Seconds over which activity is averaged to find when work went on."""

PAUSE = 120.0
"""Seconds of rest within one stretch of work, for a recording of an hour; less for a shorter one.
The same holds for speech, at half of it."""

SHORTEST = 10.0
"""Seconds of a stretch of work."""

SURE, LASTING = 0.5, 3.0
"""Confidence and seconds from which a sound of hands or tools is work by itself."""

MOST_RECORDINGS = 200
"""Of a run that is shown as a whole; of a longer one only the last day is."""

MOST_LINES = 6
MOST_MOMENTS = 12
MOST_TIMES = 5
MOST_ALIKE = 3
"""Moments of one sound among those worth a look."""

WANTED = -1e6
"""Rank of what was looked for or marked on the camera: before all else."""

FEWEST = 3
"""Answers in a row that say the same, to be folded."""


@dataclass(frozen=True, slots=True)
class RecordingDay:
    row: RecordingRow
    active: float | None
    """Expected seconds with an action going on; None if there is no sound to estimate it from."""
    work: tuple[Span, ...]
    """When work went on, together about as long as `active`."""
    sounds: tuple[SoundTally, ...]
    """The most important first; without speech."""
    speech: tuple[Span, ...]
    activities: tuple[Reason, ...]
    """Captions, repeats folded; their span is that of all repeats."""
    silent: tuple[Span, ...]
    """Before the first and after the last sound, if that is much of the recording."""
    is_heard: bool
    sought: SoughtThing | None = None
    paragraph: Mapping[str, Any] | None = None
    """Cited sentences that a model wrote, as JSON; None if none was asked."""

    def clock(self, seconds: float) -> str:
        """The time of day, or if that is not known since the beginning."""
        return self.row.clock(seconds) or format_clock(seconds, tenths=False)

    def from_to(self, span: Span) -> str:
        start, end = self.clock(span.start), self.clock(span.end)
        return start if start == end else f"{start}–{end}"

    def minutes(self, span: Span) -> str:
        """By the clock to the minute; with the name of the recording if there is no clock."""
        if not self.row.began:
            return f"{place_of(self.row.title)} {self.from_to(span)}"
        start, end = (self.row.clock(time)[:5] for time in (span.start, span.end))
        return start if start == end else f"{start}–{end}"

    @property
    def has_something(self) -> bool:
        is_seen = self.sought is not None and bool(self.sought.seen)
        return bool(self.work or self.sounds or self.speech or self.activities or is_seen)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Headings, each with what is to be said."""
        if self.sought:
            yield "Found", self.sought.line(self.from_to)
        if self.paragraph:
            yield "Summary", " ".join(each["text"] for each in self.paragraph["sentences"])
        if self.active is not None:
            yield "Work", _describe_work(self.active, self.row.duration, self._times(self.work))
        if self.sounds:
            named = (_sound_line(each, self._times(each.spans)) for each in self.sounds)
            yield "Sounds", "; ".join(_first(named, MOST_LINES, "other sound"))
        if self.silent:
            yield "Silent", ", ".join(self._times(self.silent))
        if self.speech:
            yield "Speech", ", ".join(self._times(self.speech))
        seen = (
            f"{self.from_to(each.span)} {first_sentence(each.text)}" for each in self.activities
        )
        yield from (("Seen", line) for line in _first(seen, MOST_LINES, "later caption"))
        if not self.is_heard:
            yield "Sounds", UNHEARD
        elif not (self.sounds or self.speech):
            yield "Sounds", "none with a name"

    def _times(self, spans: Iterable[Span]) -> list[str]:
        return _first(map(self.from_to, spans), MOST_TIMES, "other time")

    def to_json(self) -> dict[str, Any]:
        row = self.row
        return {
            "recording": row.id,
            "name": row.title,
            "began": row.began or None,
            "duration": round(row.duration, 1),
            "active": None if self.active is None else round(self.active, 1),
            "work": _pairs(self.work),
            "sounds": [tally.to_json() for tally in self.sounds[:MOST_LINES]],
            "speech": _pairs(self.speech),
            "activities": [reason.to_json() for reason in self.activities[: 2 * MOST_LINES]],
            "paragraph": self.paragraph,
            "lines": list(self.lines()),
        }


UNHEARD = "not listened to: it has no sound, or its windows were chosen without listening"


@dataclass(frozen=True, slots=True)
class DayLine:
    """One kind of sound over all recordings of the day."""

    name: str
    also: tuple[str, ...]
    """Other names that were given to it."""
    count: int
    seconds: float
    moments: tuple[Moment, ...]
    """By time, one for each time."""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "also": list(self.also),
            "count": self.count,
            "seconds": round(self.seconds, 1),
            "moments": [moment.to_json() for moment in self.moments[: 2 * MOST_TIMES]],
        }


@dataclass(frozen=True, slots=True)
class Day:
    title: str
    """Its date, from when until when, and the zone; empty if no clock is known."""
    recordings: tuple[RecordingDay, ...]
    """Those in which something happened first."""
    lines: tuple[DayLine, ...]
    """What it was, the most important first."""
    moments: tuple[Moment, ...]
    """Worth a look, by time."""
    totals: Totals
    cost: str
    missing: tuple[str, ...]
    """What is probably missed, and what could not be processed."""
    days: tuple[tuple[str, int], ...] = ()
    """Every date of the run with its number of recordings, the last first."""
    paragraph: Mapping[str, Any] | None = None

    @property
    def duration(self) -> float:
        return sum(each.row.duration for each in self.recordings)

    @property
    def active(self) -> float | None:
        known = [each.active for each in self.recordings if each.active is not None]
        return sum(known) if known else None

    @property
    def head(self) -> str:
        when = self.title or "time of day unknown"
        count = counted(len(self.recordings), "recording")
        return f"{when} · {count}, {format_length(self.duration)}"

    def sections(self) -> Iterator[tuple[str, list[str]]]:
        """Headings, each with its lines, as a terminal and an agent read them."""
        found = [each.sought for each in self.recordings if each.sought]
        if found:
            seen = sum(len(each.seen) for each in found)
            asked = counted(sum(each.asked for each in found), "window")
            what = f"“{found[0].question}” {seen}×" if seen else f"“{found[0].question}” in none"
            yield "Found", [f"{what} of {asked} asked about" if not seen else what]
        if self.paragraph:
            yield "Summary", [" ".join(each["text"] for each in self.paragraph["sentences"])]
        if self.active is not None:
            work = (each.minutes(span) for each in self.by_time() for span in each.work)
            times = _first(work, 4 * MOST_TIMES, "other time")
            yield "Work", [_describe_work(self.active, self.duration, []), ", ".join(times)]
        if self.lines:
            yield "What it was", [_describe_line(line) for line in self.lines[:MOST_LINES]]
        if self.moments:
            yield "Worth a look", [_describe_moment(moment) for moment in self.moments]
        yield "Cost", [self.cost]
        if self.missing:
            yield "Missing", list(self.missing)

    def by_time(self) -> list[RecordingDay]:
        return sorted(self.recordings, key=lambda each: (each.row.began, each.row.path))

    def text(self) -> Iterator[str]:
        yield Heading(self.head)
        for heading, lines in self.sections():
            for number, line in enumerate(lines):
                yield f"  {'' if number else heading:<13}{line}"
        for each in self.recordings[:MOST_LINES] if len(self.recordings) > 1 else ():
            began = describe_began(each.row.began, each.row.clock_origin)
            yield Heading(f"\n{place_of(each.row.title)}  {began}".rstrip())
            yield from (f"  {heading:<13}{line}" for heading, line in each.lines())
        if len(self.recordings) > MOST_LINES:
            yield f"\nand {counted(len(self.recordings) - MOST_LINES, 'more recording')}"

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "head": self.head,
            "duration": round(self.duration, 1),
            "active": None if self.active is None else round(self.active, 1),
            "recordings": [each.to_json() for each in self.recordings],
            "lines": [line.to_json() for line in self.lines],
            "moments": [moment.to_json() for moment in self.moments],
            "cost": self.cost,
            "missing": list(self.missing),
            "days": list(self.days),
            "paragraph": self.paragraph,
            "sections": list(self.sections()),
        }


def read_day(
    run: Run,
    *,
    date: str = "",
    rows: Sequence[RecordingRow] | None = None,
    taste: SoundTaste | None = None,
) -> Day:
    """The recordings of `date`, such as 2026-11-16; if it is empty those of the whole run.

    Of a run with more than `MOST_RECORDINGS`, those of its last day. `rows` are the recordings to
    choose from, all if not given.
    """
    rows, taste = run.recordings() if rows is None else rows, taste or taste_of(run)
    counts = Counter(row.began[:10] for row in rows)
    if not date and len(rows) > MOST_RECORDINGS:
        date = max(counts)
    rows = [row for row in rows if not date or row.began[:10] == date][:MOST_RECORDINGS]
    recordings = read_recordings(run, rows, taste)
    pictures, totals = Pictures(run), run.totals()
    lines = tuple(_day_lines(recordings, pictures))
    return Day(
        title=_title(rows),
        recordings=tuple(sorted(recordings, key=lambda each: not each.has_something)),
        lines=lines,
        moments=tuple(_worth_a_look(recordings, lines, pictures)),
        totals=totals,
        cost=describe_cost(totals, run.spent(), run.note("currency")),
        missing=tuple(_describe_missing(run, totals, recordings)),
        days=tuple(sorted(((day, n) for day, n in counts.items() if day), reverse=True)),
        paragraph=run.paragraph(""),
    )


def taste_of(run: Run) -> SoundTaste:
    plan = run.plan()
    return SoundTaste(tuple(plan.get("ignore", ())), tuple(plan.get("favour", ())))


def read_recordings(
    run: Run,
    rows: Sequence[RecordingRow],
    taste: SoundTaste | None = None,
    *,
    within: Span | None = None,
) -> list[RecordingDay]:
    """Names of sounds are those that all of `rows` agree on; only what lies `within` if given."""
    taste = taste or taste_of(run)
    own = [_read_recording(run, row, taste, within) for row in rows]
    joined = join_alike([each.sounds for each in own])
    return [replace(day, sounds=tuple(sounds)) for day, sounds in zip(own, joined, strict=True)]


def _read_recording(
    run: Run, row: RecordingRow, taste: SoundTaste, within: Span | None
) -> RecordingDay:
    heard = run.heard(row.id)
    if within:
        heard = _only(heard, within)
    entries = run.evidence(row.id, kinds=("heard", "said"), within=within)
    named, spoken = split_speech(entries)
    going = expected_activity(heard, named)
    silent = find_silence(heard.level, row.duration)
    sounding = row.duration - sum(span.duration for span in silent)
    active = min(sounding, going.hop * float(going.values.sum())) if going else None
    pause = min(1.0, row.duration / 3600)
    picks = [pick for pick in run.picks(row.id) if not within or pick.span.overlaps(within)]
    return RecordingDay(
        row=row,
        active=active,
        work=tuple(find_work(going, named, row.duration)) if going else (),
        sounds=tuple(rank_sounds(heard, named, taste, row.duration)),
        speech=tuple(merge(spoken, gap=PAUSE / 2 * pause)),
        activities=tuple(_activities(picks)),
        silent=tuple(silent),
        is_heard=heard.level is not None or bool(named or spoken),
        sought=find_result(run, row.id, picks),
        paragraph=run.paragraph(row.id),
    )


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


def split_speech(entries: Sequence[EvidenceEntry]) -> tuple[list[EvidenceEntry], list[Span]]:
    """Sounds other than speech, and when there is speech: as transcribed, else as named.

    If the sounds of the whole recording were named, those of single windows are left out.
    """
    tracked = [entry for entry in entries if entry.is_tracked]
    sounds = tracked or [entry for entry in entries if entry.kind == "heard"]
    speech = {"Speech", *narrower("Speech")}
    said = [entry.span for entry in entries if entry.kind == "said"]
    spoken = said or [entry.span for entry in sounds if entry.text in speech]
    return [entry for entry in sounds if entry.text not in speech], spoken


def sound_lanes(day: RecordingDay) -> list[dict[str, Any]]:
    """The most important sounds, each with its spans, for a timeline."""
    return [
        {"name": tally.title, "entries": _pairs(tally.spans)} for tally in day.sounds[:MOST_LINES]
    ]


def speech_lane(entries: Sequence[EvidenceEntry]) -> list[dict[str, Any]]:
    """Speech as the summary counts it; with its words if it was transcribed."""
    words = {entry.span: entry.text for entry in entries if entry.kind == "said"}
    _, spoken = split_speech(entries)
    return [{**asdict(span), "text": words.get(span, "")} for span in spoken]


def expected_activity(heard: HeardRow, sounds: Sequence[EvidenceEntry] = ()) -> Track | None:
    """Probability that an action is going on at each step; None without sound.

    The actions expected in a window may begin anywhere in it. Named `sounds` of hands and tools
    count by their confidence.
    """
    is_heard = heard.level is not None and bool(np.isfinite(heard.level.values).any())
    if not is_heard or (len(heard.rates) > 1 and not heard.has_evidence):
        return None
    parts = max(1, round(heard.length / FINEST))
    step = heard.length / parts
    starts = np.repeat(heard.rates / parts, parts)
    # The chance to be still going on at the start of each later step.
    begins = np.append(heard.lengths.reach(step), 0.0)
    begins[0] = 0.0
    going = np.convolve(starts, (begins[:-1] + begins[1:]) / 2)
    idle = np.exp(-going[: round(heard.duration / step)])
    for entry in sounds:
        if trust(entry.text) == 1.0:
            first, last = int(entry.span.start / step), int(np.ceil(entry.span.end / step))
            idle[first:last] = np.minimum(idle[first:last], 1 - entry.confidence)
    return Track(1 - idle, hop=step)


def find_work(going: Track, sounds: Sequence[EvidenceEntry], duration: float) -> list[Span]:
    """The stretches with most activity, about as long as the activity in all, and sure sounds.

    activity   ▁▁▁▂▅▇▆▇▅▂▁▁▁▂▁▁▁▆▇▅▁▁▁▁▁
    drill                              ├─┤
    work          ├─────┤       ├──┤   ├─┤
    """
    steps = max(1, round(min(SMOOTH, duration / 20) / going.hop))
    smooth = np.convolve(going.values, np.full(steps, 1 / steps), mode="same")
    count = round(float(going.values.sum()))
    active = np.empty(0, dtype=int)
    if count and float(np.ptp(smooth)):
        least = np.sort(smooth)[-min(count, len(smooth))]
        active = np.flatnonzero(smooth >= max(0.8 * least, 1e-9))  # to the ends of a plateau
    hop, pause = going.hop, PAUSE * min(1.0, duration / 3600)
    spans = merge((Span(step * hop, (step + 1) * hop) for step in active.tolist()), gap=hop)
    shortest = min(SHORTEST, duration / 20)
    tools = [
        entry.span
        for entry in sounds
        if entry.confidence >= SURE and trust(entry.text) == 1.0 and entry.span.duration >= LASTING
    ]
    spans = merge([*tools, *(span for span in spans if span.duration >= shortest)], gap=pause)
    return [Span(span.start, min(span.end, duration)) for span in spans if span.start < duration]


def find_silence(level: Track | None, duration: float) -> list[Span]:
    """Before the first and after the last sound; empty unless it is a tenth of the recording."""
    steps = np.flatnonzero(level.values > SILENT_DB) if level else np.empty(0)
    if not level or not len(steps):
        return []
    first, last = float(steps[0] * level.hop), float((steps[-1] + 1) * level.hop)
    spans = [Span(0.0, first), Span(min(last, duration), duration)]
    is_long = sum(span.duration for span in spans) > max(0.1 * duration, 2.0)
    return [span for span in spans if span.duration >= 1] if is_long else []


def _activities(picks: Sequence[RunPick]) -> Iterator[Reason]:
    captioned = [pick for pick in picks if pick.answer and pick.seen is None and pick.caption]
    leaders = fold_repeats([pick.caption for pick in captioned])
    for leader, places in groupby(range(len(captioned)), key=leaders.__getitem__):
        *_, last = list(places)
        first = captioned[leader]
        span = Span(first.span.start, captioned[last].span.end)
        model = first.answer.model if first.answer else ""
        yield Reason("caption", first.caption or "", span, model=model)


def fold_repeats(texts: Sequence[str | None]) -> list[int]:
    """The index of the text that each is folded into; an empty text ends a row of repeats.

    >>> fold_repeats(["A bench.", "a bench", "The bench, a bench!", "A hammer strikes."])
    [0, 1, 2, 3]
    >>> fold_repeats(["A bench.", "a bench", "A bench!", "A hammer strikes."])
    [0, 0, 0, 3]
    """
    leaders = list(range(len(texts)))
    first = 0
    for index in range(1, len(texts) + 1):
        if index < len(texts) and says_same(texts[first] or "", texts[index] or ""):
            continue
        if index - first >= FEWEST:
            leaders[first:index] = [first] * (index - first)
        first = index
    return leaders


def _day_lines(recordings: Sequence[RecordingDay], pictures: Pictures) -> Iterator[DayLine]:
    groups: dict[str, list[tuple[RecordingDay, SoundTally]]] = defaultdict(list)
    for each in recordings:
        for tally in each.sounds:
            groups[tally.name].append((each, tally))
    ranked = sorted(groups.values(), key=lambda own: (-_weight(own), own[0][1].name))
    for own in ranked[: 2 * MOST_LINES]:
        sizes: Counter[str] = Counter()
        for _, tally in own:
            sizes.update(tally.sizes)
        moments = [
            sound_moment(each, tally, span, pictures) for each, tally in own for span in tally.spans
        ]
        yield DayLine(
            name=best_name(sizes),
            also=tuple(also_named(sizes)),
            count=len(moments),
            seconds=sum(tally.seconds for _, tally in own),
            moments=tuple(sorted(moments, key=_when)),
        )


def _weight(own: Sequence[tuple[RecordingDay, SoundTally]]) -> float:
    return sum(tally.weight for _, tally in own)


def sound_moment(each: RecordingDay, tally: SoundTally, span: Span, pictures: Pictures) -> Moment:
    """A sound, and what a model saw while it was heard."""
    reasons = [Reason("heard", tally.title, span, tally.confidence)]
    after = bisect_left(each.activities, span.end, key=lambda reason: reason.span.start)
    seen = next((own for own in each.activities[max(0, after - 1) : after]), None)
    if seen and seen.span.overlaps(span):
        start, end = max(seen.span.start, span.start), min(seen.span.end, span.end)
        reasons.append(replace(seen, span=Span(start, end)))
    picture = pictures.best(each.row.id, span)
    return Moment.of(each.row, *reasons, picture=picture, rank=-_value(tally, span))


def _value(tally: SoundTally, span: Span) -> float:
    share = span.duration / max(tally.seconds, 1e-9)
    return tally.weight * share


def _when(moment: Moment) -> tuple[str, str, float]:
    return moment.clock, moment.path, moment.span.start


def _worth_a_look(
    recordings: Sequence[RecordingDay], lines: Sequence[DayLine], pictures: Pictures
) -> list[Moment]:
    """What was looked for or marked on the camera; then sounds and captions, by time.

    No more than `MOST_ALIKE` of one kind.
    """
    first = [moment for each in recordings for moment in _wanted(each)]
    alike: Counter[str] = Counter()
    rest: list[Moment] = []
    for moment in sorted(
        [moment for line in lines for moment in line.moments]
        + [moment for each in recordings for moment in _captioned(each)],
        key=lambda moment: moment.rank,
    ):
        text = moment.telling[0].text
        is_new = alike[text] < MOST_ALIKE and not any(
            other.recording == moment.recording and other.span.overlaps(moment.span)
            for other in (*first, *rest)
        )
        if is_new:
            alike[text] += 1
            rest.append(moment)
        if len(rest) + len(first) >= MOST_MOMENTS:
            break
    chosen = sorted((*first[:MOST_MOMENTS], *rest), key=_when)
    return [
        replace(moment, picture=pictures.best(moment.recording, moment.span)) for moment in chosen
    ]


def _wanted(each: RecordingDay) -> Iterator[Moment]:
    row = each.row
    for span in each.sought.seen if each.sought else ():
        reason = Reason("seen", each.sought.question if each.sought else "", span)
        yield Moment.of(row, reason, rank=WANTED)
    for time in row.marks:
        span = Span(max(0.0, time - 5), min(row.duration, time + 5))
        reason = Reason("marked", "marked on the camera", span)
        yield Moment.of(row, reason, rank=WANTED)


def _captioned(each: RecordingDay) -> Iterator[Moment]:
    for reason in each.activities:
        yield Moment.of(each.row, reason, rank=-0.1 * reason.span.duration)


def _title(rows: Sequence[RecordingRow]) -> str:
    """Date and times of day from the first to the last recording, with the zone."""
    known = [row for row in rows if row.began]
    if not known:
        return ""
    begins = [datetime.fromisoformat(row.began) for row in known]
    ends = [time + timedelta(seconds=row.duration) for time, row in zip(begins, known, strict=True)]
    try:
        first, last = min(begins), max(ends)
    except TypeError:  # some without a zone
        first, last = (
            pick(time.replace(tzinfo=None) for time in times)
            for pick, times in ((min, begins), (max, ends))
        )
    zone = f" ({first.isoformat()[-6:]})" if first.tzinfo else " by the camera (zone unknown)"
    date = f"{first:%A} {first.day} {first:%B %Y}"
    if last.date() == first.date():
        return f"{date}, {first:%H:%M}–{last:%H:%M}{zone}"
    return f"{date} to {last:%A} {last.day} {last:%B %Y}{zone}"


def describe_cost(totals: Totals, spent: Tally, currency: str = "") -> str:
    """Of all calls of the run, also those about words and about what was forgotten since."""
    if not spent.calls_before:
        picks = counted(totals.picks, "moment")
        return f"{picks} chosen; no model was asked, nothing was spent"
    failed = f", {totals.failed} failed" if totals.failed else ""
    money = format_spend(spent.spend_before, currency)
    return f"{counted(spent.calls_before, 'call')}{failed}, {spent.tokens_before:,} tokens{money}"


def _describe_missing(
    run: Run, totals: Totals, recordings: Sequence[RecordingDay]
) -> Iterator[str]:
    (share, bounds), (actions, _) = totals.forecast(run.forecast_error())
    if share is not None and actions:
        reached = "are expected in the windows chosen"
        yield f"{as_range(share, bounds)} of about {actions:.0f} actions {reached}"
    if unheard := sum(not each.is_heard for each in recordings):
        yield f"{counted(unheard, 'recording')} could not be listened to"
    if failed := len(run.failed_recordings()):
        yield f"{counted(failed, 'recording')} could not be processed"
    if waiting := totals.picks - totals.answered - totals.failed if totals.asked else 0:
        yield f"{counted(waiting, 'window')} chosen and not asked about yet"


def _describe_work(active: float, duration: float, times: Sequence[str]) -> str:
    estimate = f"about {format_length(active)} of {format_length(duration)}, by the sound"
    return f"{estimate}: {', '.join(times)}" if times else estimate


def _sound_line(tally: SoundTally, times: Sequence[str]) -> str:
    return f"{tally.title} {len(tally.spans)}× ({', '.join(times)})"


def _describe_line(line: DayLine) -> str:
    also = f" (also named {', '.join(line.also[:2])})" if line.also else ""
    times = _first(map(_clock, line.moments), MOST_TIMES, "other time")
    return f"{line.name}{also} {line.count}×, {format_length(line.seconds)}: {', '.join(times)}"


def _describe_moment(moment: Moment) -> str:
    what = first_sentence(moment.telling[0].text)
    day = time_of_day(moment.began, moment.span.start)
    return f"{f'{day}  ' if day else ''}{place_of(moment.name)} {moment.times}  {what}"


def _clock(moment: Moment) -> str:
    day = time_of_day(moment.began, moment.span.start)
    return day or f"{place_of(moment.name)} {format_clock(moment.span.start, tenths=False)}"


def first_sentence(text: str, most: int = 120) -> str:
    """Cut to `most` characters.

    >>> first_sentence("A drill turns. Then it stops.")
    'A drill turns.'
    """
    line = " ".join(text.split())
    sentence = re.match(r".+?[.!?](?=\s|$)", line)
    first = sentence[0] if sentence else line
    return first if len(first) <= most else f"{first[: most - 1]}…"


def summarise_run(run: Run) -> str:
    """What `find` looked for, the most important sounds, and the first caption, in one line."""
    parts = []
    if question := run.plan().get("find"):
        parts.append(f"Looked for “{question}”")
    taste = taste_of(run)
    weights = {name: size * trust(name) * taste.weight(name) for name, size in run.sound_sizes()}
    names = sorted((name for name in weights if weights[name]), key=lambda name: -weights[name])
    if names:
        parts.append(f"Heard {'; '.join(map(short_name, names[:MOST_ALIKE]))}")
    start, caption = (0.0, "") if question else run.first_caption()
    if caption:
        when = format_clock(start, tenths=False)
        parts.append(f"Seen first, at {when}: {first_sentence(caption, most=80)}")
    return " · ".join(parts)


def _pairs(spans: Iterable[Span]) -> list[tuple[float, float]]:
    return [(round(span.start, 2), round(span.end, 2)) for span in spans]


def _first(texts: Iterable[str], most: int, thing: str) -> list[str]:
    listed = list(texts)
    more = len(listed) - most
    return [*listed[:most], f"and {counted(more, thing)}"] if more > 0 else listed
