"""A vision model that runs in this process, loaded at the first call."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path
from typing import Any

from earmark.captioning.captioner import CONTEXT
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.request import Answer, Request
from earmark.errors import CallRejected, MissingExtra
from earmark.media.child_process import cores


class LocalCaptioner:
    """Runs a vision model from a GGUF file and its mmproj file.

    llama.cpp serves them on a local port whose key only this process has, so that a call can time
    out and be cancelled like any other.
    """

    def __init__(
        self,
        model_path: Path,
        mmproj_path: Path,
        threads: int | None = None,
        parallel: int = 1,
        context: int = CONTEXT,
    ) -> None:
        """`threads` default to one fewer than the cores; `context` is in tokens, of each call."""
        # Absolute, since a worker may have been started in another folder.
        self.model_path, self.mmproj_path = model_path.absolute(), mmproj_path.absolute()
        self.threads = threads or max(1, cores() - 1)  # one core decodes frames
        self.model = model_path.stem
        self.at_once = parallel  # further calls would wait and time out
        self.context = context
        self._lock = threading.Lock()
        self._served: tuple[Any, OpenAICaptioner] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        paths = self.model_path, self.mmproj_path
        return LocalCaptioner, (*paths, self.threads, self.at_once, self.context)

    def check(self) -> None:
        for path, what in ((self.model_path, "model"), (self.mmproj_path, "picture encoder")):
            if not path.is_file():
                raise CallRejected(
                    f"there is no {what} at {path}; a GGUF model needs both of its files"
                )
            with path.open("rb") as file:
                if file.read(4) != b"GGUF":
                    raise CallRejected(
                        f"{path.name} is not a GGUF file, so it cannot be the {what}"
                    )
        # Imported, not only looked up: a library that cannot be loaded is found before listening.
        try:
            import xllamacpp  # noqa: F401
        except ImportError as error:
            raise MissingExtra(
                f"running a GGUF file needs xllamacpp ({error}): pip install 'earmark[local]'"
            ) from error

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        with self._lock:
            if self._served is None:
                self.check()
                self._served = self._serve()
            _, captioner = self._served
        return captioner(request, timeout=timeout)

    def _serve(self) -> tuple[Any, OpenAICaptioner]:
        import xllamacpp

        key = secrets.token_hex(16)
        params = xllamacpp.CommonParams()
        params.model.path = str(self.model_path)
        params.mmproj.path = str(self.mmproj_path)
        params.model_alias = {self.model}
        params.api_keys = [key]
        params.n_parallel = self.at_once
        params.n_ctx = self.context * self.at_once
        params.cpuparams.n_threads = self.threads
        params.cpuparams_batch.n_threads = self.threads
        params.verbosity = -1
        params.ui = False
        try:
            server = xllamacpp.Server(params)
        except RuntimeError as error:
            raise CallRejected(
                f"llama.cpp cannot load {self.model_path.name} with {self.mmproj_path.name}; "
                f"are they a vision model and its own mmproj file, and is there memory for them?"
            ) from error
        return server, OpenAICaptioner(server.listening_address, self.model, api_key=key)
