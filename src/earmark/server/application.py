from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from importlib.resources import files

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp

from earmark.errors import EarmarkError, MediaError, RunError
from earmark.media.container import open_storage
from earmark.media.source import suffix_of
from earmark.media.storage import Meter
from earmark.redaction import redact
from earmark.server.access_control import LOOPBACK, AccessControl
from earmark.server.api_routes import Served, api
from earmark.server.rating_routes import ratings
from earmark.server.run_jobs import explain_refusal
from earmark.server.run_library import Service, UnknownRun
from earmark.server.run_views import UnknownRecording, find_recording
from earmark.version import VERSION

CHUNK_BYTES = 1 << 18
"""A browser may disconnect after any chunk."""

MOST_AT_ONCE = 1 << 24
"""Of an open-ended range; the browser requests the rest as it plays."""

TYPES = {
    # .mov has the same structure, and browsers play it only under this type.
    **dict.fromkeys((".mp4", ".m4v", ".mov"), "video/mp4"),
    ".3gp": "video/3gpp",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".ogv": "video/ogg",
    **dict.fromkeys((".ogg", ".oga", ".opus"), "audio/ogg"),
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".aac": "audio/aac",
    ".flac": "audio/flac",
    ".wav": "audio/wav",
}
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")

STATIC = {
    file.name: file
    for package in ("earmark.server", "earmark.report")
    for file in files(package).iterdir()
    if file.name.endswith((".js", ".css"))
}
"""By name; no other file is served."""

pages = APIRouter(include_in_schema=False)


@pages.api_route("/media/{run}/{recording}/{part}", methods=["GET", "HEAD"])
def play(request: Request, served: Served, recording: str, part: int) -> Response:
    with served.open() as run:
        parts = find_recording(run, recording).files
        hidden = served.hidden(run)
    if hidden:
        raise RunError(hidden)
    if not 0 <= part < len(parts) or served.why_unplayable(parts[part][0]):
        raise UnknownRecording("there is no such file to play")
    is_head = request.method == "HEAD"
    return read_range(parts[part][0], request.headers.get("range"), is_head=is_head)


@pages.get("/")
@pages.get("/rate")
@pages.get("/run/{rest:path}")
def show_page() -> Response:
    """The page; its URL says what it shows."""
    return HTMLResponse(files("earmark.server").joinpath("app.html").read_text("utf-8"))


@pages.get("/static/{name}")
def show_static(name: str) -> Response:
    if name not in STATIC:
        raise UnknownRun("there is no such file")
    kind = "text/javascript" if name.endswith(".js") else "text/css"
    text = STATIC[name].read_text("utf-8")
    return Response(text, media_type=kind, headers={"cache-control": "no-cache"})


def make_app(
    service: Service,
    *,
    token: str | None,
    hosts: tuple[str, ...] = LOOPBACK,
    rate: float = 500.0,
    cookie: str = "earmark",
) -> ASGIApp:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.jobs.close()

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
    app.include_router(ratings)
    app.include_router(pages)
    app.add_exception_handler(RequestValidationError, _explain_validation)
    for kind in STATUSES:
        app.add_exception_handler(kind, _explain)
    return AccessControl(app, token, hosts, rate=rate, cookie=cookie)


STATUSES: dict[type[Exception], int] = {
    UnknownRun: 404,
    UnknownRecording: 404,
    RunError: 409,
    MediaError: 502,
    EarmarkError: 502,
    ValueError: 422,
    OSError: 409,
}


def _explain_validation(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    lines = (f"{'.'.join(map(str, part['loc']))}: {part['msg']}" for part in error.errors())
    return JSONResponse({"detail": "; ".join(lines)[:1000]}, status_code=422)


def _explain(_: Request, error: Exception) -> JSONResponse:
    status = next(status for kind, status in STATUSES.items() if isinstance(error, kind))
    words = explain_refusal(error) if isinstance(error, OSError) else str(error)
    return JSONResponse({"detail": redact(words)}, status_code=status)


def read_range(path: str, byte_range: str | None, *, is_head: bool = False) -> Response:
    storage = open_storage(path, Meter())
    size = storage.size_bytes
    kind = TYPES.get(suffix_of(path), "application/octet-stream")
    headers = {"accept-ranges": "bytes", "content-type": kind, "cache-control": "private"}
    match = _RANGE.fullmatch(byte_range.strip()) if byte_range else None
    start, end = _bounds(match, size) if match else (0, size)
    if match and start >= end:
        storage.close()
        return Response(status_code=416, headers=headers | {"content-range": f"bytes */{size}"})
    if match:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    headers["content-length"] = str(end - start)
    status = 206 if match else 200
    if is_head:
        storage.close()
        return Response(status_code=status, headers=headers)

    def chunks() -> Iterator[bytes]:
        with closing(storage):
            for offset in range(start, end, CHUNK_BYTES):
                yield storage.read(offset, min(end, offset + CHUNK_BYTES))

    return StreamingResponse(chunks(), status_code=status, headers=headers)


def _bounds(match: re.Match[str], size: int) -> tuple[int, int]:
    first, last = match.groups()
    if not first:
        return (max(0, size - int(last)), size) if last and int(last) else (size, size)
    start = int(first)
    end = int(last) + 1 if last else min(size, start + MOST_AT_ONCE)
    return start, min(end, size)
