"""Captions from any server with the OpenAI chat API, and a probe whether it looks at pictures.

A server that takes pictures counts more prompt tokens with a picture than without. One that drops
the picture silently counts the same number, and so is detected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from earmark.captioning.chat_protocol import (
    Usage,
    chat_body,
    image_parts,
    read_reply,
    video_fields,
    video_parts,
)
from earmark.captioning.openai_endpoint import Endpoint
from earmark.captioning.request import Answer, Form, Picture, Request
from earmark.errors import CallError, CallTimeout
from earmark.media import Frame
from earmark.timeline import Span

FormChoice = Literal["auto", "images", "video"]

PROBE_PIXELS = 64
"""Pixels; the smallest picture every server takes."""


class OpenAICaptioner:
    """Calls a server such as vLLM, SGLang, llama.cpp, Ollama, LM Studio or a hosted one.

    One frame is sent as an image. With several, `form="auto"` probes once with a tiny clip whether
    the server takes frames as a video, and sends images if not; the answers say which and why. The
    probe takes two tiny calls.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        form: FormChoice = "auto",
    ) -> None:
        self.endpoint = Endpoint(url, api_key=api_key)
        self.form = form
        self._api_key = api_key
        self.model = model
        self.at_once: int | None = None  # servers differ, so the limits decide
        self._lock = threading.Lock()
        self._takes_video: ProbeResult | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its arguments, without connections."""
        again = partial(OpenAICaptioner, api_key=self._api_key, form=self.form)
        return again, (self.endpoint.url, self.model)

    def check(self) -> None:
        """Raises if the server cannot be reached or does not serve the model."""
        self.endpoint.check_model(self.model)

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The server's answer to `request`."""
        form, note = self._form_for(request, timeout=timeout)
        body = chat_body(request, form=form)
        started = time.monotonic()
        reply = self.endpoint.chat(body, timeout=timeout, identity=request.identity)
        latency = time.monotonic() - started
        if request.schema is not None and not self.endpoint.takes_schemas:
            note = "; ".join(filter(None, (note, "sent without a schema: the server refuses one")))
        return read_reply(reply, request, form=form, latency=latency, note=note)

    def _form_for(self, request: Request, *, timeout: float) -> tuple[Form, str]:
        if self.form != "auto":
            return self.form, ""
        if len(request.frames) < 2:
            return "images", ""
        with self._lock:
            if self._takes_video is None:
                self._takes_video = probe_video(
                    self.endpoint, self.model, request.frames, timeout=timeout
                )
        if self._takes_video.passed:
            return "video", ""
        return "images", f"sent as images: {self._takes_video.reason}"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Whether a probe passed, and how that is known."""

    passed: bool
    reason: str


def probe_pictures(
    endpoint: Endpoint, model: str, picture: Frame, *, timeout: float
) -> ProbeResult:
    """Whether `model` looks at a picture."""
    return _probe(endpoint, model, image_parts([Picture.of(picture)]), {}, timeout=timeout)


def probe_video(
    endpoint: Endpoint, model: str, frames: Sequence[Frame], *, timeout: float
) -> ProbeResult:
    """Whether `model` looks at frames sent as one video; probed with two of `frames`, made tiny."""
    tiny = [Picture.of(frame.resized(PROBE_PIXELS, PROBE_PIXELS)) for frame in frames[:2]]
    fields = video_fields(tiny, Span(tiny[0].time, tiny[-1].time))
    return _probe(endpoint, model, video_parts(tiny), fields, timeout=timeout)


def _probe(
    endpoint: Endpoint,
    model: str,
    parts: Sequence[dict[str, Any]],
    fields: dict[str, Any],
    *,
    timeout: float,
) -> ProbeResult:
    """Compare the prompt tokens with and without `parts`; raises if the call without them fails."""

    def tokens(*parts: dict[str, Any], **fields: Any) -> int | None:
        content = [*parts, {"type": "text", "text": "What is this?"}]
        asked = {"model": model, "messages": [{"role": "user", "content": content}]}
        reply = endpoint.chat({**asked, "max_tokens": 1, **fields}, timeout=timeout)
        return Usage.of(reply).prompt_tokens

    plain = tokens()
    try:
        try:
            shown = tokens(*parts, **fields)
        except CallTimeout:  # some refuse with a temporary status: try once more
            shown = tokens(*parts, **fields)
    except CallError as error:
        return ProbeResult(False, str(error))
    if shown is None or plain is None:
        return ProbeResult(True, "accepted; the server does not count tokens")
    if shown > plain:
        return ProbeResult(True, f"{shown - plain} tokens of picture counted")
    return ProbeResult(False, f"{endpoint.address} accepts it but does not look at it")
