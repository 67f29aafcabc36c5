"""Merges runs of one plan, such as the shards of an archive, into one run."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earmark.errors import RunError
from earmark.run.database import remember_plan
from earmark.run.lock import lock_run
from earmark.run.records import differences
from earmark.run.run import RECORDING_COLUMNS, UPDATE_RECORDING, Run
from earmark.run.schema import FILE, connect, explain_errors, has_tables, transaction
from earmark.settings import Settings

_COLUMNS = ", ".join((*RECORDING_COLUMNS, "failure", "is_replaced", "transcribed_by"))

_TAKE = f"""
UPDATE main.frames SET thumbnail = x'' WHERE (SELECT count(*) FROM main.notes WHERE name = 'blur')
    < (SELECT count(*) FROM other.notes WHERE name = 'blur');
INSERT OR IGNORE INTO main.notes
    SELECT name, value FROM other.notes WHERE name NOT IN ('plan', 'holder', 'audit');
INSERT OR REPLACE INTO main.notes SELECT 'audit', json_group_array(json(part)) FROM (
    SELECT DISTINCT each.value AS part FROM (
        SELECT value FROM main.notes WHERE name = 'audit'
        UNION ALL SELECT value FROM other.notes WHERE name = 'audit') AS kept,
        json_each(iif(json_type(kept.value) = 'array', kept.value, json_array(json(kept.value))))
            AS each
    ORDER BY part) HAVING count(*);
INSERT INTO main.recordings ({_COLUMNS}) SELECT {_COLUMNS} FROM other.recordings WHERE true
    ON CONFLICT (id) DO UPDATE SET {UPDATE_RECORDING}, failure = excluded.failure,
        is_replaced = excluded.is_replaced, transcribed_by = excluded.transcribed_by
    WHERE recordings.failure IS NOT NULL OR recordings.is_replaced;
UPDATE main.recordings AS lost SET is_replaced = 1 WHERE failure IS NOT NULL AND EXISTS (
    SELECT 1 FROM main.recordings found WHERE found.path = lost.path
        AND found.id <> lost.id AND found.failure IS NULL AND NOT found.is_replaced);
CREATE TEMP TABLE recording_of AS
    SELECT theirs.number AS old, ours.number AS new
    FROM other.recordings theirs JOIN main.recordings ours USING (id);
CREATE UNIQUE INDEX temp.recording_of_old ON recording_of (old);

INSERT OR IGNORE INTO main.heard
    SELECT new, key, window, duration, windows, expected, scores, instants, rates, level,
        level_hop, sound_bytes, access, warnings, audio_track
    FROM other.heard JOIN recording_of ON old = recording;
INSERT OR IGNORE INTO main.frames
    SELECT new, "start", "end", iif((SELECT count(*) FROM main.notes WHERE name = 'blur')
            > (SELECT count(*) FROM other.notes WHERE name = 'blur'), x'', thumbnail),
        frames_decoded, frames_sent, bytes_read, faces_blurred
    FROM other.frames JOIN recording_of ON old = recording;
INSERT INTO main.evidence (recording, "start", "end", kind, text, confidence, origin, data)
    SELECT new, "start", "end", kind, text, confidence, origin, data
    FROM other.evidence theirs JOIN recording_of ON old = recording WHERE NOT EXISTS (
        SELECT 1 FROM main.evidence ours WHERE ours.recording = new AND ours.kind = theirs.kind
            AND ours."start" = theirs."start" AND ours."end" = theirs."end"
            AND ours.text = theirs.text AND ours.origin = theirs.origin);
INSERT OR IGNORE INTO main.tags (recording, "start", "end", words)
    SELECT new, "start", "end", words FROM other.tags JOIN recording_of ON old = recording;

INSERT OR IGNORE INTO main.calls (identity, recording, "start", "end", model, state)
    SELECT identity, new, "start", "end", model, 'waiting'
    FROM other.calls JOIN recording_of ON old = recording;
CREATE TEMP TABLE call_of AS
    SELECT theirs.id AS old, ours.id AS new, ours.state <> 'answered' AS is_open
    FROM other.calls theirs JOIN main.calls ours USING (identity);
CREATE UNIQUE INDEX temp.call_of_old ON call_of (old);
UPDATE main.calls SET asked = max(calls.asked, theirs.asked),
    interrupted = max(calls.interrupted, theirs.interrupted),
    reserve_tokens = max(calls.reserve_tokens, theirs.reserve_tokens),
    reserve_spend = max(calls.reserve_spend, theirs.reserve_spend),
    state = CASE WHEN 'answered' IN (calls.state, theirs.state) THEN calls.state
        ELSE theirs.state END
    FROM other.calls theirs WHERE theirs.identity = calls.identity;
INSERT INTO main.answers
    SELECT new, text, model, kind, data, prompt_tokens, completion_tokens, latency, form, finish,
        note, spend, at
    FROM other.answers JOIN call_of ON old = call WHERE is_open;
INSERT INTO main.failures (call, reason, prompt_tokens, completion_tokens, spend, at)
    SELECT new, 'answered in another run too', coalesce(theirs.prompt_tokens, 0),
        coalesce(theirs.completion_tokens, 0), theirs.spend, theirs.at
    FROM other.answers theirs JOIN call_of ON old = theirs.call
        JOIN main.answers ours ON ours.call = new
    WHERE NOT is_open AND theirs.kind = 'caption' AND ours.at <> theirs.at AND NOT EXISTS (
        SELECT 1 FROM main.failures kept WHERE kept.call = new AND kept.at = theirs.at);
INSERT INTO main.failures (call, reason, prompt_tokens, completion_tokens, spend, at)
    SELECT new, reason, prompt_tokens, completion_tokens, spend, at
    FROM other.failures JOIN call_of ON old = call WHERE NOT EXISTS (
        SELECT 1 FROM main.failures ours
        WHERE ours.call = new AND ours.reason = failures.reason AND ours.at = failures.at);
