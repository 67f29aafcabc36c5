"""Jobs of the server: forecasts and runs, each a process that can be stopped and continued.

The process is this module, run by itself:

    stdin   one JSON document: the kind of job, the plan, the folder
    stdout  JSON lines: progress, and at the end the result or the failure
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from earmark.captioning.question import Question
from earmark.captioning.request import Request
from earmark.captioning.speech_plan import SpeechPlan
from earmark.errors import EarmarkError
from earmark.evidence.window_sounds import WindowSounds
from earmark.gate.frontline import UNHEARD
from earmark.gate.frontline_registry import AUTO, SUFFIX
from earmark.ledger.run_lock import is_at_work
from earmark.ledger.schema import FILE
from earmark.media import Source
from earmark.media.atomic_file import write_whole
from earmark.media.source import folder_name, name_of
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.redaction import is_redacted, redact
from earmark.reporting.progress import Progress
from earmark.selection import Pick
from earmark.selection.cost_forecast import CallCost
from earmark.server.run_library import ServedRun, key_of

PLAN = "plan.json"
"""File in the folder of a run that was started here, with its plan."""

MOST_JOBS = 100
"""Jobs remembered; the oldest finished ones are dropped."""

PROGRESS_INTERVAL = 0.2
"""Least seconds between two lines of progress within a stage."""

STOP_TIMEOUT = 20.0
"""Seconds that a process has to end before it is killed."""


SAID = ("budget", "rule", "frontline", "window", "across", "audio_track")
"""Choices that a ledger always has."""

UNSAID = {"placement": "grid", "action_length": None, "rounds": "1", "pictures": None}
UNSAID |= asdict(SpeechPlan())
"""Choices that a ledger has only if they are not these."""


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as the REST interface shows it."""

    id: str
    kind: str
    """`forecast` or `run`."""
    state: str
    """`at work`, `done`, `stopped` or `failed`."""
    run: str
    """The id of the run it works on; empty for a forecast."""
    progress: dict[str, Any]
    result: dict[str, Any] | None
    failure: str


@dataclass(slots=True, eq=False)
class Job:
    """A process, running or finished."""

    id: str
    kind: str
    child: subprocess.Popen[str]
    folder: Path | None
    state: str = "at work"
    told: dict[str, Any] = field(default_factory=dict)
    """What the process wrote last of each: `progress`, `result`, `failure`, `stopped`."""

    def view(self) -> JobView:
        """The job's view; `run` is empty until the run has a database."""
        has_run = self.folder is not None and (self.folder / FILE).is_file()
        return JobView(
            id=self.id,
            kind=self.kind,
            state=self.state,
            run=key_of(self.folder) if self.folder and has_run else "",
            progress=self.told.get("progress", {}),
            result=self.told.get("result"),
            failure=self.told.get("failure", ""),
        )

    def follow(self) -> None:
        """Read the output of the process until it ends."""
        assert self.child.stdout is not None
        with self.child.stdout as lines:
            for text in lines:
                with suppress(ValueError):  # a library may print lines of its own
                    self.told |= json.loads(text) if text.startswith("{") else {}
        code = self.child.wait()
        if not self.told.keys() & {"result", "failure", "stopped"}:
            died = f"its process died with exit code {code}; what was finished is kept"
            self.told["failure"] = died
        ended = "done" if "result" in self.told else "stopped"
        self.state = "failed" if "failure" in self.told else ended

    def stop(self) -> None:
        """Ask the process to end; stored answers stay."""
        if self.child.poll() is None:
            self.told["stopped"] = True
            self.child.send_signal(signal.SIGINT)


