"""Finds out, by asking, whether a server looks at what it is shown.

A server that takes pictures counts more tokens with one than without. One that refuses says so; one
that drops the picture in silence counts the same, and is found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from earmark.captioning.chat_message import image_parts, video_fields, video_parts
from earmark.captioning.chat_reply import Usage
from earmark.captioning.openai_endpoint import Endpoint
from earmark.captioning.request import Picture
from earmark.errors import CallError, CallTimeout
from earmark.media import Frame
from earmark.timeline import Span

SIDE = 64
"""Pixels; the smallest picture every server takes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it looks, and how that is known."""

    yes: bool
    why: str


def probe_pictures(endpoint: Endpoint, model: str, picture: Frame, *, timeout: float) -> Verdict:
    """Whether `model` looks at a picture."""
    return _probe(endpoint, _body(model), _body(model, image_parts([Picture.of(picture)])), timeout)


def probe_video(
    endpoint: Endpoint, model: str, frames: Sequence[Frame], *, timeout: float
) -> Verdict:
    """Whether `model` looks at frames sent as one video; asked with two of `frames`, made tiny."""
    tiny = [Picture.of(frame.resized(SIDE, SIDE)) for frame in frames[:2]]
    fields = video_fields(tiny, Span(tiny[0].time, tiny[-1].time))
    return _probe(endpoint, _body(model), _body(model, video_parts(tiny)) | fields, timeout)


def _body(model: str, parts: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """A question of a few tokens that shows `parts`."""
    content = [*parts, {"type": "text", "text": "What is this?"}]
    return {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 1}


def _probe(
    endpoint: Endpoint, without: dict[str, Any], showing: dict[str, Any], timeout: float
) -> Verdict:
    """Raises what the server raises when it is shown nothing: then nothing is known."""
    plain = _tokens(endpoint, without, timeout)
    try:
        shown = _tokens_in_the_end(endpoint, showing, timeout)
    except CallError as error:
        return Verdict(False, str(error))
    if shown is None or plain is None:
        return Verdict(True, "accepted; the server does not count tokens")
    if shown > plain:
        return Verdict(True, f"{shown - plain} tokens of picture counted")
    return Verdict(False, f"{endpoint.address} accepts it but does not look at it")


def _tokens_in_the_end(endpoint: Endpoint, body: dict[str, Any], timeout: float) -> int | None:
    """Some servers refuse with the status of a passing fault; those that pass do so at once."""
    try:
        return _tokens(endpoint, body, timeout)
    except CallTimeout:
        return _tokens(endpoint, body, timeout)


def _tokens(endpoint: Endpoint, body: dict[str, Any], timeout: float) -> int | None:
    """Tokens the server counts going in; None where it does not say."""
    return Usage.of(endpoint.chat(body, timeout=timeout)).prompt_tokens
