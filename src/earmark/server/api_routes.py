"""Every route below `/api`; the docstrings are the descriptions in its OpenAPI document."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi import Path as PathPart
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from earmark.errors import RunError
from earmark.media import Source
from earmark.pipeline.clips import cut_kept
from earmark.pipeline.resume import WindowQuote, ask_window, quote_window
from earmark.pipeline.session import open_session
from earmark.redaction import redact
from earmark.report.export_formats import EXPORTERS
from earmark.report.export_formats import export as write_export
from earmark.report.run_overview import summarise_run
from earmark.run.corrections import Agreement, Correction, correct, read_corrections, withdraw
from earmark.run.lock import is_at_work
from earmark.run.records import FailedRecording, Totals, title_of
from earmark.run.run import Run
from earmark.search.archive_search import search_words
from earmark.server.archive_view import ArchivePage, ArchiveQuery, read_page
from earmark.server.recording_view import (
    PickPage,
    RecordingDetail,
    TimelineView,
    UnknownRecording,
    describe,
    find_recording,
    read_picks,
    read_timeline,
    why_unplayable,
)
from earmark.server.run_jobs import JobView, restore_session, run_folder
from earmark.server.run_library import ServedRun, Service, UnknownRun
from earmark.settings import STORED, Choosing
from earmark.timeline import Span
from earmark.version import VERSION

POLL_INTERVAL = 0.5

LONGEST_CLIP = 600.0

MOST_SOUNDS = 200


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


@dataclass(frozen=True, slots=True)
class SessionView:
    version: str
    model: str
    why_not: str
    input_price: float
    output_price: float
    max_spend: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListing:
    id: str
    name: str
    opened: str = ""
    is_at_work: bool = False
    totals: Totals = field(default_factory=Totals)
    failure: str = ""
    told: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail(RunListing):
    can_continue: bool
    """Whether this server knows its recordings and options."""
    agreement: Agreement
    plan: dict[str, Any]
    missed: list[FailedRecording]


@dataclass(frozen=True, slots=True)
class SoundCount:
    name: str
    recordings: int


@dataclass(frozen=True, slots=True)
class HitView:
    recording: str
    name: str
    start: float
    end: float
    caption: str
    tags: list[str]
    kinds: list[str]
    """`caption`, `heard`, `said`, `read`, `seen`; or `tags` alone."""


@dataclass(frozen=True, slots=True)
class NewCorrection:
    start: float
    end: float
    verdict: str
    author: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class AskedMoment:
    time: float


class NewRun(Choosing):
    sources: list[str]
    """Ids, as listed by `/api/sources`."""
    name: str = ""


@dataclass(frozen=True, slots=True)
class SourceView:
    id: str
    name: str


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


@api.get("/session")
def session(service: Services) -> SessionView:
    """What this server can do."""
    model, reason = service.model()
    limits = service.plan.settings.limits
    return SessionView(
        VERSION, model, redact(reason), limits.input_price, limits.output_price, limits.max_spend
    )


@api.get("/runs")
def list_runs(service: Services) -> list[RunListing]:
    """Every run below the folders that are served."""
    return [_run_listing(run) for run in service.library.runs()]


@api.get("/runs/{run}")
def show_run(served: Served) -> RunDetail:
    """One run: its totals, and how often the model was right."""

    def read(run: Run) -> dict[str, Any]:
        return {
            "opened": run.opened(),
            "totals": run.totals(),
            "agreement": Agreement.of(read_corrections(run)),
            "plan": run.plan(),
            "missed": run.failed_recordings()[:100],
        }

    known = served.cached("detail", read)
    return RunDetail(
        id=served.key,
        name=served.name,
        is_at_work=is_at_work(served.folder),
        can_continue=(served.folder / STORED).is_file(),
        **known,
    )


@api.get("/runs/{run}/recordings", response_model=ArchivePage)
def list_recordings(
    served: Served,
    query: Annotated[ArchiveQuery, Depends()],
    offset: Offset = 0,
    limit: Limit = 100,
) -> Response:
    """A page of rows of an archive, sorted and filtered."""
    page = read_page(served, query, offset=offset, limit=limit)
    return Response(page, media_type="application/json")


@api.get("/runs/{run}/recordings/{recording}")
def show_recording(served: Served, recording: str) -> RecordingDetail:
    """One recording."""
    with served.open() as run:
        return describe(run, find_recording(run, recording), hidden=served.hidden(run))


@api.get("/runs/{run}/recordings/{recording}/timeline")
def show_timeline(
    served: Served,
    recording: str,
    start: Seconds = 0.0,
    end: Seconds = 1e7,
    cells: Annotated[int, Query(ge=1, le=4000)] = 1000,
) -> TimelineView:
    """A span of a recording, at the resolution of a screen."""
    with served.open() as run:
        row = find_recording(run, recording)
        first = min(start, row.duration)
        span = Span(first, max(first, min(end, row.duration)))
        return read_timeline(run, row, span, cells)


@api.get("/runs/{run}/recordings/{recording}/picks")
def list_picks(
    served: Served, recording: str, offset: Offset = 0, limit: Limit = 100, words: Words = ""
) -> PickPage:
    """The picks of a recording in order of time."""
    with served.open() as run:
        row = find_recording(run, recording)
        return read_picks(run, row, offset=offset, limit=limit, words=words)


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
        raise UnknownRecording("there is no picture of that span")
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
    with served.open() as run, tempfile.TemporaryDirectory() as scratch:
        row = find_recording(run, recording)
        if not 0 <= start < span.end <= row.duration + 1 or any(
            why_unplayable(path) for path, _ in row.files
        ):
            raise UnknownRecording("the recording has no such span to cut")
        path = Path(scratch) / "clip.mp4"
        cut_kept(run, row, span, path, service.plan.settings)
        content = path.read_bytes()
    stem = re.sub(r"[^\w.-]+", "-", row.title.rpartition(".")[0], flags=re.ASCII)[:80]
    return _attachment(content, "video/mp4", f"{stem or 'clip'}-{start:.0f}s.mp4", "private")


@api.get("/runs/{run}/recordings/{recording}/corrections")
def list_corrections(served: Served, recording: str) -> list[Correction]:
    """All corrections of a recording."""
    with served.open() as run:
        return read_corrections(run, find_recording(run, recording).id)


@api.post("/runs/{run}/recordings/{recording}/corrections", status_code=201)
def add_correction(served: Served, recording: str, body: NewCorrection) -> Correction:
    """Say that an answer is right or wrong, give better words, or mark a missed moment."""
    with served.open() as run:
        find_recording(run, recording)
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
        find_recording(run, recording)
        return quote_window(run, recording, time, service.plan, model)


@api.post("/runs/{run}/recordings/{recording}/ask")
def ask(service: Services, served: Served, recording: str, body: AskedMoment) -> PickPage:
    """Ask about the window at a time and store it as a pick; returns the picks."""
    model = service.require_model()
    with served.open() as run:
        find_recording(run, recording)
        quote_window(run, recording, body.time, service.plan, model)
    with service.ask_lock:
        tally = ask_window(
            served.folder, recording, body.time, service.plan, service.captioner,
            reason="asked by hand",
        )  # fmt: skip
    if tally.failed or tally.stopped:
        raise RunError(redact(tally.stopped or tally.last_reason))
    with served.open() as run:
        return read_picks(run, find_recording(run, recording), offset=0, limit=500, words="")


@api.get("/runs/{run}/sounds")
def list_sounds(served: Served) -> list[SoundCount]:
    """The named sounds of a run, those in most recordings first."""
    counts = served.cached("sounds", lambda run: run.texts.named_sounds(most=MOST_SOUNDS))
    return [SoundCount(*each) for each in counts]


@api.get("/runs/{run}/search")
def search(
    served: Served, words: Words, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> list[HitView]:
    """Moments whose caption, tags or evidence contain all words, the best match first."""
    with served.open() as run:
        moments, folders = search_words([run], words, most=limit), run.folders()
    return [
        HitView(
            recording=moment.hit.recording,
            name=title_of(moment.hit.path, folders.get(moment.hit.path, "")),
            start=moment.span.start,
            end=moment.span.end,
            caption=moment.hit.caption or moment.hit.text,
            tags=list(moment.hit.tags),
            kinds=list(moment.kinds),
        )
        for moment in moments
    ]


@api.get("/runs/{run}/export", response_class=Response)
def export_run(served: Served, format: Annotated[str, Query(max_length=40)]) -> Response:  # noqa: A002
    """A run as a file for other tools, see `earmark export`; only formats of one file."""
    if format not in EXPORTERS or EXPORTERS[format].is_per_recording:
        raise ValueError(f"a run cannot be exported as one file in the format {format!r}")
    with served.open() as run, tempfile.TemporaryDirectory() as scratch:
        (path,) = write_export(run, Path(scratch) / f"run.{format}", format=format)
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
        try:
            totals: Totals = served.cached("totals", lambda run: run.totals())
            corrections = served.cached("said", read_corrections)
        except RunError:  # the run is being created
            totals = Totals()
        job = service.jobs.of(served.folder)
        return {
            "is_at_work": is_at_work(served.folder),
            "totals": asdict(totals),
            "agreement": asdict(Agreement.of(corrections)),
            "said": [len(corrections), sum(bool(one.withdrawn) for one in corrections)],
            "job": asdict(job.view()) if job else None,
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


@api.post("/runs/{run}/stop", status_code=202)
def stop_run(service: Services, served: Served) -> JobView:
    """Stop a run that was started here; its stored answers stay."""
    job = service.jobs.of(served.folder)
    if job is None:
        raise RunError("this run was not started here; stop it where it was")
    job.stop()
    return job.view()


@api.post("/runs/{run}/continue", status_code=202)
def continue_run(service: Services, served: Served) -> JobView:
    """Continue a run that was stopped: no stored answer is asked for again."""
    return service.jobs.start(served.folder, restore_session(served, service.plan)).view()


@api.get("/sources")
def list_sources(service: Services) -> list[SourceView]:
    """The recordings below the folders that are served, for a new run."""
    return [SourceView(key, source.name) for key, source in service.list_sources().items()]


@api.post("/forecasts", status_code=202)
def start_forecast(service: Services, body: NewRun) -> JobView:
    """Start a forecast of what budgets reach and cost; it listens and makes no calls."""
    return service.jobs.forecast(_chosen_sources(service, body), body.budget).view()


@api.get("/jobs/{job}")
def show_job(service: Services, job: str) -> JobView:
    """The progress of a forecast or a run."""
    try:
        return service.jobs[job].view()
    except KeyError:
        raise UnknownRun("there is no such job") from None


@api.post("/runs", status_code=202)
def start_run(service: Services, body: NewRun) -> JobView:
    """Start a new run; the page first shows its cost, see `/api/forecasts`."""
    sources = _chosen_sources(service, body)
    plan = open_session(sources, service.plan, budget=body.budget, across=body.across)
    folder = run_folder(service.library.folders[0], body.name, sources)
    job = service.jobs.start(folder, plan)
    return job.view()


def _chosen_sources(service: Service, body: NewRun) -> list[Source]:
    if not body.sources or not service.sources.keys() >= set(body.sources):
        raise ValueError("choose recordings by their ids, as /api/sources lists them")
    return [service.sources[key] for key in body.sources]


def _run_listing(served: ServedRun) -> RunListing:
    try:
        opened, totals, told = served.cached(
            "listing", lambda run: (run.opened(), run.totals(), summarise_run(run))
        )
    except RunError as error:
        return RunListing(id=served.key, name=served.name, failure=redact(str(error)))
    return RunListing(
        id=served.key,
        name=served.name,
        opened=opened,
        is_at_work=is_at_work(served.folder),
        totals=totals,
        told=told,
    )
