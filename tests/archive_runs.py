"""Runs of many recordings, made without media."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from earmark import Budget
from earmark.captioning.request import Answer
from earmark.gate.lengths import LengthModel
from earmark.grid import Windows
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.selection import Coverage, allocate
from reckoning import forecast
from small_runs import CallRow

PLAN = {"budget": "20%", "across": True, "model": "m1"}


def windows_of(seed: int, count: int) -> Windows:
    """Windows of 4 s with gamma-distributed rates, busier in some recordings than in others."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(0.4, rng.gamma(2.0, 0.3), count)
    middles = (np.arange(count) + 0.5) * 4.0
    return Windows(4.0, count * 4.0, rng.random(count), middles, rates, LengthModel().usual)


def tell_archive(folder: Path, *, recordings: int, windows: int = 40) -> Path:
    """A run with one failed call in fifty, and one missed recording in a hundred."""
    many = [windows_of(number, windows + number % 7) for number in range(recordings)]
    choices = list(allocate(Coverage(), many, Budget(share=0.2), across=True))
    with Run(folder, PLAN) as ledger:
        for number, (one, choice) in enumerate(zip(many, choices, strict=True)):
            name = f"{number:064x}"
            path = f"s3://shift-cams/2026-05/cam-{number % 40:02d}/shift-{number:04d}.mp4"
            if number % 100 == 99:
                ledger.fail_recording(
                    path, path, f"{path}: the server refuses it (403); check your rights"
                )
                continue
            began = f"2026-05-{number % 28 + 1:02d}T08:12:00+00:00"
            count = int(one.duration) * 30
            ledger.add(RecordingRow(name, path, one.duration, 4_000_000, 30.0, count, began=began))
            ledger.hear(name, one, key="v1", sound_bytes=40_000, access="index")
            chosen = [pick.window for pick in choice.picks]
            ledger.choose(name, choice.picks, rule="coverage", forecast=forecast(one, chosen))
            calls = {
                window: CallRow(f"{number}/{window}", name, one.span(window), "m1")
                for window in chosen
            }
            ledger.unanswered(calls.values())
            for window, call in calls.items():
                ledger.begin(call)
                if (number + window) % 50 == 0:
                    ledger.fail(call, "the server is busy (503)")
                else:
                    said = Answer(f"someone works at {window}", "m1", prompt_tokens=300,
                                  completion_tokens=40, latency=0.5)  # fmt: skip
                    ledger.keep(call, said, spend=0.0002)
    return folder
