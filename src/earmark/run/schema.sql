--     plans ──┬── choices, picks ──┐
--             │                    ├── calls ──┬── answers
--     recordings ─┬── heard        │           └── failures
--                 ├── frames, tags ┘               words: full text over captions and tags
--                 ├── evidence     what was heard, said, read or seen, at any time
--                 │                evidence_words: full text over it
--                 ├── gaps         when a live source could not be heard
--                 └── corrections  what people say about it; the answers stay as they are
--
-- A pick is identified by its recording and its span. A call is answered if and only if it has an
-- answer: triggers see to that, and to both full-text indexes.

CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE plans (id INTEGER PRIMARY KEY, plan TEXT NOT NULL UNIQUE, opened TEXT NOT NULL);
CREATE TABLE recordings (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL,
    name TEXT NOT NULL, chapters TEXT NOT NULL, duration REAL NOT NULL, size_bytes INTEGER NOT NULL,
    frame_rate REAL NOT NULL, frame_count INTEGER NOT NULL, failure TEXT,
    is_replaced INTEGER NOT NULL DEFAULT 0, began TEXT NOT NULL DEFAULT '',
    clock TEXT NOT NULL DEFAULT '', marks TEXT NOT NULL DEFAULT '[]',
    transcribed_by TEXT NOT NULL DEFAULT '', content TEXT NOT NULL DEFAULT '', versions TEXT NOT NULL DEFAULT '[]');
CREATE INDEX recordings_at ON recordings (path);
CREATE VIEW present AS SELECT * FROM recordings WHERE failure IS NULL AND NOT is_replaced;
CREATE TABLE heard (
    recording INTEGER PRIMARY KEY REFERENCES recordings, key TEXT NOT NULL,
    window REAL NOT NULL, duration REAL NOT NULL, windows INTEGER NOT NULL, expected REAL NOT NULL,
    scores BLOB NOT NULL, instants BLOB NOT NULL, rates BLOB NOT NULL,
    lengths TEXT NOT NULL, level BLOB, level_hop REAL, sound_bytes INTEGER NOT NULL, access TEXT NOT NULL,
    warnings TEXT NOT NULL, audio_track INTEGER NOT NULL DEFAULT 0);
CREATE TABLE choices (
    plan INTEGER NOT NULL REFERENCES plans, recording INTEGER NOT NULL REFERENCES recordings,
    rule TEXT NOT NULL, forecast REAL, notes TEXT NOT NULL, forecast_range TEXT,
    PRIMARY KEY (plan, recording));
CREATE TABLE picks (
    plan INTEGER NOT NULL REFERENCES plans, recording INTEGER NOT NULL REFERENCES recordings,
    window INTEGER, "start" REAL NOT NULL, "end" REAL NOT NULL, instant REAL NOT NULL,
    score REAL NOT NULL, rate REAL NOT NULL, expected REAL NOT NULL, reason TEXT NOT NULL,
    tags INTEGER REFERENCES tags, call INTEGER REFERENCES calls, round INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (plan, recording, "start", "end")) WITHOUT ROWID;
CREATE TABLE tags (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    "start" REAL NOT NULL, "end" REAL NOT NULL, words TEXT NOT NULL,
    UNIQUE (recording, "start", "end"));
CREATE TABLE frames (
    recording INTEGER NOT NULL REFERENCES recordings, "start" REAL NOT NULL, "end" REAL NOT NULL,
    thumbnail BLOB NOT NULL, frames_decoded INTEGER NOT NULL, frames_sent INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL, faces_blurred INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (recording, "start", "end"));
CREATE TABLE calls (
    id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE,
    recording INTEGER NOT NULL REFERENCES recordings, "start" REAL NOT NULL, "end" REAL NOT NULL,
    model TEXT NOT NULL, state TEXT NOT NULL
        CHECK (state IN ('waiting', 'in flight', 'interrupted', 'failed', 'answered')),
    asked INTEGER NOT NULL DEFAULT 0, interrupted INTEGER NOT NULL DEFAULT 0,
    reserve_tokens INTEGER NOT NULL DEFAULT 0, reserve_spend REAL NOT NULL DEFAULT 0);
CREATE INDEX calls_of_span ON calls (recording, "start", "end");
CREATE INDEX calls_in_flight ON calls (id) WHERE state = 'in flight';
CREATE INDEX calls_interrupted ON calls (interrupted) WHERE interrupted > 0;
CREATE INDEX calls_answered ON calls (id) WHERE state = 'answered';
CREATE TABLE answers (
    call INTEGER PRIMARY KEY REFERENCES calls, text TEXT NOT NULL, model TEXT NOT NULL,
    kind TEXT NOT NULL, data TEXT, prompt_tokens INTEGER CHECK (prompt_tokens >= 0),
    completion_tokens INTEGER CHECK (completion_tokens >= 0),
    latency REAL NOT NULL, form TEXT NOT NULL, finish TEXT NOT NULL, note TEXT NOT NULL,
    spend REAL NOT NULL CHECK (spend >= 0), at TEXT NOT NULL);
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
CREATE TABLE failures (
    id INTEGER PRIMARY KEY, call INTEGER NOT NULL REFERENCES calls, reason TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, spend REAL NOT NULL,
    at TEXT NOT NULL);
