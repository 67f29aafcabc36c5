from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from earmark.captioning.request import Answer
from earmark.gate.forecast_error import ForecastRange
from earmark.run.calls import RunCalls
from earmark.run.database import as_json, number_of
from earmark.run.records import ChoiceRow, RunPick
from earmark.selection.pick import Pick
from earmark.timeline import Span

_ANSWER = (
    "a.text, a.model, a.kind, a.data, a.prompt_tokens, a.completion_tokens, a.latency, a.form,"
    " a.finish, a.note, a.spend"
)

_PICKS = f"""
SELECT p.window, p."start", p."end", p.instant, p.score, p.rate, p.expected, p.reason, p.round,
    tags.words, calls.state,
    (SELECT reason FROM failures WHERE call = p.call ORDER BY id DESC LIMIT 1), {_ANSWER}
FROM picks p JOIN recordings r ON r.number = p.recording
    LEFT JOIN tags ON tags.id = p.tags
    LEFT JOIN calls ON calls.id = p.call LEFT JOIN answers a ON a.call = p.call
WHERE p.plan = ? AND r.id = ? ORDER BY p."start", p."end"
"""  # noqa: S608 - columns of our own

_ANSWERS_OF = f"""
SELECT "start", "end", {_ANSWER}
FROM calls JOIN recordings ON number = recording JOIN answers a ON a.call = calls.id
WHERE recordings.id = ? AND
"""  # noqa: S608 - columns of our own

_LAST = """
(SELECT plan, recording FROM choices WHERE rowid IN (
        SELECT max(choices.rowid) FROM choices JOIN present ON number = recording
        WHERE rule <> 'find' GROUP BY recording)
    AND recording NOT IN (SELECT recording FROM choices WHERE plan = ?1)) CROSS JOIN
"""

_LAST_PICKS = (
    f"""
    INSERT OR IGNORE INTO picks SELECT ?1, recording, window, "start", "end", instant, score, rate,
        expected, reason, tags, call, round FROM {_LAST} picks USING (plan, recording)
    """,  # noqa: S608 - of our own
    f"""
    INSERT INTO choices SELECT ?1, recording, rule, forecast, notes, forecast_range
        FROM {_LAST} choices USING (plan, recording)
    """,  # noqa: S608
)
"""Copies to a plan the last choice from each recording it has made no choice from; what `find`
asked about is no choice.
"""