INSERT INTO main.corrections
    (recording, "start", "end", verdict, text, author, at, call, withdrawn)
    SELECT r.new, "start", "end", verdict, text, author, at, c.new, withdrawn
    FROM other.corrections theirs JOIN recording_of r ON r.old = recording
        LEFT JOIN call_of c ON c.old = call
    WHERE NOT EXISTS (
        SELECT 1 FROM main.corrections ours
        WHERE ours.recording = r.new AND ours."start" = theirs."start" AND ours.at = theirs.at
            AND ours."end" = theirs."end" AND ours.verdict = theirs.verdict
            AND ours.author = theirs.author AND ours.text = theirs.text)
    ORDER BY theirs.id;
UPDATE main.corrections AS ours SET withdrawn = theirs.withdrawn
    FROM other.corrections theirs JOIN recording_of r ON r.old = theirs.recording
    WHERE ours.withdrawn IS NULL AND ours.recording = r.new AND ours.at = theirs.at
        AND ours."start" = theirs."start" AND ours.author = theirs.author
        AND ours.verdict = theirs.verdict;

DELETE FROM main.picks WHERE plan = (SELECT ours FROM plan_of) AND recording IN (
    SELECT new FROM other.choices JOIN recording_of ON old = recording
    WHERE plan = (SELECT theirs FROM plan_of));
INSERT OR REPLACE INTO main.choices
    SELECT ours, new, rule, forecast, notes, forecast_range
    FROM other.choices JOIN plan_of ON plan = theirs JOIN recording_of ON old = recording;
INSERT INTO main.picks
    SELECT ours, r.new, p.window, p."start", p."end", p.instant, p.score, p.rate, p.expected,
        p.reason, tags.id, c.new, p.round
    FROM other.picks p JOIN plan_of ON p.plan = theirs JOIN recording_of r ON r.old = p.recording
        LEFT JOIN main.tags ON p.tags IS NOT NULL
            AND tags.recording = r.new AND tags."start" = p."start" AND tags."end" = p."end"
        LEFT JOIN call_of c ON c.old = p.call;
DROP TABLE recording_of;
DROP TABLE call_of;
DROP TABLE plan_of;
"""  # noqa: S608 - columns of our own
"""Merges the run attached as `other`; `plan_of` has the numbers of its plan in both.

Row numbers differ between runs, so everything is joined by id and identity. Merging a run twice
changes nothing. If one of the runs has faces blurred, pictures of the other are left out.
"""


@dataclass(frozen=True, slots=True)
class MergeResult:
    runs: int
    recordings: int
    missed: int
    answers: int


def merge(runs: Sequence[Path], into: Path) -> MergeResult:
    """Bring `runs` together in the run `into`, which may be new; they are only read.

    No call that is answered in any of them is asked again, and a recording that was done in one is
    done. Nothing is merged if a `RunError` says that plans differ, that one path is two recordings,
    or that a run is in use, damaged or of another version.
    """
    if not runs:
        raise ValueError("nothing to merge: name the folders of one run or more")
    places = [run.resolve() for run in runs]
    for number, folder in enumerate(runs):
        if places[number] in places[:number]:
            raise ValueError(f"{folder} is given twice; name each run once")
    if into.resolve() in places:
        raise RunError(f"{into} cannot be merged into itself; choose another folder")
    plan = _common_plan([*runs, *([into] if _has_plan(into) else [])])
    with ExitStack() as stack:
        for folder in (*runs, into):
            stack.callback(lock_run(folder).close)
        with closing(connect(into, to_write=True)) as database, explain_errors(into):
            for folder in runs:
                _take(database, folder, plan)
    if settings := Settings.stored(runs[0]):
        Settings.read({"shard": None}, settings).store(into)
    with Run(into) as run:
        totals, missed = run.totals(), len(run.failed_recordings())
    return MergeResult(len(runs), totals.recordings, missed, totals.answered)


def _common_plan(runs: Sequence[Path]) -> dict[str, Any]:
    plans, seen = {}, dict[str, tuple[str, Path]]()
    for folder in runs:
        with Run(folder) as run:
            plans[folder], rows = run.plan(), run.recordings()
        plan, theirs = plans[runs[0]], plans[folder]
        if name := next(differences(plan, theirs), None):
            raise RunError(
                f"the runs do not fit: {name} is {plan.get(name)!r} in {runs[0]} and "
                f"{theirs.get(name)!r} in {folder}; merge runs of one command and one version"
            )
        for row in rows:
            key, first = seen.setdefault(row.path, (row.id, folder))
            if key != row.id:
                raise RunError(
                    f"the runs do not fit: {row.path} changed between {first} and {folder}; "
                    "run the command on it again in one of them"
                )
    return plans[runs[0]]


def _has_plan(folder: Path) -> bool:
    if not has_tables(folder):
        return False
    with Run(folder) as run:
        return bool(run.plan())


def _take(database: sqlite3.Connection, folder: Path, plan: dict[str, Any]) -> None:
    connect(folder, to_write=False).close()  # refuses what is no run of this version
    database.execute("ATTACH DATABASE ? AS other", (str(folder / FILE),))
    try:
        with transaction(database):
            ours = remember_plan(database, plan)
            database.execute("CREATE TEMP TABLE plan_of (ours INTEGER, theirs INTEGER)")
            database.execute(
                "INSERT INTO plan_of SELECT ?, value FROM other.notes WHERE name = 'plan'", (ours,)
            )
            for statement in _TAKE.split(";\n"):
                database.execute(statement)
    finally:
        database.execute("DETACH DATABASE other")