CREATE INDEX failures_of_call ON failures (call);
CREATE TABLE evidence (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    "start" REAL NOT NULL, "end" REAL NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('heard', 'said', 'read', 'seen')),
    text TEXT NOT NULL, confidence REAL NOT NULL, origin TEXT NOT NULL, data TEXT);
CREATE INDEX evidence_of ON evidence (recording, kind, "start");
CREATE TABLE gaps (
    recording INTEGER NOT NULL REFERENCES recordings, "start" REAL NOT NULL, "end" REAL NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY (recording, "start"));
CREATE TABLE corrections (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    "start" REAL NOT NULL, "end" REAL NOT NULL,
    verdict TEXT NOT NULL
        CHECK (verdict IN ('right', 'partly', 'wrong', 'reworded', 'missed')),
    text TEXT NOT NULL, author TEXT NOT NULL, at TEXT NOT NULL, call INTEGER REFERENCES calls,
    withdrawn TEXT);
CREATE INDEX corrections_of ON corrections (recording, "start");

CREATE VIRTUAL TABLE evidence_words USING fts5(
    text, content='evidence', content_rowid='id',
    tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER evidence_added AFTER INSERT ON evidence BEGIN
    INSERT INTO evidence_words (rowid, text) VALUES (NEW.id, NEW.text); END;
CREATE TRIGGER evidence_removed AFTER DELETE ON evidence BEGIN
    INSERT INTO evidence_words (evidence_words, rowid, text)
        VALUES ('delete', OLD.id, OLD.text); END;

-- An answer has the number of its call in the index and comes with the tags of its span, so that
-- words from both find it; tags have their negative number. Tags are indexed as JSON, whose signs
-- are no part of a word. The index stores no text: to delete a row takes exactly what was indexed.
CREATE VIRTUAL TABLE words USING fts5(
    caption, tags, content='', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIEW captions AS
    SELECT call, text, recording, "start", "end" FROM calls JOIN answers ON call = id;
CREATE TRIGGER answer_indexed AFTER INSERT ON answers BEGIN
    INSERT INTO words (rowid, caption, tags)
    SELECT NEW.call, NEW.text, coalesce(tags.words, '') FROM calls
        LEFT JOIN tags USING (recording, "start", "end") WHERE calls.id = NEW.call; END;
CREATE TRIGGER answer_removed AFTER DELETE ON answers BEGIN
    INSERT INTO words (words, rowid, caption, tags)
    SELECT 'delete', OLD.call, OLD.text, coalesce(tags.words, '') FROM calls
        LEFT JOIN tags USING (recording, "start", "end") WHERE calls.id = OLD.call; END;
CREATE TRIGGER tags_added AFTER INSERT ON tags BEGIN
    INSERT INTO words (words, rowid, caption, tags) SELECT 'delete', call, text, ''
        FROM captions WHERE recording = NEW.recording AND "start" = NEW."start"
        AND "end" = NEW."end";
    INSERT INTO words (rowid, caption, tags) SELECT call, text, NEW.words
        FROM captions WHERE recording = NEW.recording AND "start" = NEW."start"
        AND "end" = NEW."end";
    INSERT INTO words (rowid, caption, tags) VALUES (-NEW.id, '', NEW.words); END;
CREATE TRIGGER tags_changed AFTER UPDATE OF words ON tags WHEN OLD.words <> NEW.words BEGIN
    INSERT INTO words (words, rowid, caption, tags) SELECT 'delete', call, text, OLD.words
        FROM captions WHERE recording = NEW.recording AND "start" = NEW."start"
        AND "end" = NEW."end";
    INSERT INTO words (rowid, caption, tags) SELECT call, text, NEW.words
        FROM captions WHERE recording = NEW.recording AND "start" = NEW."start"
        AND "end" = NEW."end";
    INSERT INTO words (words, rowid, caption, tags) VALUES ('delete', -OLD.id, '', OLD.words);
    INSERT INTO words (rowid, caption, tags) VALUES (-NEW.id, '', NEW.words); END;
CREATE TRIGGER tags_removed AFTER DELETE ON tags BEGIN
    INSERT INTO words (words, rowid, caption, tags) VALUES ('delete', -OLD.id, '', OLD.words); END;
