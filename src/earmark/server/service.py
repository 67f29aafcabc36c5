"""The state shared by all routes: runs, model and jobs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from earmark.captioning.captioner import Captioner, TagsCaptioner
from earmark.errors import EarmarkError, LedgerError
from earmark.media import Source
from earmark.pipeline.run_plan import Plan
from earmark.server.run_jobs import RunJobs
from earmark.server.run_library import RunLibrary, ServedRun, key_of


@dataclass(eq=False)
class Service:
    """The state shared by all routes."""

    library: RunLibrary
    plan: Plan
    """The model, prices and listening options; new runs may use its paths."""
    api_key: str | None = None
    """For a model server that needs one."""
    jobs: RunJobs = field(init=False)
    ask_lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.jobs = RunJobs(self.plan, self.api_key)

    @cached_property
    def sources(self) -> dict[str, Source]:
        """Recordings below the served folders, for new runs, by id; as listed last."""
        return self.list_sources()

    def list_sources(self) -> dict[str, Source]:
        """The same, listed now: recordings may have come since."""
        every = self.plan.sources(allow_none=True)
        found = (one for one in every if not Path(one.uris[0]).is_dir())
        self.sources = {key_of("\n".join(one.uris)): one for one in found}
        return self.sources

    @cached_property
    def captioner(self) -> Captioner:
        """The captioner, checked."""
        captioner = self.plan.open_captioner(api_key=self.api_key)
        captioner.check()
        return captioner

    def model(self) -> tuple[str, str]:
        """The model's name and an empty text; or an empty name and why there is no model."""
        try:
            captioner = self.captioner
        except EarmarkError as error:
            return "", str(error)
        if isinstance(captioner, TagsCaptioner):
            return "", "no model: start the server with --vlm URL, --gguf FILE or --replay FILE"
        return captioner.model, ""

    def require_model(self) -> str:
        """The model's name; raises `LedgerError` with the reason if there is none."""
        model, reason = self.model()
        if not model:
            raise LedgerError(reason)
        return model


def get_service(request: Request) -> Service:
    """The service of the application."""
    service: Service = request.app.state.service
    return service


def get_run(request: Request, run: str) -> ServedRun:
    """The run in the URL."""
    return get_service(request).library[run]


Services = Annotated[Service, Depends(get_service)]
Served = Annotated[ServedRun, Depends(get_run)]
