"""Values of columns, and writes that several modules share; the caller opens the transaction."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from earmark.captioning.request import Answer
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.ledger.records import Call, RecordingRow
from earmark.media.source import storable_text
from earmark.redaction import map_texts, redact
from earmark.timeline import FloatArray, Span

logger = logging.getLogger(__name__)

MOST_TOKENS = 1 << 40
"""More than any call takes, and few enough that a database adds up a million of them."""

EXACT, COARSE = "<f8", "<f4"
"""Types of stored numbers, little-endian: exact for what selection reads again, coarse for what is
only drawn."""


def remember_plan(database: sqlite3.Connection, plan: Mapping[str, Any]) -> int:
    """Make `plan` the present one, and store which process holds the run; returns its number."""
    text = as_json(plan, sort_keys=True)
    database.execute("INSERT OR IGNORE INTO plans (plan, opened) VALUES (?, ?)", (text, now()))
    number = database.execute("SELECT id FROM plans WHERE plan = ?", (text,)).fetchone()[0]
    notes = {"plan": str(number), "holder": f"process {os.getpid()} on {platform.node()}"}
    database.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?)", notes.items())
    return int(number)


def differences(plan: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """The names of the choices in which two plans differ."""
    names = sorted({*plan, *other})
    return (name for name in names if plan.get(name) != other.get(name))


def count_interrupted(database: sqlite3.Connection) -> int:
    """Mark the calls that a dead process left without an outcome as interrupted; returns how many.

    These are calls in flight, and calls marked as answered that have no answer, which only damage
    from outside can cause; they are asked again.
    """
    lose = "UPDATE calls SET state = 'interrupted', interrupted = interrupted + 1 WHERE state = "
    broken = 0
    # Counts are enough, and quick from two small indexes: every answer belongs to an answered call.
    answers = "SELECT (SELECT count(*) FROM calls WHERE state = 'answered') - count(*) FROM answers"
    if database.execute(answers).fetchone()[0]:
        unkept = "'answered' AND NOT EXISTS (SELECT 1 FROM answers WHERE call = calls.id)"
        broken = database.execute(lose + unkept).rowcount
        logger.warning("%d calls are said to be answered and have no answer: asked again", broken)
    return broken + database.execute(f"{lose} 'in flight'").rowcount


SPENT = """
SELECT (SELECT coalesce(sum(asked), 0) FROM calls) + coalesce((
        SELECT json_extract(value, '$[0]') FROM notes WHERE name = 'forgotten'), 0),
    coalesce(sum(tokens), 0), total(spend), coalesce(sum(guessed), 0)
FROM (
    SELECT coalesce(prompt_tokens + completion_tokens, reserve_tokens) AS tokens, spend,
        prompt_tokens + completion_tokens IS NULL AS guessed
    FROM answers JOIN calls ON id = call WHERE kind = 'caption'
    UNION ALL SELECT prompt_tokens + completion_tokens, spend, 0 FROM failures
    UNION ALL SELECT interrupted * reserve_tokens, interrupted * reserve_spend, interrupted
    FROM calls WHERE interrupted > 0
    UNION ALL SELECT json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        json_extract(value, '$[3]')
    FROM notes WHERE name = 'forgotten')
"""
"""Calls ever sent, tokens, money, and how many calls were counted at their highest possible cost;
calls about recordings that were forgotten since are included."""

INDEX_CAPTIONS = """
INSERT INTO words (rowid, caption, tags)
SELECT id, text, coalesce((
    SELECT group_concat(value, ' ') FROM tags, json_each(tags.words)
    WHERE tags.recording = calls.recording AND tags."start" = calls."start"
        AND tags."end" = calls."end"), '')
FROM answers JOIN calls ON id = call
"""

INDEX_TAGS = """
INSERT INTO words (rowid, caption, tags)
SELECT -id, '', (SELECT group_concat(value, ' ') FROM json_each(tags.words)) FROM tags
"""
"""Enter all answers and all tags into the index of words, or those that a condition leaves."""

INDEX_AGAIN = "INSERT INTO words (words) VALUES ('delete-all')", INDEX_CAPTIONS, INDEX_TAGS
"""Make the index of words anew."""

_OUTDATED = "words"
"""Name of the note that the tags of answers have changed since they were indexed."""

RECORDING_COLUMNS = tuple(each.name for each in fields(RecordingRow) if each.name != "folder")
"""The columns of a recording that was opened, in the order of its fields."""

UPDATE_RECORDING = ", ".join(f"{column} = excluded.{column}" for column in RECORDING_COLUMNS[1:])
"""What an upsert sets where the recording is there: all but its id, to the new values."""

ADD_RECORDING = f"""
INSERT INTO recordings ({", ".join(RECORDING_COLUMNS)})
VALUES ({", ".join(f":{column}" for column in RECORDING_COLUMNS)})
ON CONFLICT (id) DO UPDATE SET {UPDATE_RECORDING}, failure = NULL, is_replaced = 0
"""  # noqa: S608 - columns of our own
"""Takes the columns of a recording by name."""

FAIL_RECORDING = """
INSERT INTO recordings (
    id, path, name, failure, chapters, duration, size_bytes, frame_rate, frame_count)
