"""A run as version 2 of the tables kept it, where a pick was known by its place on a grid.

One recording of 24 s, first under a grid of 4 s and then under one of 8 s (the present plan), so
that window 1 is two spans: tags and pictures of the second have overwritten those of the first.

    time       0   4   8   12  16  20  24
    4 s grid   .   ^   .   ^   .   ^          1 answered, 3 failed, 5 in flight
    8 s grid   .       ^       ^              1 answered, 2 not asked
               a                              answered once; no pick is left of it
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np

TABLES = """
CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE plans (id INTEGER PRIMARY KEY, plan TEXT NOT NULL UNIQUE, opened TEXT NOT NULL);
CREATE TABLE recordings (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL,
    name TEXT NOT NULL, chapters TEXT NOT NULL, duration REAL NOT NULL, size_bytes INTEGER NOT NULL,
    frame_rate REAL NOT NULL, frame_count INTEGER NOT NULL, failure TEXT,
    is_replaced INTEGER NOT NULL DEFAULT 0);
CREATE INDEX recordings_at ON recordings (path);
CREATE VIEW present AS SELECT * FROM recordings WHERE failure IS NULL AND NOT is_replaced;
CREATE TABLE heard (
    recording INTEGER PRIMARY KEY REFERENCES recordings, key TEXT NOT NULL,
    window REAL NOT NULL, duration REAL NOT NULL, windows INTEGER NOT NULL, expected REAL NOT NULL,
    scores BLOB NOT NULL, instants BLOB NOT NULL, rates BLOB NOT NULL,
    level BLOB, level_hop REAL, sound_bytes INTEGER NOT NULL, access TEXT NOT NULL,
    warnings TEXT NOT NULL);
CREATE TABLE choices (
    plan INTEGER NOT NULL REFERENCES plans, recording INTEGER NOT NULL REFERENCES recordings,
    rule TEXT NOT NULL, forecast REAL, notes TEXT NOT NULL, PRIMARY KEY (plan, recording));
CREATE TABLE picks (
    plan INTEGER NOT NULL REFERENCES plans, recording INTEGER NOT NULL REFERENCES recordings,
    window INTEGER NOT NULL, "start" REAL NOT NULL, "end" REAL NOT NULL, instant REAL NOT NULL,
    score REAL NOT NULL, rate REAL NOT NULL, expected REAL NOT NULL, reason TEXT NOT NULL,
    tags INTEGER REFERENCES tags, call INTEGER REFERENCES calls,
    PRIMARY KEY (plan, recording, window)) WITHOUT ROWID;
CREATE TABLE tags (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    window INTEGER NOT NULL, words TEXT NOT NULL, UNIQUE (recording, window));
CREATE TABLE looks (
    recording INTEGER NOT NULL REFERENCES recordings, window INTEGER NOT NULL,
    thumbnail BLOB NOT NULL, frames_decoded INTEGER NOT NULL, frames_sent INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL, PRIMARY KEY (recording, window));
CREATE TABLE calls (
    id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE,
    recording INTEGER NOT NULL REFERENCES recordings, window INTEGER NOT NULL,
    model TEXT NOT NULL, state TEXT NOT NULL, asked INTEGER NOT NULL DEFAULT 0,
    interrupted INTEGER NOT NULL DEFAULT 0);
CREATE INDEX calls_of_window ON calls (recording, window);
CREATE INDEX calls_in_flight ON calls (id) WHERE state = 'in flight';
CREATE INDEX calls_interrupted ON calls (interrupted) WHERE interrupted > 0;
CREATE TABLE answers (
    call INTEGER PRIMARY KEY REFERENCES calls, text TEXT NOT NULL, model TEXT NOT NULL,
    kind TEXT NOT NULL, data TEXT, prompt_tokens INTEGER, completion_tokens INTEGER,
    latency REAL NOT NULL, form TEXT NOT NULL, finish TEXT NOT NULL, note TEXT NOT NULL,
    spend REAL NOT NULL, at TEXT NOT NULL);
CREATE TABLE failures (
    id INTEGER PRIMARY KEY, call INTEGER NOT NULL REFERENCES calls, reason TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, spend REAL NOT NULL,
    at TEXT NOT NULL);
CREATE INDEX failures_of_call ON failures (call);
CREATE VIRTUAL TABLE words USING fts5(
    caption, tags, content='', tokenize='porter unicode61 remove_diacritics 2');
