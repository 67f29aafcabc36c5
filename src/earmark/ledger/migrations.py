"""How the tables of an older version become those of the present one.

A migration is SQL that stays as it was written, however the tables change later. It runs in one
transaction together with the new version's number: a killed process leaves the old run whole.
"""

from __future__ import annotations

import sqlite3

MIGRATIONS = {
    2: """
-- One window may be several spans, under plans with other grids. Tags are the last chosen plan's,
-- frames those of the last call with an outcome; where no pick is left, the grid's cell.
CREATE TEMP TABLE span_of_tags AS SELECT tags, "start", "end" FROM (
    SELECT tags, "start", "end", row_number() OVER (PARTITION BY tags ORDER BY
        plan = (SELECT value FROM notes WHERE name = 'plan') DESC, plan DESC) AS place
    FROM picks WHERE tags IS NOT NULL) WHERE place = 1;
CREATE TEMP TABLE span_of_call AS SELECT call, "start", "end" FROM (
    SELECT call, picks."start", picks."end", row_number() OVER (PARTITION BY call ORDER BY
        picks.window = calls.window DESC, plan DESC) AS place
    FROM picks JOIN calls ON calls.id = call) WHERE place = 1;
CREATE TEMP TABLE span_of_window AS SELECT recording, window, "start", "end" FROM (
    SELECT recording, window, "start", "end", row_number() OVER (
        PARTITION BY recording, window ORDER BY max(
            coalesce((SELECT at FROM answers WHERE answers.call = picks.call), ''),
            coalesce((SELECT max(at) FROM failures WHERE failures.call = picks.call), '')) DESC,
        plan = (SELECT value FROM notes WHERE name = 'plan') DESC, plan DESC) AS place
    FROM picks) WHERE place = 1;
CREATE UNIQUE INDEX temp.span_of_tags_id ON span_of_tags (tags);
CREATE UNIQUE INDEX temp.span_of_call_id ON span_of_call (call);
CREATE UNIQUE INDEX temp.span_of_window_id ON span_of_window (recording, window);
INSERT OR IGNORE INTO span_of_window SELECT cell.recording, cell.window,
    coalesce(cell.window * h.window, 0.0),
    coalesce(min(cell.window * h.window + h.window, max(cell.window * h.window, h.duration)), 0.0)
FROM (SELECT recording, window FROM tags UNION SELECT recording, window FROM looks
    UNION SELECT recording, window FROM calls) AS cell
    LEFT JOIN heard h ON h.recording = cell.recording;

CREATE TABLE new_tags (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    "start" REAL NOT NULL, "end" REAL NOT NULL, words TEXT NOT NULL,
    UNIQUE (recording, "start", "end"));
INSERT OR IGNORE INTO new_tags SELECT id, recording, coalesce(own."start", cell."start"),
    coalesce(own."end", cell."end"), words
FROM tags JOIN span_of_window cell USING (recording, window)
    LEFT JOIN span_of_tags own ON own.tags = id;
CREATE TABLE new_calls (
    id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE,
    recording INTEGER NOT NULL REFERENCES recordings, "start" REAL NOT NULL, "end" REAL NOT NULL,
    model TEXT NOT NULL, state TEXT NOT NULL, asked INTEGER NOT NULL DEFAULT 0,
    interrupted INTEGER NOT NULL DEFAULT 0);
INSERT INTO new_calls SELECT id, identity, recording, coalesce(own."start", cell."start"),
    coalesce(own."end", cell."end"), model, state, asked, interrupted
FROM calls JOIN span_of_window cell USING (recording, window)
    LEFT JOIN span_of_call own ON own.call = id;
CREATE TABLE frames (
    recording INTEGER NOT NULL REFERENCES recordings, "start" REAL NOT NULL, "end" REAL NOT NULL,
    thumbnail BLOB NOT NULL, frames_decoded INTEGER NOT NULL, frames_sent INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL, PRIMARY KEY (recording, "start", "end"));
INSERT OR IGNORE INTO frames SELECT recording, "start", "end", thumbnail, frames_decoded,
    frames_sent, bytes_read
FROM looks JOIN span_of_window USING (recording, window);
CREATE TABLE new_picks (
    plan INTEGER NOT NULL REFERENCES plans, recording INTEGER NOT NULL REFERENCES recordings,
    window INTEGER, "start" REAL NOT NULL, "end" REAL NOT NULL, instant REAL NOT NULL,
    score REAL NOT NULL, rate REAL NOT NULL, expected REAL NOT NULL, reason TEXT NOT NULL,
    tags INTEGER REFERENCES tags, call INTEGER REFERENCES calls,
    PRIMARY KEY (plan, recording, "start", "end")) WITHOUT ROWID;
INSERT INTO new_picks SELECT plan, p.recording, window, p."start", p."end", instant, score, rate,
    expected, reason, t.id, call
FROM picks p LEFT JOIN new_tags t ON t.id = p.tags AND t."start" = p."start" AND t."end" = p."end";

DROP TABLE picks;
DROP TABLE tags;
DROP TABLE looks;
DROP TABLE calls;
ALTER TABLE new_picks RENAME TO picks;
ALTER TABLE new_tags RENAME TO tags;
ALTER TABLE new_calls RENAME TO calls;
CREATE INDEX calls_of_span ON calls (recording, "start", "end");
CREATE INDEX calls_in_flight ON calls (id) WHERE state = 'in flight';
CREATE INDEX calls_interrupted ON calls (interrupted) WHERE interrupted > 0;
DROP TABLE span_of_tags;
DROP TABLE span_of_call;
DROP TABLE span_of_window;
PRAGMA user_version = 3;
""",
    3: """
-- A call is answered if and only if there is an answer: one whose answer was dropped (a spend of
-- NaN was NULL) was asked, and its outcome is lost.
CREATE TABLE new_calls (
    id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE,
    recording INTEGER NOT NULL REFERENCES recordings, "start" REAL NOT NULL, "end" REAL NOT NULL,
    model TEXT NOT NULL, state TEXT NOT NULL
        CHECK (state IN ('waiting', 'in flight', 'interrupted', 'failed', 'answered')),
    asked INTEGER NOT NULL DEFAULT 0, interrupted INTEGER NOT NULL DEFAULT 0,
    reserve_tokens INTEGER NOT NULL DEFAULT 0, reserve_spend REAL NOT NULL DEFAULT 0);
INSERT INTO new_calls SELECT id, identity, recording, "start", "end", calls.model,
    CASE WHEN call IS NOT NULL THEN 'answered' WHEN state = 'answered' THEN 'interrupted'
        WHEN state IN ('waiting', 'in flight', 'interrupted', 'failed') THEN state
        ELSE 'waiting' END,
    asked, interrupted + (call IS NULL AND state = 'answered'), 0, 0.0
FROM calls LEFT JOIN answers ON call = id;
CREATE TABLE new_answers (
    call INTEGER PRIMARY KEY REFERENCES calls, text TEXT NOT NULL, model TEXT NOT NULL,
    kind TEXT NOT NULL, data TEXT, prompt_tokens INTEGER CHECK (prompt_tokens >= 0),
    completion_tokens INTEGER CHECK (completion_tokens >= 0),
    latency REAL NOT NULL, form TEXT NOT NULL, finish TEXT NOT NULL, note TEXT NOT NULL,
    spend REAL NOT NULL CHECK (spend >= 0), at TEXT NOT NULL);
INSERT INTO new_answers SELECT call, text, model, kind, data,
    iif(prompt_tokens >= 0, prompt_tokens, NULL),
    iif(completion_tokens >= 0, completion_tokens, NULL),
    latency, form, finish, note, max(spend, 0.0), at FROM answers;
DROP TABLE answers;
DROP TABLE calls;
ALTER TABLE new_calls RENAME TO calls;
ALTER TABLE new_answers RENAME TO answers;
CREATE INDEX calls_of_span ON calls (recording, "start", "end");
CREATE INDEX calls_in_flight ON calls (id) WHERE state = 'in flight';
CREATE INDEX calls_interrupted ON calls (interrupted) WHERE interrupted > 0;
CREATE INDEX calls_answered ON calls (id) WHERE state = 'answered';
CREATE INDEX answers_of_kind ON answers (kind);
CREATE TRIGGER answer_kept AFTER INSERT ON answers BEGIN
    UPDATE calls SET state = 'answered' WHERE id = NEW.call; END;
CREATE TRIGGER answer_stays BEFORE DELETE ON answers BEGIN
    SELECT RAISE(ABORT, 'an answer is never deleted'); END;
CREATE TRIGGER call_begins_open BEFORE INSERT ON calls WHEN NEW.state = 'answered' BEGIN
    SELECT RAISE(ABORT, 'a call is answered by its answer'); END;
CREATE TRIGGER call_answered BEFORE UPDATE OF state ON calls
WHEN (NEW.state = 'answered') <> EXISTS (SELECT 1 FROM answers WHERE call = NEW.id) BEGIN
    SELECT RAISE(ABORT, 'a call is answered if and only if there is an answer'); END;
PRAGMA user_version = 4;
""",
    4: """
ALTER TABLE recordings ADD COLUMN began TEXT NOT NULL DEFAULT '';
CREATE TABLE evidence (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    "start" REAL NOT NULL, "end" REAL NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('heard', 'said', 'read', 'seen')),
    text TEXT NOT NULL, confidence REAL NOT NULL, origin TEXT NOT NULL, data TEXT);
CREATE INDEX evidence_of ON evidence (recording, kind, "start");
CREATE VIRTUAL TABLE evidence_words USING fts5(
    text, content='evidence', content_rowid='id',
    tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER evidence_added AFTER INSERT ON evidence BEGIN
    INSERT INTO evidence_words (rowid, text) VALUES (NEW.id, NEW.text); END;
CREATE TRIGGER evidence_removed AFTER DELETE ON evidence BEGIN
    INSERT INTO evidence_words (evidence_words, rowid, text)
        VALUES ('delete', OLD.id, OLD.text); END;
CREATE TABLE corrections (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    "start" REAL NOT NULL, "end" REAL NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('right', 'wrong', 'reworded', 'missed')),
    text TEXT NOT NULL, author TEXT NOT NULL, at TEXT NOT NULL, call INTEGER REFERENCES calls,
    withdrawn TEXT);
CREATE INDEX corrections_of ON corrections (recording, "start");
ALTER TABLE heard ADD COLUMN per_call INTEGER NOT NULL DEFAULT 1;
ALTER TABLE picks ADD COLUMN round INTEGER NOT NULL DEFAULT 1;
ALTER TABLE heard ADD COLUMN audio_track INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 5;
""",
    5: """
ALTER TABLE choices ADD COLUMN forecast_low REAL;
ALTER TABLE choices ADD COLUMN forecast_high REAL;
ALTER TABLE choices ADD COLUMN forecast_confidence REAL;
ALTER TABLE frames ADD COLUMN faces_blurred INTEGER NOT NULL DEFAULT 0;
ALTER TABLE recordings ADD COLUMN marks TEXT NOT NULL DEFAULT '[]';
ALTER TABLE recordings ADD COLUMN transcribed_by TEXT NOT NULL DEFAULT '';
UPDATE recordings SET transcribed_by = coalesce(
    (SELECT origin FROM evidence WHERE recording = number AND kind = 'said' LIMIT 1), '');
PRAGMA user_version = 6;
""",
}
"""By the version they start from; each ends by setting the next.

2: picks, tags, calls and frames become known by their span instead of their place on a grid.
3: a call is answered if and only if there is an answer; what it may cost is noted when it is sent.
4: evidence over the whole of a recording, and what people say of answers, have places of their own;
   windows may lie on no grid, a pick knows the round it was asked in, and which audio track was
   heard is noted.
5: a forecast is a range, the faces blurred in a window's pictures are counted, highlights that were
   marked on the camera are known, and what wrote down the speech of a recording is noted, also
   where nobody speaks.
"""


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring the tables from `version` to the present one; foreign keys must not be enforced yet."""
    while version in MIGRATIONS:
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {MIGRATIONS[version]} COMMIT;")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
