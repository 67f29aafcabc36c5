"""Every route below `/api`; the docstrings are the descriptions in its OpenAPI document."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Request
from fastapi import Path as PathPart
from fastapi.responses import Response, StreamingResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from earmark.errors import RunError
from earmark.media import Source
from earmark.media.atomic_file import scratch_folder
from earmark.pipeline.answer import ask as ask_run
from earmark.pipeline.clips import cut_kept
from earmark.pipeline.resume import WindowQuote, ask_window, quote_window
from earmark.pipeline.session import open_session
from earmark.redaction import redact
from earmark.report.export_formats import EXPORTERS
from earmark.report.export_formats import export as write_export
from earmark.run.corrections import Agreement, Correction, correct, read_corrections, withdraw
from earmark.run.database import is_at_work
from earmark.run.live_rows import read_state_of_watch
from earmark.run.records import Totals
from earmark.search.archive_search import search_words
from earmark.server import api_models as models
from earmark.server import run_views
from earmark.server.run_jobs import (
    QuestionQuote,
    continue_session,
    question_cost,
    run_folder,
)
from earmark.server.run_library import ServedRun, Service, UnknownRun
from earmark.settings import Choosing
from earmark.timeline import Span
from earmark.version import VERSION

POLL_INTERVAL = 0.5

LONGEST_CLIP = 600.0

MOST_SOUNDS = 200

MOST_CALLS = 1000
"""For one question from a browser."""


def get_service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def get_run(request: Request, run: str) -> ServedRun:
    return get_service(request).library[run]


Services = Annotated[Service, Depends(get_service)]
Served = Annotated[ServedRun, Depends(get_run)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]
Limit = Annotated[int, Query(ge=1, le=500)]
Words = Annotated[str, Query(max_length=400)]
Seconds = Annotated[float, Query(ge=0, le=1e7, allow_inf_nan=False)]
Calls = Annotated[int, Query(ge=0, le=MOST_CALLS)]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewCorrection:
    start: float
    end: float
    verdict: str
    author: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class NewQuestion:
    question: Annotated[str, Field(min_length=1, max_length=400)]
    calls: Annotated[int, Field(ge=0, le=MOST_CALLS)] = 0


class NewRun(Choosing):
    sources: list[str]
    """Ids, as listed by `/api/sources`."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    detail: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words}
    for status, words in {
        401: "No token",
        403: "From another site",
        404: "Not here",
        409: "Not now",
        422: "Not possible",
        429: "Too many requests",
        502: "A recording or a model cannot be reached",
    }.items()
}

api = APIRouter(prefix="/api", responses=PROBLEMS)


@api.get("/session", response_model=models.SessionView)
def session(service: Services) -> Json:
    """What this server can do."""
    model, reason = service.model()
    limits = service.plan.settings.limits
    return {
        "version": VERSION,
        "model": model,
        "why_not": redact(reason),
        "input_price": limits.input_price,
        "output_price": limits.output_price,
        "max_spend": limits.max_spend,
    }


@api.get("/runs", response_model=list[models.RunListing])
def list_runs(service: Services) -> list[Json]:
    """Every run below the folders that are served."""
    return run_views.list_runs(service.library)


@api.get("/runs/{run}", response_model=models.RunDetail)
def show_run(served: Served) -> Json:
    """One run: its totals, and how often the model was right."""
    return run_views.describe_run(served)


@api.get("/runs/{run}/recordings", response_model=models.ArchivePage)
def list_recordings(
    served: Served,
    query: Annotated[run_views.ArchiveQuery, Depends()],
    offset: Offset = 0,
    limit: Limit = 100,
) -> Json:
    """A page of rows of an archive, sorted and filtered."""
    return run_views.read_page(served, query, offset=offset, limit=limit)


@api.get("/runs/{run}/recordings/{recording}", response_model=models.RecordingDetail)
def show_recording(served: Served, recording: str) -> Json:
    """One recording."""
    with served.open() as run:
        return run_views.describe(run, recording, served)


