"""The application: the page, its media and the REST interface, behind their access control."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp

from earmark.errors import EarmarkError, LedgerError, MediaError
from earmark.redaction import redact
from earmark.server.access_control import LOOPBACK, AccessControl
from earmark.server.api_routes import api
from earmark.server.media_stream import read_range, why_unplayable
from earmark.server.recording_view import UnknownRecording, find_recording
from earmark.server.run_jobs import explain_refusal
from earmark.server.run_library import UnknownRun
from earmark.server.service import Served, Service
from earmark.version import VERSION

SERVER_FILES = (
    "app.js",
    "api.js",
    "controls.js",
    "archive.js",
    "recording.js",
    "timeline.js",
    "planning.js",
    "app.css",
)
STATIC = {
    **dict.fromkeys(SERVER_FILES, "earmark.server"),
    **dict.fromkeys(("parts.js", "page.css"), "earmark.reporting"),
}
"""Files of the page, and the package that holds each; no other file is served."""

pages = APIRouter(include_in_schema=False)


@pages.api_route("/media/{run}/{recording}/{part}", methods=["GET", "HEAD"])
def play(request: Request, served: Served, recording: str, part: int) -> Response:
    """A byte range of a recording's file."""
    with served.open() as run:
        files = find_recording(run, recording).files
        hidden = served.hidden(run)
    if hidden:
        raise LedgerError(hidden)
    if not 0 <= part < len(files) or why_unplayable(files[part][0]):
        raise UnknownRecording("there is no such file to play")
    is_head = request.method == "HEAD"
    reply = read_range(files[part][0], request.headers.get("range"), is_head=is_head)
    return StreamingResponse(
        reply.chunks, status_code=reply.status, headers=reply.headers, media_type=None
    )


@pages.get("/")
@pages.get("/run/{rest:path}")
def show_page() -> Response:
    """The page; its URL says what it shows."""
    return Response(_read("earmark.server", "app.html"), media_type="text/html")


@pages.get("/static/{name}")
def show_static(name: str) -> Response:
    """A file of the page."""
    if name not in STATIC:
        raise UnknownRun("there is no such file")
    kind = "text/javascript" if name.endswith(".js") else "text/css"
    headers = {"cache-control": "no-cache"}
    return Response(_read(STATIC[name], name), media_type=kind, headers=headers)


def _read(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def make_app(
    service: Service,
    *,
    token: str | None,
    hosts: tuple[str, ...] = LOOPBACK,
    rate: float = 500.0,
    cookie: str = "earmark",
) -> ASGIApp:
    """The application, behind its access control."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.jobs.close()
        service.library.close()

    app = FastAPI(
        title="earmark",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.service = service
    app.include_router(api)
    app.include_router(pages)
    app.add_exception_handler(RequestValidationError, _explain_validation)
    for kind in STATUSES:
        app.add_exception_handler(kind, _explain)
    return AccessControl(app, token, hosts, rate=rate, cookie=cookie)


STATUSES: dict[type[Exception], int] = {
    UnknownRun: 404,
    UnknownRecording: 404,
    LedgerError: 409,
    MediaError: 502,
    EarmarkError: 502,
    ValueError: 422,
    OSError: 409,
}
"""HTTP status of each error."""


def _explain_validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    lines = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return JSONResponse({"detail": "; ".join(lines)[:1000]}, status_code=422)


def _explain(_: Request, error: Exception) -> JSONResponse:
    status = next(status for kind, status in STATUSES.items() if isinstance(error, kind))
    words = explain_refusal(error) if isinstance(error, OSError) else str(error)
    return JSONResponse({"detail": redact(words)}, status_code=status)