class RunJobs:
    """All forecasts and runs started here."""

    def __init__(self, plan: Plan, api_key: str | None = None) -> None:
        self.plan = plan
        self._api_key = api_key
        self._jobs: dict[str, Job] = {}
        self._lock = threading.RLock()

    def __getitem__(self, key: str) -> Job:
        return self._jobs[key]

    def of(self, folder: Path) -> Job | None:
        """The latest job on the run in `folder`, if any."""
        with self._lock:
            jobs = [job for job in self._jobs.values() if job.folder == folder]
        return jobs[-1] if jobs else None

    def forecast(self, sources: Sequence[Source], budget: str) -> Job:
        """Start a forecast of what budgets reach and cost for `sources`."""
        return self._start("forecast", make_plan(sources, self.plan, budget=budget), None)

    def start(self, folder: Path, plan: Plan) -> Job:
        """Start or continue the run in `folder`; raises `EarmarkError` if it is already running."""
        with self._lock:
            job = self.of(folder)  # its process may not have opened the ledger yet
            if is_at_work(folder) or (job and job.state == "at work"):
                raise EarmarkError(f"{folder.name} is at work already")
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / PLAN, json.dumps(plan.to_json()))
            return self._start("run", plan, folder)

    def close(self) -> None:
        """Stop all jobs, and wait for them to end."""
        for job in self._jobs.values():
            job.stop()
        for job in self._jobs.values():
            try:
                job.child.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                job.child.kill()

    def _start(self, kind: str, plan: Plan, folder: Path | None) -> Job:
        order = {
            "kind": kind,
            "plan": plan.to_json(),
            "server": plan.model_choice.server,
            "api_key": self._api_key,
            "run": str(folder) if folder else None,
        }
        child = subprocess.Popen(  # this interpreter and module
            [sys.executable, "-m", "earmark.server.run_jobs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C in the terminal is the server's
        )
        assert child.stdin is not None
        with child.stdin:
            json.dump(order, child.stdin)
        job = Job(secrets.token_hex(8), kind, child, folder)
        with self._lock:
            finished = [key for key, one in self._jobs.items() if one.state != "at work"]
            for key in finished[: max(0, len(self._jobs) - MOST_JOBS + 1)]:
                del self._jobs[key]
            self._jobs[job.id] = job
        threading.Thread(target=job.follow, name=f"job-{job.id}", daemon=True).start()
        return job


def restore_plan(served: ServedRun, plan: Plan) -> Plan:
    """The plan that a run was started with, but with the model and limits of `plan`.

    For a run that was started elsewhere it is made from the run's recordings and ledger; raises
    `ValueError` if these do not say enough.
    """
    saved = served.folder / PLAN
    if saved.is_file():
        made = Plan.from_json(json.loads(saved.read_text(encoding="utf-8")))
        question = replace(made.question, blur=made.question.blur or plan.question.blur)
        updated = replace(made, model_choice=plan.model_choice, limits=plan.limits)
        return replace(updated, question=question)
    with served.open() as run:
        recorded, paths = run.plan(), [row.source for row in run.recordings()]
        paths += [Source((row.path,), row.name) for row in run.failed_recordings()]
    said = UNSAID | recorded
    length = said["action_length"]
    is_curve = length is not None and "curve" in length  # of which the ledger has only a hash
    is_told = said.keys() >= {*SAID, "sounds", "ask"} and not is_redacted(said["transcriber"] or "")
    ours = plan.listening.frontline
    # Of a gate file the ledger has the name alone; without listening there is no name.
    frontlines: dict[str, Any] = {UNHEARD: AUTO, ours.name: ours}
    named = said.get("frontline", "")
    is_elsewhere = named.endswith(SUFFIX) and named not in frontlines
    if is_curve or is_elsewhere or not is_told:
        raise ValueError("the run does not say how it was made; run its command again")
    choices = {name: said[name] for name in (*SAID, *UNSAID)}
    choices |= {"action_length": None if length is None else float(length)}
    choices |= {"frontline": frontlines.get(named, named)}
    question = replace(Question.from_json(said["ask"]), blur=plan.question.blur)
    return make_plan(paths, plan, question=question, sounds=bool(said["sounds"]), **choices)


def run_folder(root: Path, name: str, sources: Sequence[Source]) -> Path:
    """Make the folder of a new run: `runs/NAME` below `root`, with a number if that exists."""
    stem = folder_name(name or Path(name_of(sources[0].uris[0])).stem)
    with suppress(FileExistsError):
        (root / "runs").mkdir()
    for number in count(1):
        folder = root / "runs" / (stem if number == 1 else f"{stem}-{number}")
        with suppress(FileExistsError):  # another request may make one of the same name
            folder.mkdir()
            break
    return folder


def run_order(order: dict[str, Any], out: TextIO) -> None:
    """Run the job `order`; write progress and result to `out`."""
    last_written, stage = 0.0, (0, 0)

    def write_line(**line: Any) -> None:
        out.write(json.dumps(line, allow_nan=False) + "\n")
        out.flush()

    def on_change(progress: Progress) -> None:
        nonlocal last_written, stage
        now = progress.recordings, progress.calls
        if now != stage or time.monotonic() - last_written >= PROGRESS_INTERVAL:
            last_written, stage = time.monotonic(), now
            write_line(progress=progress.to_json())

    try:
        write_line(result=_run_order(order, Progress(on_change)))
    except (EarmarkError, ValueError) as error:
        write_line(failure=redact(str(error)))
    except OSError as error:
        write_line(failure=redact(explain_refusal(error)))
    except KeyboardInterrupt:
        write_line(stopped=True)


def explain_refusal(error: OSError) -> str:
    """What the system refused, without the path, which clients are not told."""
    return f"cannot go on: {error.strerror or error}"


def _run_order(order: dict[str, Any], progress: Progress) -> dict[str, Any]:
    plan = Plan.from_json(order["plan"])
    if order["server"]:  # a plan is stored without the key in a URL
        plan = replace(plan, model_choice=replace(plan.model_choice, server=order["server"]))
    if order["kind"] == "forecast":
        return forecast_of(plan, progress)
    from earmark.pipeline.caption import caption

    folder, key = Path(order["run"]), order["api_key"]
    done = caption(run=folder, plan=plan, api_key=key, progress=progress)
    return {"totals": asdict(done.totals), "missed": done.missed, "stopped": done.tally.stopped}


def forecast_of(plan: Plan, progress: Progress | None = None) -> dict[str, Any]:
    """The forecast as JSON: what budgets reach and, at the prices of `plan`, cost at most."""
    from earmark.pipeline.plan import plan as make_forecast

    cost = CallCost(money=plan.limits.price(*sample_request(plan, plan.question).most_tokens))
    forecast = make_forecast(plan=plan, cost=cost, progress=progress).forecast
    assert forecast is not None, "that is what planning gives"
    return forecast.to_json()


def sample_request(plan: Plan, question: Question) -> Request:
    """A request with `question` about an example window, for the most tokens of a call."""
    window = Pick(0, 0.0, plan.listening.grid.length, 0.0, 0.0, 0.0, 0.0, "")
    return Request.about("", window, question, WindowSounds(), "")


if __name__ == "__main__":
    run_order(json.load(sys.stdin), sys.stdout)