@api.get("/runs/{run}/recordings/{recording}/timeline", response_model=models.TimelineView)
def show_timeline(
    served: Served,
    recording: str,
    start: Seconds = 0.0,
    end: Seconds = 1e7,
    cells: Annotated[int, Query(ge=1, le=4000)] = 1000,
) -> Json:
    """A span of a recording, at the resolution of a screen."""
    with served.open() as run:
        return run_views.read_timeline(run, recording, Span(start, max(start, end)), cells)


@api.get("/runs/{run}/recordings/{recording}/picks", response_model=models.PickPage)
def list_picks(
    served: Served, recording: str, offset: Offset = 0, limit: Limit = 100, words: Words = ""
) -> Json:
    """The picks of a recording in order of time."""
    with served.open() as run:
        return run_views.read_picks(run, recording, offset=offset, limit=limit, words=words)


@api.get(
    "/runs/{run}/recordings/{recording}/picture",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}},
)
def show_picture(served: Served, recording: str, start: Seconds, end: Seconds) -> Response:
    """The stored picture of a pick."""
    with served.open() as run:
        picture = run.thumbnail(recording, Span(start, max(start, end)))
    if not picture:
        raise run_views.UnknownRecording("there is no picture of that span")
    return Response(picture, media_type="image/jpeg", headers={"cache-control": "private"})


@api.get(
    "/runs/{run}/recordings/{recording}/clip",
    response_class=Response,
    responses={200: {"content": {"video/mp4": {}}}},
)
def cut_span(
    service: Services, served: Served, recording: str, start: Seconds, end: Seconds
) -> Response:
    """A span of a recording as a video, its packets copied from the key frame before.

    If the run is without voices, speech is muted; if faces are blurred, they are blurred here too.
    """
    span = Span(start, min(end, start + LONGEST_CLIP))
    with served.open() as run, scratch_folder() as scratch:
        row = run_views.find_recording(run, recording)
        if not 0 <= start < span.end <= row.duration + 1 or any(
            served.why_unplayable(path) for path, _ in row.files
        ):
            raise run_views.UnknownRecording("the recording has no such span to cut")
        path = scratch / "clip.mp4"
        cut_kept(run, row, span, path, service.plan.settings)
        content = path.read_bytes()
    stem = re.sub(r"[^\w.-]+", "-", row.title.rpartition(".")[0], flags=re.ASCII)[:80]
    return _attachment(content, "video/mp4", f"{stem or 'clip'}-{start:.0f}s.mp4", "private")


@api.get("/runs/{run}/recordings/{recording}/corrections")
def list_corrections(served: Served, recording: str) -> list[Correction]:
    """All corrections of a recording."""
    with served.open() as run:
        return read_corrections(run, run_views.find_recording(run, recording).id)


@api.post("/runs/{run}/recordings/{recording}/corrections", status_code=201)
def add_correction(served: Served, recording: str, body: NewCorrection) -> Correction:
    """Say that an answer is right or wrong, give better words, or mark a missed moment."""
    with served.open() as run:
        run_views.find_recording(run, recording)
    span = Span(body.start, body.end)
    correction = Correction(recording, span, body.verdict, body.author, body.text)
    return correct(served.folder, correction)


@api.delete("/runs/{run}/corrections/{correction}", status_code=204)
def withdraw_correction(
    served: Served, correction: Annotated[int, PathPart(ge=1, le=2**62)]
) -> None:
    """Withdraw a correction; it stays in the run but no longer counts."""
    withdraw(served.folder, correction)


@api.get("/runs/{run}/recordings/{recording}/quote")
def quote(service: Services, served: Served, recording: str, time: Seconds) -> WindowQuote:
    """The most that a call about the window at a time costs."""
    model = service.require_model()
    with served.open() as run:
        row = run_views.find_recording(run, recording)
        if reason := next(filter(None, map(served.why_unplayable, row.source.uris)), ""):
            raise RunError(reason)
        return quote_window(run, recording, time, service.plan, model)


