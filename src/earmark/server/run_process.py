"""A forecast or a run in a process of its own, so that it can be stopped at any moment.

stdin   one JSON document: what to do, the plan, where
stdout  a JSON line now and then: progress; the last one: result or failure
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TextIO

from earmark.captioning.question import Question
from earmark.captioning.request import Request
from earmark.errors import EarmarkError
from earmark.evidence.window_sounds import WindowSounds
from earmark.pipeline.run_plan import Plan
from earmark.redaction import redact
from earmark.reporting.progress import Progress
from earmark.selection import Pick
from earmark.selection.cost_forecast import CallCost

EVERY = 0.2
"""Seconds between two lines of progress."""


def work(order: dict[str, Any], out: TextIO) -> None:
    """Do what `order` says, and tell `out`."""
    told = 0.0

    def tell(**line: Any) -> None:
        out.write(json.dumps(line, allow_nan=False) + "\n")
        out.flush()

    def on_change(progress: Progress) -> None:
        nonlocal told
        if time.monotonic() - told >= EVERY:
            told = time.monotonic()
            tell(progress=progress.to_json())

    try:
        tell(result=_do(order, Progress(on_change)))
    except (EarmarkError, ValueError) as error:
        tell(failure=redact(str(error)))
    except KeyboardInterrupt:
        tell(stopped=True)


def _do(order: dict[str, Any], progress: Progress) -> dict[str, Any]:
    plan = Plan.from_json(order["plan"])
    if order["server"]:  # a plan is written without the key in an address
        plan = replace(plan, model_choice=replace(plan.model_choice, server=order["server"]))
    if order["kind"] == "forecast":
        return forecast_of(plan, progress)
    from earmark.pipeline.caption import caption

    folder, key = Path(order["run"]), order["api_key"]
    done = caption(run=folder, plan=plan, api_key=key, progress=progress)
    return {"totals": asdict(done.totals), "missed": done.missed, "stopped": done.tally.stopped}


def forecast_of(plan: Plan, progress: Progress | None = None) -> dict[str, Any]:
    """What budgets reach and, at the prices of `plan`, cost at most."""
    from earmark.pipeline.plan import plan as make_forecast

    cost = CallCost(money=plan.limits.price_at_most(any_request(plan, plan.question)))
    forecast = make_forecast(plan=plan, cost=cost, progress=progress).forecast
    assert forecast is not None, "that is what planning gives"
    return forecast.to_json()


def any_request(plan: Plan, question: Question) -> Request:
    """What `question` asks of some window: the most that a call takes is known from it."""
    window = Pick(0, 0.0, plan.listening.grid.length, 0.0, 0.0, 0.0, 0.0, "")
    return question.request("", window, WindowSounds(), "")


if __name__ == "__main__":
    work(json.load(sys.stdin), sys.stdout)
