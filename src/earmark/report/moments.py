"""A moment: where and when something is, why it is listed, and the picture that shows it.

Search, sounds, `find`, `ask` and the day all list moments; pages, REST and agents read one JSON.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from earmark.evidence.evidence_entry import KINDS
from earmark.evidence.sound_query import stems
from earmark.media.source import name_of, place_of
from earmark.report.editing_formats import Clip, in_chapters
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.text_format import Heading
from earmark.timeline import Span, format_clock
from earmark.wall_clock import time_of_day

ORDER = ("caption", "marked", *KINDS, "tags")

MOST_TEXTS = 4
"""Most texts printed for each kind of evidence of a moment."""

SAME = 0.85
"""Share of the words of two texts that both must contain to say the same."""

MOST_TEXT = 4000
"""Most characters of a text on pages and in answers to programs; the run has all of it."""

COMPARED = 10_000
"""Characters of a text, since a server may send megabytes."""


def shortened(text: str) -> str:
    cut = f"… ({len(text):,} characters in all; the run has them)"
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}{cut}"


@dataclass(frozen=True, slots=True)
class Reason:
    kind: str
    """`caption`, `tags`, `marked` (on the camera), or a kind of evidence."""
    text: str
    span: Span
    confidence: float | None = None
    model: str = ""

    @property
    def line(self) -> str:
        model = self.model.removesuffix(" track")  # marks sounds of the whole recording
        is_sure = self.confidence is None
        return self.text if is_sure else f"{self.text} ({self.confidence:.2f}, {model})"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "start": round(self.span.start, 3),
            "end": round(self.span.end, 3),
            "text": shortened(self.text),
            "confidence": None if self.confidence is None else round(self.confidence, 3),
            "model": self.model or None,
        }


@dataclass(frozen=True, slots=True)
class Moment:
    """A stretch of a recording, and all entries that describe it.

    tags       ├────┤    ├────┤      of picked windows: names of what is heard there
    heard        ├────────┤          a named sound, a caption or a text, from its start to its end
    moment       ├────────┤          tags count only where nothing else is found
    """

    recording: str
    name: str
    path: str
    reasons: tuple[Reason, ...]
    """The best first, tags last."""
    began: str = ""
    chapters: tuple[tuple[str, float], ...] = ()
    picture: Span | None = None
    """The window whose picture the run has stored."""
    run: str = ""
    rank: float = 0.0
    """Lower is better; only moments of one list can be compared."""
    spans: tuple[Span, ...] = ()
    """Of neighbours that say the same and form one moment; empty unless there are several."""
    thumbnail: bytes = b""

    @classmethod
    def of(cls, row: RecordingRow, *reasons: Reason, **facts: Any) -> Moment:
        return cls(row.id, row.title, row.path, reasons, row.began, row.chapters, **facts)

    @property
    def telling(self) -> tuple[Reason, ...]:
        return tuple(reason for reason in self.reasons if reason.kind != "tags") or self.reasons

    @property
    def span(self) -> Span:
        spans = [reason.span for reason in self.telling]
        return Span(min(span.start for span in spans), max(span.end for span in spans))

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in ORDER if any(each.kind == kind for each in self.telling))

    @property
    def clips(self) -> list[Clip]:
        """In its file, or in each chapter that it touches."""
        return in_chapters(Clip(self.path, self.span.start, self.span.end), self.chapters)

    @property
    def clock(self) -> str:
        """Date and time of day at which it begins; empty if that is not known."""
        return time_of_day(self.began, self.span.start, date=True, zone=True)

    @property
    def text(self) -> str:
        return self.telling[0].text

    @property
    def kind(self) -> str:
        return self.telling[0].kind

    @property
    def times(self) -> str:
        return f"{format_clock(self.span.start)} - {format_clock(self.span.end)}"

    @property
    def place(self) -> str:
        """Recording, time in it, and the time of day if it is known."""
        day = f" ({self.clock})" if self.clock else ""
        return f"{place_of(self.name)} {self.times}{day}"

    def lines(self) -> Iterator[str]:
        """The recording and time, and the matching texts by kind of evidence."""
        count = f"  {len(self.spans)}×" if self.spans else ""
        yield Heading(f"{self.place}{count}")
        for clip in self.clips if self.chapters else ():
            times = f"{format_clock(clip.start)} - {format_clock(clip.end)}"
            yield f"  in {place_of(name_of(clip.path))}: {times}"
        for kind in self.kinds:
            texts = list(dict.fromkeys(each.line for each in self.telling if each.kind == kind))
            more = [f"… and {len(texts) - MOST_TEXTS} more"] if len(texts) > MOST_TEXTS else []
            line = "; ".join(texts[:MOST_TEXTS] + more)
            yield f"  {'heard' if kind == 'tags' else kind}: {line}"

    def to_json(self) -> dict[str, Any]:
        clip = self.clips[0]
        return {
            "run": self.run,
            "recording": self.recording,
            "name": self.name,
            "path": self.path,
            "start": round(self.span.start, 3),
            "end": round(self.span.end, 3),
            "clock": self.clock or None,
            "began": self.began or None,
            "part": [path for path, _ in self.chapters or ((clip.path, 0),)].index(clip.path),
            "file": clip.path,
            "file_start": round(clip.start, 3),
            "kinds": list(self.kinds),
            "reasons": [reason.to_json() for reason in self.reasons],
            "spans": [(round(span.start, 3), round(span.end, 3)) for span in self.spans],
            "picture": (self.picture.start, self.picture.end) if self.picture else None,
            "rank": round(self.rank, 4),
        }


def join_reasons(reasons: Iterable[Reason]) -> Iterator[tuple[Reason, ...]]:
    """Those that overlap, and those with the same text in adjacent windows, by time.

    A sound heard in a window is left out if the track of that sound is among them.
    """
    reasons = list(reasons)
    tracks = {reason.text for reason in reasons if reason.model.endswith(" track")}
    group: list[Reason] = []
    end, ends = 0.0, dict[tuple[str, str], float]()
    for reason in sorted(reasons, key=lambda each: each.span):
        is_window = reason.kind == "heard" and not reason.model.endswith(" track")
        if is_window and reason.text in tracks:
            continue
        what = reason.kind, reason.text
        goes_on = reason.span.start < end or ends.get(what, -1.0) >= reason.span.start
        if group and not goes_on:
            yield tuple(group)
            group, end, ends = [], 0.0, {}
        group.append(reason)
        end, ends[what] = max(end, reason.span.end), reason.span.end
    if group:
        yield tuple(group)


def group_moments(moments: Sequence[Moment], *, gap: float) -> list[Moment]:
    """Neighbours in one recording that say the same, at most `gap` seconds apart, are one.

    In the order of the best of each group.
    """
    groups: list[list[Moment]] = []
    for moment in sorted(moments, key=lambda each: (each.run, each.recording, each.span)):
        before = groups[-1][-1] if groups else None
        is_near = (
            before is not None
            and (before.run, before.recording) == (moment.run, moment.recording)
            and moment.span.start - before.span.end <= gap
        )
        if before is not None and is_near and says_same(before.text, moment.text):
            groups[-1].append(moment)
        else:
            groups.append([moment])
    joined = [group[0] if len(group) == 1 else _join(group) for group in groups]
    return sorted(joined, key=lambda moment: moment.rank)


def _join(group: Sequence[Moment]) -> Moment:
    best = min(group, key=lambda moment: moment.rank)
    others = (reason for moment in group if moment is not best for reason in moment.reasons)
    return replace(
        best,
        reasons=(*best.reasons, *others),
        spans=tuple(span for moment in group for span in moment.spans or (moment.span,)),
        picture=best.picture or next(filter(None, (moment.picture for moment in group)), None),
    )


def says_same(text: str, other: str) -> bool:
    words, others = (frozenset(stems(each[:COMPARED])) for each in (text, other))
    return 0 < SAME * len(words | others) <= len(words & others)


class Pictures:
    """The windows of a run that have a stored picture, read once for each recording."""

    def __init__(self, run: Run) -> None:
        self._run, self._spans = run, dict[str, tuple[list[Span], float]]()

    def best(self, recording: str, span: Span) -> Span | None:
        """The window that overlaps `span` most; None if none does."""
        if recording not in self._spans:
            spans = self._run.pictured(recording)
            longest = max((each.duration for each in spans), default=0.0)
            self._spans[recording] = spans, longest
        spans, longest = self._spans[recording]
        first = bisect_left(spans, span.start - longest, key=lambda each: each.start)
        last = bisect_left(spans, span.end, key=lambda each: each.start)
        near = [each for each in spans[first:last] if each.overlaps(span)]
        return max(near, key=lambda each: _overlap(each, span), default=None)


def _overlap(span: Span, other: Span) -> float:
    return min(span.end, other.end) - max(span.start, other.start)
