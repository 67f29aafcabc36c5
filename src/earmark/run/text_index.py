from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from earmark.media.source import storable_text
from earmark.run.picks import RunPicks, split_tags
from earmark.run.records import read_chapters
from earmark.timeline import Span

_INDEXED = """
SELECT recording, "start", "end" FROM calls JOIN present ON number = recording WHERE calls.id = ?1
UNION ALL
SELECT recording, "start", "end" FROM tags JOIN present ON number = recording WHERE tags.id = -?1
"""
"""Answers have the number of their call, and tags their negative number."""

_HIT = """
SELECT r.id, r.path, (
        SELECT window FROM plans CROSS JOIN picks p ON p.plan = plans.id AND p.recording = ?1
            AND p."start" = ?2 AND p."end" = ?3 ORDER BY p.plan = ?5 DESC LIMIT 1),
    t.words, (
        SELECT text FROM calls JOIN answers ON call = id
        WHERE recording = ?1 AND "start" = ?2 AND "end" = ?3 AND kind = 'tags'
        ORDER BY at DESC LIMIT 1),
    a.text, a.model, r.chapters, coalesce(nullif(r.clock, ''), r.began)
FROM recordings r
    LEFT JOIN tags t ON t.recording = ?1 AND t."start" = ?2 AND t."end" = ?3
    LEFT JOIN answers a ON a.call = (
        SELECT id FROM calls JOIN answers ON call = id
        WHERE recording = ?1 AND "start" = ?2 AND "end" = ?3 AND kind = 'caption'
        ORDER BY id = ?4 DESC, at DESC LIMIT 1)
WHERE r.number = ?1
"""
"""Plans come first, as written: else SQLite reads all picks for each hit."""

_CAPTIONS_OF = """
SELECT id FROM calls JOIN answers ON call = id
WHERE recording = ?1 AND "start" = ?2 AND "end" = ?3 AND kind = 'caption'
ORDER BY id = ?4 DESC, at DESC
"""

_EVIDENCE = """
SELECT r.id, path, "start", "end", kind, text, confidence, origin, chapters,
    coalesce(nullif(clock, ''), began)
FROM evidence e JOIN present r ON r.number = e.recording WHERE e.id = ?
"""

_RECORDINGS = """
SELECT id FROM present WHERE number IN (
    SELECT recording FROM tags WHERE id IN (SELECT -rowid FROM words WHERE words MATCH ?1)
    UNION SELECT recording FROM calls JOIN answers ON call = id
        WHERE kind IN ('tags', ?2) AND id IN (SELECT rowid FROM words WHERE words MATCH ?1)
    UNION SELECT recording FROM evidence WHERE (kind = 'heard' OR ?2 NOT NULL) AND id IN (
        SELECT rowid FROM evidence_words WHERE evidence_words MATCH ?1))
"""


@dataclass(frozen=True, slots=True)
class SearchHit:
    recording: str
    path: str
    span: Span
    model: str
    kind: str
    """`caption` or `tags` of a window, by which of the two it was found; else that of evidence."""
    window: int | None = None
    caption: str = ""
    tags: tuple[str, ...] = ()
    text: str = ""
    confidence: float | None = None
    rank: float = 0.0
    """Lower is better; only hits of one search can be compared."""
    chapters: tuple[tuple[str, float], ...] = ()
    began: str = ""

    @property
    def told(self) -> str:
        return ", ".join(self.tags) if self.kind == "tags" else self.text or self.caption


@dataclass(frozen=True, slots=True)
class SearchableText:
    is_evidence: bool
    place: int
    """Of evidence its number; else that of the call it answers, or the negative one of tags."""
    text: str


