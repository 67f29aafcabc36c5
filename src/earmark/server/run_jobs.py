"""Jobs of the server: forecasts and runs, each a process that can be stopped and continued.

The process is this module, run by itself:

    stdin   one JSON document: the recordings, the settings, the folder of a run
    stdout  JSON lines: progress, and at the end the result or the failure
"""

from __future__ import annotations

import hashlib
import json
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pydantic import ConfigDict, TypeAdapter

from earmark.captioning.request import Question, Request
from earmark.errors import EarmarkError, RunError
from earmark.evidence.sound_names import WindowSounds
from earmark.media import Source
from earmark.media.atomic_file import write_whole
from earmark.media.source import folder_name, name_of
from earmark.pipeline.answer import ANSWER_TOKENS
from earmark.pipeline.find import as_question
from earmark.pipeline.resume import resume
from earmark.pipeline.session import Session, open_session
from earmark.redaction import redact
from earmark.report.progress import Progress, throttled
from earmark.run.database import is_at_work
from earmark.run.records import differences
from earmark.run.schema import FILE
from earmark.search.cited_answer import MOST_ENTRIES, MOST_TEXT
from earmark.selection import Pick
from earmark.settings import Choosing, Settings
from earmark.text_format import format_spend

if TYPE_CHECKING:
    from earmark.server.run_library import ServedRun

SOURCES = "sources.json"
"""In the folder of a run: the recordings that it is about, also those not listened to yet."""

MOST_SOURCES_BYTES = 1 << 26

CHANGEABLE = ("budget", "across", "model", "earmark")
"""What may differ between a run and the server that continues it."""

MOST_AT_WORK = 4
"""Processes at once, forecasts and runs."""

MOST_JOBS = 100
"""The oldest finished ones are dropped."""

PROGRESS_INTERVAL = 0.2

STOP_TIMEOUT = 20.0


@dataclass(slots=True, eq=False)
class Job:
    id: str
    child: subprocess.Popen[str]
    folder: Path | None
    state: str = "at work"
    """`at work`, `done`, `stopped` or `failed`."""
    messages: dict[str, Any] = field(default_factory=dict)
    """What the process wrote last of each: `progress`, `result`, `failure`, `stopped`."""

    def to_json(self) -> dict[str, Any]:
        """`run` is empty until the run has a database."""
        has_run = self.folder is not None and (self.folder / FILE).is_file()
        return {
            "id": self.id,
            "kind": "run" if self.folder else "forecast",
            "state": self.state,
            "run": key_of(self.folder) if self.folder and has_run else "",
            "progress": self.messages.get("progress", {}),
            "result": self.messages.get("result"),
            "failure": self.messages.get("failure", ""),
        }

    def follow(self) -> None:
        assert self.child.stdout is not None
        with self.child.stdout as lines:
            for text in lines:
                with suppress(ValueError):  # a library may print lines of its own
                    self.messages |= json.loads(text) if text.startswith("{") else {}
        code = self.child.wait()
        if not self.messages.keys() & {"result", "failure", "stopped"}:
            self.messages["failure"] = (
                f"its process died with exit code {code}; finished work is kept"
            )
        ended = "done" if "result" in self.messages else "stopped"
        self.state = "failed" if "failure" in self.messages else ended

    def stop(self) -> None:
        if self.child.poll() is None:
            self.messages["stopped"] = True
            self.child.send_signal(signal.SIGINT)


class RunJobs:
    def __init__(self, api_key: str | None = None) -> None:
        self._api_key = api_key
        self._jobs: dict[str, Job] = {}
        self._lock = threading.RLock()

    def __getitem__(self, key: str) -> Job:
        return self._jobs[key]

    def of(self, folder: Path) -> Job | None:
        with self._lock:
            jobs = [job for job in self._jobs.values() if job.folder == folder]
        return jobs[-1] if jobs else None

    def start(self, plan: Session, folder: Path | None = None) -> Job:
        """A run in `folder`; a forecast if there is none."""
        sources = plan.sources(allow_none=True)
        order = {
            "paths": _SOURCES.dump_python(sources),
            "settings": plan.settings.model_dump(),
            "api_key": self._api_key,
            "run": str(folder) if folder else None,
        }
        with self._lock:
            if sum(job.state == "at work" for job in self._jobs.values()) >= MOST_AT_WORK:
                raise RunError(f"{MOST_AT_WORK} jobs are at work: stop one, or wait for it")
            if folder:
                job = self.of(folder)  # its process may not have opened the run yet
                if is_at_work(folder) or (job and job.state == "at work"):
                    raise RunError(f"{folder.name} is already running")
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(folder / SOURCES, _SOURCES.dump_json(sources))
            finished = [key for key, other in self._jobs.items() if other.state != "at work"]
            for key in finished[: max(0, len(self._jobs) - MOST_JOBS + 1)]:
                del self._jobs[key]
            job = Job(secrets.token_hex(8), _start_process(order), folder)
            self._jobs[job.id] = job
        threading.Thread(target=job.follow, name=f"job-{job.id}", daemon=True).start()
        return job

    def close(self) -> None:
        for job in self._jobs.values():
            job.stop()
        for job in self._jobs.values():
            try:
                job.child.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                job.child.kill()