"""

OLD, PRESENT = {"model": "m1", "window": 4.0}, {"model": "m1", "window": 8.0}

PICKS = [
    # plan, window, start, end, tags, call
    (1, 1, 4.0, 8.0, 1, 1),
    (1, 3, 12.0, 16.0, 2, 2),
    (1, 5, 20.0, 24.0, None, 4),
    (2, 1, 8.0, 16.0, 1, 3),
    (2, 2, 16.0, 24.0, None, None),
]
CALLS = [
    # id, identity, window, state, asked
    (1, "old 1", 1, "answered", 1),
    (2, "old 3", 3, "failed", 2),
    (3, "present 1", 1, "answered", 1),
    (4, "old 5", 5, "in flight", 1),
    (5, "gone 0", 0, "answered", 1),
]
ANSWERS = {1: ("a board", "10:00"), 3: ("a saw", "12:00"), 5: ("an apron", "09:00")}


def make_version_2(folder: Path) -> Path:
    """Write the run; its log is folded into the database, as closing it leaves it."""
    folder.mkdir(parents=True)
    database = sqlite3.connect(folder / "run.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.executescript(
        f"BEGIN; PRAGMA application_id = {0x6561726D}; PRAGMA user_version = 2; {TABLES} COMMIT;"
    )
    database.execute("BEGIN")
    _write(database)
    database.execute("COMMIT")
    database.close()
    return folder


def _write(database: sqlite3.Connection) -> None:
    notes = {"plan": "2", "holder": "process 1 on old", "survival": "[[0.0, 9.0], [1.0, 0.0]]"}
    database.executemany("INSERT INTO notes VALUES (?, ?)", notes.items())
    for number, plan in ((1, OLD), (2, PRESENT)):
        text = json.dumps(plan, sort_keys=True)
        database.execute("INSERT INTO plans VALUES (?, ?, '2026-01-01')", (number, text))
    recording = "INSERT INTO recordings VALUES (?, ?, ?, '', '[]', 24.0, 1000, 15.0, 360, ?, 0)"
    database.execute(recording, (1, "a", "/cams/a.mp4", None))
    database.execute(recording, (2, "b", "/cams/b.mp4", "b.mp4 is empty"))
    numbers = np.array([1.0, 3.0, 2.0]).astype("<f8").tobytes()
    database.execute(
        "INSERT INTO heard VALUES (1, 'v1', 8.0, 24.0, 3, 6.0, ?1, ?1, ?1, NULL, NULL, 50,"
        " 'index', '[\"odd\"]')",
        (numbers,),
    )
    choice = "INSERT INTO choices VALUES (?, 1, 'rank', 0.5, '[\"a note\"]')"
    database.executemany(choice, [(1,), (2,)])
    pick = "INSERT INTO picks VALUES (?, 1, ?, ?, ?, 9.0, 0.5, 1.0, 0.25, 'loud', ?, ?)"
    database.executemany(pick, PICKS)
    tags = [(1, 1, ["sawing", "wood"]), (2, 3, ["water"])]
    for number, window, words in tags:
        row = (number, window, json.dumps(words))
        database.execute("INSERT INTO tags VALUES (?, 1, ?, ?)", row)
        index = "INSERT INTO words (rowid, caption, tags) VALUES (?, '', ?)"
        database.execute(index, (-number, " ".join(words)))
    look = "INSERT INTO looks VALUES (1, ?, ?, 10, 1, 100)"
    database.executemany(look, [(1, b"of 8-16"), (3, b"of 12-16")])
    call = "INSERT INTO calls VALUES (?, ?, 1, ?, 'm1', ?, ?, 0)"
    database.executemany(call, CALLS)
    for number, (text, at) in ANSWERS.items():
        answer = (
            "INSERT INTO answers VALUES (?, ?, 'm1', 'caption', NULL, 100, 10, 0.5, 'images',"
            " 'stop', '', 0.01, ?)"
        )
        database.execute(answer, (number, text, at))
        index = "INSERT INTO words (rowid, caption, tags) VALUES (?, ?, '')"
        database.execute(index, (number, text))
    failure = "INSERT INTO failures VALUES (?, 2, ?, 5, 0, 0.001, ?)"
    database.executemany(failure, [(1, "too slow", "10:01"), (2, "it said 500", "10:02")])