class RunPicks(RunCalls):
    def choose(
        self,
        recording: str,
        picks: Sequence[Pick],
        *,
        tags: Mapping[Span, Sequence[str]] | None = None,
        rule: str = "",
        forecast: ForecastRange | float | None = None,
        notes: Sequence[str] = (),
        round: int | None = None,  # noqa: A002 - the word the command line uses
    ) -> None:
        """Store the picks of the present plan, replacing any it had; see `ChoiceRow`.

        The `round` in which they are asked counts from 1, and is None if all are asked at once;
        with a round, an answered pick keeps the round and the reason it had.
        """
        with self.writing() as database:
            number = number_of(database, recording)
            bounds = None
            if isinstance(forecast, ForecastRange):
                bounds, forecast = json.dumps(asdict(forecast)), forecast.expected
            database.execute(
                "INSERT OR REPLACE INTO choices VALUES (?, ?, ?, ?, ?, ?)",
                (self.plan_number, number, rule, forecast, as_json(notes), bounds),
            )
            earlier = _answered_rounds(database, number) if round else {}
            replaced = database.execute(
                'DELETE FROM picks WHERE plan = ? AND recording = ? RETURNING "start", "end", call',
                (self.plan_number, number),
            )
            calls = {Span(start, end): call for start, end, call in replaced}
            for pick in picks:
                words = (tags or {}).get(pick.span, ())
                turn, reason = earlier.get(pick.span, (round or 1, pick.reason))
                with_reason = replace(pick, reason=reason)
                call = calls.get(pick.span)
                self._insert_pick(database, number, with_reason, words, call=call, turn=turn)

    def keep_last_picks(self) -> None:
        """So the answers of recordings that are away or not asked about stay in the report.

        `choose` replaces the copies.
        """
        with self.writing() as database:
            for statement in _LAST_PICKS:
                database.execute(statement, (self.plan_number,))

    def add_pick(self, recording: str, pick: Pick, tags: Sequence[str] = ()) -> None:
        with self.writing() as database:
            self._insert_pick(database, number_of(database, recording), pick, tags)

    def _insert_pick(
        self,
        database: sqlite3.Connection,
        recording: int,
        pick: Pick,
        words: Sequence[str],
        *,
        call: int | None = None,
        turn: int = 1,
    ) -> None:
        tags = None
        if words:
            (tags,) = database.execute(
                'INSERT INTO tags (recording, "start", "end", words) VALUES (?, ?, ?, ?)'
                ' ON CONFLICT (recording, "start", "end") DO UPDATE SET words = excluded.words'
                " RETURNING id",
                (recording, pick.start, pick.end, json.dumps(list(words), ensure_ascii=False)),
            ).fetchone()
        values = (getattr(pick, field.name) for field in fields(Pick))
        database.execute(
            "INSERT INTO picks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            ' ON CONFLICT (plan, recording, "start", "end") DO NOTHING',  # any other fault raises
            (self.plan_number, recording, *values, tags, call, turn),
        )

    def choice(self, recording: str) -> ChoiceRow:
        query = (
            "SELECT rule, forecast, notes, forecast_range FROM choices"
            " JOIN recordings ON number = recording WHERE plan = ? AND id = ?"
        )
        row = self._row(query, self.plan_number, recording)
        if row is None:
            return ChoiceRow()
        rule, forecast, notes, bounds = row
        forecast_range = ForecastRange(**json.loads(bounds)) if bounds else None
        return ChoiceRow(rule, forecast, tuple(json.loads(notes)), forecast_range)

    def picks(self, recording: str) -> list[RunPick]:
        rows = self.rows(_PICKS, self.plan_number, recording)
        return [_read_pick(recording, row) for row in rows]

    def tags(self, recording: str, *, sounds: str) -> dict[Span, tuple[str, ...]]:
        rows = self.rows(
            'SELECT DISTINCT t."start", t."end", words FROM recordings CROSS JOIN plans'
            " CROSS JOIN picks p ON p.plan = plans.id AND p.recording = recordings.number"
            " JOIN tags t ON t.id = p.tags"
            " WHERE recordings.id = ? AND json_extract(plans.plan, '$.sounds') = ?",
            recording,
            sounds,
        )
        return {Span(start, end): tuple(json.loads(words)) for start, end, words in rows}

    def answers(self, recording: str, span: Span) -> list[Answer]:
        query = f'{_ANSWERS_OF} "start" = ? AND "end" = ? ORDER BY at DESC, a.call DESC'
        rows = self.rows(query, recording, span.start, span.end)
        return [_read_answer(row[2:]) for row in rows]

    def captions(self, recording: str) -> list[tuple[Span, Answer]]:
        rows = self.rows(f"{_ANSWERS_OF} a.kind = 'caption' ORDER BY at, a.call", recording)
        return [(Span(*row[:2]), _read_answer(row[2:])) for row in rows]

    def first_caption(self) -> tuple[float, str]:
        row = self._row(
            'SELECT p."start", a.text FROM present r'
            " CROSS JOIN picks p ON p.plan = ? AND p.recording = r.number"
            " CROSS JOIN answers a ON a.call = p.call AND a.kind = 'caption'"
            ' ORDER BY r.path, r.id, p."start" LIMIT 1',
            self.plan_number,
        )
        start, text = row or (0.0, "")
        return float(start), str(text)


def _read_pick(recording: str, row: Sequence[Any]) -> RunPick:
    turn, words, state, failure, *stored = row[8:]
    answer, spend = (_read_answer(stored), stored[-1]) if stored[0] is not None else (None, None)
    is_settled = answer is not None
    tags = sounds = split_tags(words, None)
    if answer and answer.kind == "tags":
        tags = split_tags(words, answer.text)
        answer, spend, state = None, None, "waiting"
    status = state if state in ("answered", "failed", "in flight") else "not asked"
    return RunPick(
        **dict(zip((field.name for field in fields(Pick)), row, strict=False)),
        recording=recording,
        tags=tags,
        status=status,
        answer=answer,
        spend=spend,
        failure=failure if status == "failed" else None,
        round=turn,
        heard=sounds,
        is_settled=is_settled,
    )


def _read_answer(row: Sequence[Any]) -> Answer:
    text, model, kind, data, *rest, note, _ = row
    answer = Answer(text, model, kind, json.loads(data) if data else None, *rest)
    return replace(answer, note=note)


def _answered_rounds(database: sqlite3.Connection, recording: int) -> dict[Span, tuple[int, str]]:
    rows = database.execute(
        'SELECT p."start", p."end", p.round, p.reason FROM plans JOIN picks p ON p.plan = plans.id'
        " AND p.recording = ? JOIN calls ON calls.id = p.call WHERE state = 'answered'"
        " ORDER BY plans.id",
        (recording,),
    )
    return {Span(start, end): (turn, reason) for start, end, turn, reason in rows}


def split_tags(words: str | None, heard: str | None) -> tuple[str, ...]:
    if words:
        return tuple(json.loads(words))
    return tuple(heard.split(", ")) if heard else ()
