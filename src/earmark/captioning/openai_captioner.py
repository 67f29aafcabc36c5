"""Captions from any server that speaks the OpenAI chat API."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from earmark.captioning.chat_message import body
from earmark.captioning.chat_reply import read_reply
from earmark.captioning.openai_endpoint import Endpoint
from earmark.captioning.request import Answer, Form, Request
from earmark.captioning.server_probe import Verdict, probe_video

FormChoice = Literal["auto", "images", "video"]


class OpenAICaptioner:
    """Asks a server such as vLLM, SGLang, llama.cpp, Ollama, LM Studio or a hosted one.

    One frame is sent as an image. Of several, `form="auto"` asks once with a tiny clip whether the
    server takes frames as a video and falls back to images where it does not; the answers say
    which it was and why. Two tiny calls are spent on finding out.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        form: FormChoice = "auto",
        now: Callable[[], float] = time.time,
    ) -> None:
        self.endpoint = Endpoint(url, api_key=api_key, now=now)
        self.form = form
        self._api_key = api_key
        self._model = model
        self._lock = threading.Lock()
        self._takes_video: Verdict | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """How it travels to a worker: as it was made, without connections."""
        again = partial(OpenAICaptioner, api_key=self._api_key, form=self.form)
        return again, (self.endpoint.url, self._model)

    @property
    def model(self) -> str:
        """The name the server knows it by."""
        return self._model

    @property
    def at_once(self) -> int | None:
        """For the limits to say: servers differ."""
        return None

    def check(self) -> None:
        """Raises if the server is away or does not serve the model."""
        self.endpoint.check_model(self._model)

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The server's answer to `request`."""
        form, note = self._form_for(request, timeout=timeout)
        asked = body(request, form=form)
        started = time.monotonic()
        reply = self.endpoint.chat(asked, timeout=timeout, identity=request.identity)
        latency = time.monotonic() - started
        return read_reply(reply, request, form=form, latency=latency, note=note)

    def _form_for(self, request: Request, *, timeout: float) -> tuple[Form, str]:
        if self.form != "auto":
            return self.form, ""
        if len(request.frames) < 2:
            return "images", ""
        with self._lock:
            if self._takes_video is None:
                self._takes_video = probe_video(
                    self.endpoint, self._model, request.frames, timeout=timeout
                )
        if self._takes_video.yes:
            return "video", ""
        return "images", f"sent as images: {self._takes_video.why}"
