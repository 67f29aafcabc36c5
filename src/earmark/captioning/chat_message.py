"""A request as the body of an OpenAI chat call, the one thing all servers have in common."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any

from earmark.captioning.prompt import clock
from earmark.captioning.request import Form, Picture, Request
from earmark.timeline import Span

CLIP_RATE = 25
"""Frames a second a clip is said to have when its frames travel as a video: their places on this
grid are how the server learns their times, here to 0.02 s."""


def body(request: Request, *, form: Form) -> dict[str, Any]:
    """The JSON body that asks `request`, frames included."""
    if not request.pictures:
        raise ValueError("a vision model needs frames to look at; see Request.showing")
    show = video_parts if form == "video" else image_parts
    content = [*show(request.pictures), {"type": "text", "text": request.text}]
    asked: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": request.answer_tokens,
    }
    if request.temperature is not None:
        asked["temperature"] = request.temperature
    if request.schema is not None:
        wanted = {"name": "answer", "strict": True, "schema": dict(request.schema)}
        asked["response_format"] = {"type": "json_schema", "json_schema": wanted}
    if form == "video":
        asked |= video_fields(request.pictures, request.span)
    return asked


def image_parts(pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    """Each picture as an image; its time before it where there are several."""
    parts: list[dict[str, Any]] = []
    for picture in pictures:
        if len(pictures) > 1:
            parts.append({"type": "text", "text": f"{clock(picture.time)}:"})
        url = f"data:image/jpeg;base64,{_encoded(picture)}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def video_parts(pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    """All pictures as one video of JPEG files, the form vLLM takes without decoding anything."""
    url = f"data:video/jpeg;base64,{','.join(map(_encoded, pictures))}"
    return [{"type": "video_url", "video_url": {"url": url}}]


def video_fields(pictures: Sequence[Picture], span: Span) -> dict[str, Any]:
    """Where the pictures lie in the window, `span`, as vLLM wants to be told.

    The clip is the window; picture `n` of it is shown at `n / CLIP_RATE` from its start.
    """
    total = max(1, math.ceil(span.duration * CLIP_RATE))
    places = [round((picture.time - span.start) * CLIP_RATE) for picture in pictures]
    clip = {
        "fps": CLIP_RATE,
        "frames_indices": [min(total - 1, max(0, place)) for place in places],
        "total_num_frames": total,
        "duration": span.duration,
        "do_sample_frames": False,
    }
    return {"media_io_kwargs": {"video": clip}}


def _encoded(picture: Picture) -> str:
    return base64.b64encode(picture.jpeg).decode("ascii")