VALUES (?, ?, ?, ?, '[]', 0, 0, 0, 0)
ON CONFLICT (id) DO UPDATE SET failure = excluded.failure, name = excluded.name, is_replaced = 0
"""
"""Takes the id, path and name of a recording, and why it failed."""

OPENED_FOLDERS = """
UPDATE recordings SET is_replaced = 1 WHERE failure IS NOT NULL AND NOT is_replaced AND EXISTS (
    SELECT 1 FROM present AS held
    WHERE held.path > recordings.path || '/' AND held.path < recordings.path || '0')
"""
"""Folders that could not be read, and whose recordings are present now: `0` follows `/`."""

FAILED_PATHS = "SELECT path FROM recordings WHERE failure IS NOT NULL AND NOT is_replaced"

GONE = "UPDATE recordings SET is_replaced = 1 WHERE failure IS NOT NULL AND path = ?"

_LAST = """
(SELECT plan, recording FROM choices WHERE rowid IN (
        SELECT max(choices.rowid) FROM choices JOIN present ON number = recording
        WHERE rule <> 'find' GROUP BY recording)
    AND recording NOT IN (SELECT recording FROM choices WHERE plan = ?1)) CROSS JOIN
"""

LAST_PICKS = (
    f"""
    INSERT OR IGNORE INTO picks SELECT ?1, recording, window, "start", "end", instant, score, rate,
        expected, reason, tags, call, round FROM {_LAST} picks USING (plan, recording)
    """,  # noqa: S608 - of our own
    f"""
    INSERT INTO choices SELECT ?1, recording, rule, forecast, notes, forecast_low, forecast_high,
        forecast_confidence FROM {_LAST} choices USING (plan, recording)
    """,  # noqa: S608
)
"""Take a plan, and copy to it the last choice from each recording it has made no choice from; a
choice that is made again is a new row, and what `find` asked about is no choice."""


def number_of(database: sqlite3.Connection, recording: str) -> int:
    """The row number of a recording in the database."""
    row = database.execute("SELECT number FROM recordings WHERE id = ?", (recording,)).fetchone()
    if row is None:
        raise ValueError(f"the run does not know the recording {recording!r}; add it first")
    return int(row[0])


def call_number(database: sqlite3.Connection, call: Call) -> int:
    """The row number of a call in the database."""
    row = database.execute("SELECT id FROM calls WHERE identity = ?", (call.identity,)).fetchone()
    if row is None:
        raise ValueError(f"the call {call.identity!r} was not begun")
    return int(row[0])


def answer_values(answer: Answer) -> tuple[object, ...]:
    """The columns of an answer, in order."""
    return (
        storable_text(answer.text),
        storable_text(answer.model),
        answer.kind,
        None if answer.data is None else json.dumps(answer.data),
        as_count(answer.prompt_tokens),
        as_count(answer.completion_tokens),
        as_amount(answer.latency) or 0.0,
        answer.form,
        storable_text(answer.finish),
        as_text(answer.note),
    )


def rounds_of_answered(database: sqlite3.Connection, recording: int) -> dict[Span, tuple[int, str]]:
    """The round and the reason of each pick of `recording` that is answered, under any plan."""
    rows = database.execute(
        'SELECT p."start", p."end", p.round, p.reason FROM plans JOIN picks p ON p.plan = plans.id'
        " AND p.recording = ? JOIN calls ON calls.id = p.call WHERE state = 'answered'"
        " ORDER BY plans.id",
        (recording,),
    )
    return {Span(start, end): (turn, reason) for start, end, turn, reason in rows}


def tags_of(database: sqlite3.Connection, recording: int, span: Span) -> str:
    """The tags of a span as one text, empty when it has none."""
    row = database.execute(
        'SELECT words FROM tags WHERE recording = ? AND "start" = ? AND "end" = ?',
        (recording, span.start, span.end),
    ).fetchone()
    return " ".join(json.loads(row[0])) if row else ""


def keep_tags(
    database: sqlite3.Connection, recording: int, span: Span, words: Sequence[str]
) -> int:
    """Store the tags of a span and index them; returns their number.

    In the word index, tags have their negative number, and answers that of their call. An answer
    about the span stays indexed with the old tags until `index_again`: the index keeps no texts, so
    it forgets one only if told exactly what it was, and runs of earlier versions cannot tell.
    """
    old = tags_of(database, recording, span)
    number = database.execute(
        'INSERT INTO tags (recording, "start", "end", words) VALUES (?, ?, ?, ?)'
        ' ON CONFLICT (recording, "start", "end") DO UPDATE SET words = excluded.words'
        " RETURNING id",
        (recording, span.start, span.end, json.dumps(list(words), ensure_ascii=False)),
    ).fetchone()[0]
    if old != " ".join(words):
        database.execute(
            "INSERT OR REPLACE INTO notes SELECT ?, '' WHERE EXISTS (SELECT 1 FROM calls"
            ' WHERE recording = ? AND "start" = ? AND "end" = ? AND state = \'answered\')',
            (_OUTDATED, recording, span.start, span.end),
        )
    if old:
        database.execute(
            "INSERT INTO words (words, rowid, caption, tags) VALUES ('delete', ?, '', ?)",
            (-number, old),
        )
    database.execute(
        "INSERT INTO words (rowid, caption, tags) VALUES (?, '', ?)", (-number, " ".join(words))
    )
    return int(number)


def index_again(database: sqlite3.Connection) -> None:
    """Make the word index anew if tags of answers have changed since they were indexed."""
    if database.execute("DELETE FROM notes WHERE name = ?", (_OUTDATED,)).rowcount:
        for statement in INDEX_AGAIN:
            database.execute(statement)


def split_tags(words: str | None, heard: str | None) -> tuple[str, ...]:
    """The tags of a pick, or those stored as its answer if no model was asked."""
    if words:
        return tuple(json.loads(words))
    return tuple(heard.split(", ")) if heard else ()


def read_chapters(stored: str) -> tuple[tuple[str, float], ...]:
    """Files of a recording, and the second each begins at; empty if it is one file."""
    return tuple((path, start) for path, start in json.loads(stored))


def replace_evidence(
    database: sqlite3.Connection,
    recording: int,
    entries: Iterable[EvidenceEntry],
    *,
    kinds: Collection[str],
    origin: str,
    within: Span | None,
) -> None:
    """Delete what a recording has of `kinds`, from `origin` and in `within`; insert `entries`."""
    start, end = (within.start, within.end) if within else (0.0, math.inf)
    database.execute(
        "DELETE FROM evidence WHERE recording = ? AND kind IN (SELECT value FROM json_each(?))"
        ' AND (? = \'\' OR origin = ?) AND "start" >= ? AND "end" <= ?',
        (recording, json.dumps(sorted(kinds)), origin, origin, start, end),
    )
    database.executemany(
        'INSERT INTO evidence (recording, "start", "end", kind, text, confidence, origin, data)'
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        ((recording, *_evidence_values(entry)) for entry in entries),
    )


def _evidence_values(entry: EvidenceEntry) -> tuple[object, ...]:
    data = None if entry.data is None else as_json(entry.data)
    text = as_text(entry.text)
    return entry.span.start, entry.span.end, entry.kind, text, entry.confidence, entry.origin, data


unpack: Callable[[bytes], FloatArray] = partial(np.frombuffer, dtype=EXACT)
"""The numbers of a recording's windows, read-only: one blob instead of a row a window."""


def as_text(words: str) -> str:
    """Words as they are stored: without secrets and lone surrogates."""
    return redact(storable_text(words))


def as_json(value: object, *, sort_keys: bool = False) -> str:
    """A value as JSON, with its texts as they are stored."""
    return json.dumps(map_texts(value, as_text), sort_keys=sort_keys, ensure_ascii=False)


def as_count(value: int | None) -> int | None:
    """A count of tokens; None if a server reported something that is no possible count."""
    return value if isinstance(value, int) and 0 <= value < MOST_TOKENS else None


def as_amount(value: float) -> float | None:
    """An amount of money or time; None if it is negative, infinite or not a number."""
    return float(value) if math.isfinite(value) and value >= 0 else None


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
