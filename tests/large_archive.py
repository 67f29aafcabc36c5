"""A run of very many recordings, written straight into its tables: for speed alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from earmark.gate.lengths import LengthModel, lengths_to_json
from earmark.run.run import Run

WINDOWS = 100
"""Of four seconds, in each recording."""


def write_large_archive(folder: Path, *, recordings: int, picks: int) -> Path:
    """A run with `recordings`, each with `picks` answered picks."""
    Run(folder, {"model": "m1", "budget": "20%"}).close()
    with closing(sqlite3.connect(folder / "run.db")) as database, database:
        numbers = range(1, recordings + 1)
        database.executemany(
            "INSERT INTO recordings (number, id, path, name, chapters, duration, size_bytes,"
            " frame_rate, frame_count, began)"
            " VALUES (?, ?, ?, '', '[]', 400, 4000000, 30, 12000, ?)",
            (
                (n, f"{n:064x}", f"/cams/{n % 40}/shift-{n:05d}.mp4", f"2026-05-{n % 28 + 1:02d}")
                for n in numbers
            ),
        )
        database.executemany(
            "INSERT INTO heard (recording, key, window, duration, windows, expected, scores,"
            " instants, rates, lengths, sound_bytes, access, warnings)"
            " VALUES (?, 'v1', 4, 400, ?, ?, ?, ?, ?, ?, 40000, 'index', '[]')",
            (_heard(n) for n in numbers),
        )
        with _without_triggers(database):
            _write_picks(database, recordings, picks)
    return folder


@contextmanager
def _without_triggers(database: sqlite3.Connection) -> Iterator[None]:
    """What they would do for each of very many rows is written with the rows."""
    kept = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _ in kept:
        database.execute(f"DROP TRIGGER {name}")
    yield
    for _, text in kept:
        database.execute(text)


def _write_picks(database: sqlite3.Connection, recordings: int, picks: int) -> None:
    """As many answered picks of each recording, evenly spaced, others in each."""
    step = WINDOWS // picks
    database.execute(
        "CREATE TEMP TABLE made AS WITH RECURSIVE"
        " numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1),"
        " places (k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM places WHERE k < ?2 - 1)"
        " SELECT (n - 1) * ?2 + k + 1 AS key, n, k * ?3 + n % ?3 AS window,"
        " 4.0 * (k * ?3 + n % ?3) AS start FROM numbers, places",
        (recordings, picks, step),
    )
    database.execute(
        'INSERT INTO calls (id, identity, recording, "start", "end", model, state, asked)'
        " SELECT key, 'c' || key, n, start, start + 4, 'm1', 'answered', 1 FROM made"
    )
    database.execute(
        "INSERT INTO answers SELECT key, 'someone works at ' || CAST(start AS INTEGER), 'm1',"
        " 'caption', NULL, 300, 40, 0.5, 'images', 'stop', '', 0.0002, '2026-05-01T00:00:00'"
        " FROM made"
    )
    database.execute(
        'INSERT INTO picks (plan, recording, window, "start", "end", instant, score, rate,'
        " expected, reason, call)"
        " SELECT 1, n, window, start, start + 4, start + 2, 0.8, 0.5, 0.5, 'expected', key"
        " FROM made ORDER BY n, start"
    )
    database.execute("INSERT INTO words (rowid, caption, tags) SELECT call, text, '' FROM answers")


def _heard(number: int) -> tuple[object, ...]:
    rng = np.random.default_rng(number)
    rates = rng.gamma(0.4, 0.5, WINDOWS)
    middles = (np.arange(WINDOWS) + 0.5) * 4.0
    arrays = (rng.random(WINDOWS), middles, rates)
    lengths = json.dumps(lengths_to_json(LengthModel().usual))
    return number, WINDOWS, float(rates.sum()), *(each.tobytes() for each in arrays), lengths