class RunTexts(RunPicks):
    def search(self, words: str, *, most: int = 50) -> list[SearchHit]:
        """The best match first; a word also finds longer ones. Each window comes once."""
        query = _as_query(words)
        if not query:
            return []
        in_caption = f"({query}) AND caption : ({_as_query(words, ' OR ')})"
        windows = self._windows_with(query, most, in_caption=in_caption)
        rows = self.stream("SELECT rowid, rank FROM evidence_words(?) ORDER BY rank, rowid", query)
        evidence = (self._evidence_hit(number, rank) for number, rank in rows)
        hits = [*windows, *islice(filter(None, evidence), most)]
        return sorted(hits, key=lambda hit: hit.rank)[:most]

    def recordings_with(self, words: str, *, is_sound: bool = False) -> set[str]:
        """Those that contain all of `words`; with `is_sound`, in the name of a sound."""
        query = _as_query(words)
        other_kind = None if is_sound else "caption"
        rows = self.stream(_RECORDINGS, query, other_kind) if query else ()
        return {recording for (recording,) in rows}

    def named_sounds(self, *, most: int) -> list[tuple[str, int]]:
        """The commonest first, each with the number of recordings that have it."""
        rows = self.stream(
            "SELECT sound, count(DISTINCT recording) FROM ("
            " SELECT text AS sound, recording FROM evidence WHERE kind = 'heard'"
            " UNION ALL SELECT value, recording FROM tags, json_each(words))"
            " JOIN present ON number = recording GROUP BY sound ORDER BY 2 DESC, 1 LIMIT ?",
            most,
        )
        return [(name, count) for name, count in rows]

    def searchable(self) -> Iterator[SearchableText]:
        for call, text in self.stream("SELECT call, text FROM answers WHERE kind = 'caption'"):
            yield SearchableText(False, call, text)
        for number, words in self.stream("SELECT id, words FROM tags"):
            yield SearchableText(False, -number, ", ".join(json.loads(words)))
        for number, text in self.stream("SELECT id, text FROM evidence"):
            yield SearchableText(True, number, text)

    def hit_at(self, text: SearchableText, *, rank: float = 0.0) -> SearchHit | None:
        """None if its recording was replaced."""
        if text.is_evidence:
            return self._evidence_hit(text.place, rank)
        window = self._row(_INDEXED, text.place)
        return self._window_hit(window, text.place, rank) if window else None

    def _windows_with(self, query: str, most: int, *, in_caption: str) -> Iterator[SearchHit]:
        windows: set[tuple[Any, ...]] = set()
        holding = {place for (place,) in self.stream("SELECT rowid FROM words(?)", in_caption)}
        ranked = self.stream("SELECT rowid, rank FROM words(?) ORDER BY rank, rowid DESC", query)
        for place, rank in ranked:
            window = self._row(_INDEXED, place)
            if window is None or window in windows:
                continue  # of a recording that was replaced, or found already
            windows.add(window)
            calls = self.stream(_CAPTIONS_OF, *window, place) if holding else ()
            caption = next((call for (call,) in calls if call in holding), -1)
            yield self._window_hit(window, caption, rank)
            if len(windows) == most:
                break

    def _window_hit(self, window: tuple[Any, ...], place: int, rank: float) -> SearchHit:
        row = self._row(_HIT, *window, place, self.plan_number)
        recording, path, number, words, tags, caption, model, chapters, began = row
        return SearchHit(
            recording=recording,
            path=path,
            window=number,
            span=Span(*window[1:]),
            caption=caption or "",
            tags=split_tags(words, tags),
            model=model or "",
            kind="caption" if place > 0 else "tags",
            rank=rank,
            chapters=read_chapters(chapters),
            began=began,
        )

    def _evidence_hit(self, number: int, rank: float) -> SearchHit | None:
        row = self._row(_EVIDENCE, number)
        if row is None:
            return None
        recording, path, start, end, kind, text, confidence, origin, chapters, began = row
        return SearchHit(
            recording=recording,
            path=path,
            span=Span(start, end),
            model=origin,
            kind=kind,
            text=text,
            confidence=confidence,
            rank=rank,
            chapters=read_chapters(chapters),
            began=began,
        )


def _as_query(words: str, between: str = " ") -> str:
    plain = storable_text(words).translate({ord('"'): " ", 0: " "})
    return between.join(f'"{word}"*' for word in plain.split())