@api.post("/runs/{run}/recordings/{recording}/ask", response_model=models.PickPage)
def ask(
    service: Services, served: Served, recording: str, time: Annotated[float, Body(embed=True)]
) -> Json:
    """Ask about the window at a time and store it as a pick; returns the picks."""
    quote(service, served, recording, time)
    plan, reason = service.plan, "asked by hand"
    with service.ask_lock:
        tally = ask_window(served.folder, recording, time, plan, service.captioner, reason=reason)
    if tally.failed or tally.stopped:
        raise RunError(redact(tally.stopped or tally.last_reason))
    return list_picks(served, recording, limit=500)


@api.get("/runs/{run}/sounds", response_model=list[models.SoundCount])
def list_sounds(served: Served) -> list[Json]:
    """The named sounds of a run, those in most recordings first."""
    counts = served.cached("sounds", lambda run: run.named_sounds(most=MOST_SOUNDS))
    return [{"name": name, "recordings": count} for name, count in counts]


@api.get("/runs/{run}/search", response_model=list[models.MomentView])
def search(
    served: Served, words: Words, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> list[Json]:
    """Moments whose caption, tags or evidence contain all words, the best match first."""
    with served.open() as run:
        moments = search_words([run], words, most=limit)
    return [run_views.moment_json(served, moment) for moment in moments]


@api.get("/search", response_model=list[models.MomentView])
def search_all(
    service: Services, words: Words, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> list[Json]:
    """Moments of all runs, as in the search of one."""
    found = []
    for served in service.library.runs():
        with suppress(RunError), served.open() as run:  # one that cannot be read is listed as such
            found += [(served, moment) for moment in search_words([run], words, most=limit)]
    found.sort(key=lambda pair: pair[1].rank)
    return [run_views.moment_json(*pair) for pair in found[:limit]]


@api.get("/runs/{run}/day", response_model=models.DayView)
def show_day(
    served: Served, date: Annotated[str, Query(pattern=r"^(\d{4}-\d\d-\d\d)?$")] = ""
) -> Json:
    """When work went on, what it was, what is worth a look, what it cost and what is missing."""
    return run_views.read_day_json(served, date)


@api.get("/runs/{run}/questions", dependencies=[Depends(get_run)])
def quote_question(service: Services, question: Words, calls: Calls = 0) -> QuestionQuote:
    """The most that an answer to a question costs; `calls` first look for it in the recordings."""
    return question_cost(question, service.plan, calls, service.require_model())


@api.post("/runs/{run}/questions", response_model=models.AnswerView)
def answer_question(service: Services, served: Served, body: NewQuestion) -> Json:
    """Ask the run a question; every sentence of the answer cites moments of the run.

    Without a model, the moments that match best.
    """
    if body.calls:
        service.require_model()
        with served.open() as run:
            uris = [uri for row in run.recordings() for uri in row.source.uris]
        if reason := next(filter(None, map(served.why_unplayable, uris)), ""):
            raise RunError(reason)
    with service.ask_lock:
        answer = ask_run(
            served.folder,
            body.question,
            calls=body.calls,
            settings=service.plan,
            api_key=service.api_key,
        )
    return run_views.answer_json(served, answer)


@api.get("/runs/{run}/export", response_class=Response)
def export_run(served: Served, format: Annotated[str, Query(max_length=40)]) -> Response:  # noqa: A002
    """A run as a file for other tools, see `earmark export`; only formats of one file."""
    if format not in EXPORTERS or EXPORTERS[format].is_per_recording:
        raise ValueError(f"a run cannot be exported as one file in the format {format!r}")
    with served.open() as run, scratch_folder() as scratch:
        (path,) = write_export(run, scratch / f"run.{format}", format=format)
        content = path.read_bytes()
    ending = EXPORTERS[format].suffix or format
    file = "corrections.jsonl" if format == "corrections" else f"run.{ending}"
    return _attachment(content, "application/octet-stream", file, "no-store")


def _attachment(content: bytes, kind: str, name: str, cache: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": cache}
    return Response(content, media_type=kind, headers=headers)


@api.get("/runs/{run}/events", response_class=StreamingResponse)
async def follow(service: Services, served: Served) -> StreamingResponse:
    """The progress of a run as server-sent events, until the client disconnects."""

    def read_state() -> dict[str, Any]:
        corrections: list[Correction] = []
        watch: dict[str, Any] | None = None
        try:
            totals: Totals = served.cached("totals", lambda run: run.totals())
            corrections = served.cached("corrections", read_corrections)
            watch = served.cached("watch", read_state_of_watch)
        except RunError:  # the run is being created
            totals = Totals()
        job = service.jobs.of(served.folder)
        return {
            "is_at_work": is_at_work(served.folder),
            "totals": asdict(totals),
            "agreement": asdict(Agreement.of(corrections)),
            "said": [len(corrections), sum(bool(each.withdrawn) for each in corrections)],
            "job": job.to_json() if job else None,
            "watch": watch,
        }

    async def events() -> AsyncIterator[str]:
        before, quiet = "", 0.0
        while True:
            now = json.dumps(await run_in_threadpool(read_state))
            quiet = 0.0 if now != before else quiet + POLL_INTERVAL
            if now != before:
                yield f"event: progress\ndata: {now}\n\n"
            elif quiet >= 15:
                quiet = 0.0
                yield ": still here\n\n"
            before = now
            await asyncio.sleep(POLL_INTERVAL)

    return StreamingResponse(
        events(), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


@api.post("/runs/{run}/stop", status_code=202, response_model=models.JobView)
def stop_run(service: Services, served: Served) -> Json:
    """Stop a run that was started here; its stored answers stay."""
    job = service.jobs.of(served.folder)
    if job is None:
        raise RunError("this run was not started here; stop it where it was")
    job.stop()
    return job.to_json()


@api.post("/runs/{run}/continue", status_code=202, response_model=models.JobView)
def continue_run(service: Services, served: Served, body: Choosing) -> Json:
    """Continue a run with this budget: no stored answer is asked for again.

    Everything else is as in the settings of this server: a run that was made with others is not
    continued.
    """
    plan = continue_session(served, service.plan, body)
    return service.jobs.start(plan, served.folder).to_json()


@api.get("/sources", response_model=list[models.SourceView])
def list_sources(service: Services) -> list[Json]:
    """The recordings below the folders that are served, for a new run."""
    sources = service.list_sources().items()
    return [{"id": key, "name": source.name} for key, source in sources]


@api.post("/forecasts", status_code=202, response_model=models.JobView)
def start_forecast(service: Services, body: NewRun) -> Json:
    """Start a forecast of what budgets reach and cost; it listens and makes no calls."""
    plan = open_session(_chosen_sources(service, body), service.plan, budget=body.budget)
    return service.jobs.start(plan).to_json()


@api.get("/jobs/{job}", response_model=models.JobView)
def show_job(service: Services, job: str) -> Json:
    """The progress of a forecast or a run."""
    try:
        return service.jobs[job].to_json()
    except KeyError:
        raise UnknownRun("there is no such job") from None


@api.post("/runs", status_code=202, response_model=models.JobView)
def start_run(service: Services, body: NewRun) -> Json:
    """Start a new run; the page first shows its cost, see `/api/forecasts`."""
    sources = _chosen_sources(service, body)
    plan = open_session(sources, service.plan, budget=body.budget, across=body.across)
    folder = run_folder(service.library.folders[0], body.name, sources)
    return service.jobs.start(plan, folder).to_json()


def _chosen_sources(service: Service, body: NewRun) -> list[Source]:
    if not body.sources or not service.sources.keys() >= set(body.sources):
        raise ValueError("choose recordings by their ids, as /api/sources lists them")
    return [service.sources[key] for key in body.sources]
