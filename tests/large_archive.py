"""A run of very many recordings, written straight into its tables: for speed alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from earmark.ledger.ledger import Ledger

WINDOWS = 100
"""Of four seconds, in each recording."""


def write_large_archive(folder: Path, *, recordings: int, picks: int) -> Path:
    """A run with `recordings`, each with `picks` answered picks."""
    Ledger.open(folder, {"model": "m1", "budget": "20%"}).close()
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
            " instants, rates, sound_bytes, access, warnings)"
            " VALUES (?, 'v1', 4, 400, ?, ?, ?, ?, ?, 40000, 'index', '[]')",
            (_heard(n) for n in numbers),
        )
        database.executemany(
            'INSERT INTO calls (id, identity, recording, "start", "end", model, state, asked)'
            " VALUES (?, ?, ?, ?, ?, 'm1', 'waiting', 1)",
            (
                (key, f"c{key}", n, start, start + 4.0)
                for key, n, start in _picks(recordings, picks)
            ),
        )
        database.executemany(
            "INSERT INTO answers VALUES (?, ?, 'm1', 'caption', NULL, 300, 40, 0.5, 'images',"
            " 'stop', '', 0.0002, '2026-05-01T00:00:00')",
            ((key, f"someone works at {start:g}") for key, _, start in _picks(recordings, picks)),
        )
        database.executemany(
            'INSERT INTO picks (plan, recording, window, "start", "end", instant, score, rate,'
            " expected, reason, call) VALUES (1, ?, ?, ?, ?, ?, 0.8, 0.5, 0.5, 'expected', ?)",
            (
                (n, int(start // 4), start, start + 4.0, start + 2.0, key)
                for key, n, start in _picks(recordings, picks)
            ),
        )
        database.execute(
            "INSERT INTO words (rowid, caption, tags) SELECT call, text, '' FROM answers"
        )
    return folder


def _picks(recordings: int, picks: int) -> Iterator[tuple[int, int, float]]:
    step = WINDOWS // picks
    for number in range(1, recordings + 1):
        for place in range(picks):
            window = place * step + number % step
            yield (number - 1) * picks + place + 1, number, window * 4.0


def _heard(number: int) -> tuple[object, ...]:
    rng = np.random.default_rng(number)
    rates = rng.gamma(0.4, 0.5, WINDOWS)
    middles = (np.arange(WINDOWS) + 0.5) * 4.0
    arrays = (rng.random(WINDOWS), middles, rates)
    return number, WINDOWS, float(rates.sum()), *(each.tobytes() for each in arrays)