def _start_process(order: dict[str, Any]) -> subprocess.Popen[str]:
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
        json.dump(order, child.stdin, default=str)
    return child


def key_of(path: str | Path) -> str:
    """No request contains a path."""
    return hashlib.sha256(str(path).encode("utf-8", "replace")).hexdigest()[:16]


_SOURCES = TypeAdapter(list[Source], config=ConfigDict(extra="forbid"))


def continue_session(served: ServedRun, ours: Session, choosing: Choosing) -> Session:
    """A session that continues the run by the settings of `ours`; `RunError` if it had others.

    A run may come from anybody: it says which recordings it is about, and those outside the served
    folders are refused. What is asked, where and how, it does not say.
    """
    with served.open() as run:
        before = run.plan()
        sources = _read_sources(served.folder / SOURCES) or [
            *(row.source for row in run.recordings()),
            *(Source((row.path,), row.name) for row in run.failed_recordings()),
        ]
    for uri in (uri for source in sources for uri in source.uris):
        if reason := served.library.why_not_served(uri):
            raise RunError(f"the run is not continued: {reason}")
    plan = open_session(sources, ours, budget=choosing.budget, across=choosing.across)
    now = json.loads(json.dumps(resume(plan, served.folder).run_json("")))
    for described in (before, now):  # faces may be blurred from here on
        described["ask"] = {**(described.get("ask") or {}), "blur": None}
    changed = [name for name in differences(before, now) if name not in CHANGEABLE]
    if changed:
        values = (
            f"{name} is {str(before.get(name))[:60]} there and {str(now.get(name))[:60]} here"
            for name in changed
        )
        raise RunError(
            f"the run was made with other settings ({'; '.join(values)}): start the server with "
            "the same, or run its command again"
        )
    return plan


def _read_sources(path: Path) -> list[Source]:
    """Empty if there is no such file."""
    if not path.is_file():
        return []
    try:
        with path.open("rb") as file:
            return _SOURCES.validate_json(file.read(MOST_SOURCES_BYTES))
    except ValueError:
        raise RunError(f"{path.name} does not list recordings; run the command again") from None


def run_folder(root: Path, name: str, sources: Sequence[Source]) -> Path:
    """`runs/NAME` below `root`, with a number if that exists."""
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
    def write_line(**line: Any) -> None:
        out.write(json.dumps(line, allow_nan=False) + "\n")
        out.flush()

    def write_progress(progress: Progress) -> None:
        write_line(progress=progress.to_json())

    try:
        write_line(result=_run_order(order, Progress(throttled(write_progress, PROGRESS_INTERVAL))))
    except (EarmarkError, ValueError) as error:
        write_line(failure=redact(str(error)))
    except OSError as error:
        write_line(failure=redact(explain_refusal(error)))
    except KeyboardInterrupt:
        write_line(stopped=True)


def explain_refusal(error: OSError) -> str:
    """Without the path, which clients are not told."""
    return f"cannot continue: {error.strerror or error}"


def _run_order(order: dict[str, Any], progress: Progress) -> dict[str, Any]:
    sources = _SOURCES.validate_python(order["paths"])
    plan = open_session(sources, Settings.model_validate(order["settings"]))
    if order["run"] is None:
        return forecast_of(plan, progress)
    from earmark.pipeline.caption import caption

    folder, key = Path(order["run"]), order["api_key"]
    done = caption(run=folder, settings=plan, api_key=key, progress=progress)
    return {"totals": asdict(done.totals), "missed": done.missed, "stopped": done.tally.stopped}


def forecast_of(plan: Session, progress: Progress | None = None) -> dict[str, Any]:
    from earmark.pipeline.select import plan as make_forecast

    return make_forecast(settings=plan, progress=progress).to_json()


@dataclass(frozen=True, slots=True)
class QuestionQuote:
    """The most that an answer takes: one call in words, and `calls` that look at windows."""

    model: str
    calls: int
    tokens: int
    money: float
    words: str = ""
    """The price, for a person."""


def question_cost(question: str, plan: Session, calls: int, model: str) -> QuestionQuote:
    prompt, answer = sample_request(plan, as_question(question, plan.question)).most_tokens
    text, limits = MOST_ENTRIES * MOST_TEXT // 3, plan.settings.limits
    tokens = calls * (prompt + answer) + text + ANSWER_TOKENS
    money = calls * limits.price(prompt, answer) + limits.price(text, ANSWER_TOKENS)
    words = f"at most {tokens:,} tokens{format_spend(money, limits.currency)}"
    return QuestionQuote(model, 1 + calls, tokens, money, words)


def sample_request(plan: Session, question: Question) -> Request:
    window = Pick(0, 0.0, plan.listening.grid.length, 0.0, 0.0, 0.0, 0.0, "")
    return Request.about("", window, question, WindowSounds(), "")


if __name__ == "__main__":
    run_order(json.load(sys.stdin), sys.stdout)
