"""Plain pictures to show, and requests that show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from earmark import Span
from earmark.captioning.request import PATCH, Question, Request
from earmark.media import Frame


def still(time: float = 0.0, *, width: int = 64, height: int = 64, level: int = 128) -> Frame:
    """A picture of one grey, shown at `time`."""
    return Frame(time, np.full((height, width, 3), level, dtype=np.uint8))


def image_tokens(width: int, height: int) -> int:
    """Visual tokens of a picture: patches, those at its edges whole."""
    return math.ceil(width / PATCH) * math.ceil(height / PATCH)


def ask_about(
    times: Sequence[float] = (2.0,), *, recording: str = "kitchen", span: Span | None = None,
    model: str = "tiny", prompt: str = "What is done here?", tags: tuple[str, ...] = (),
    tokens: int = 64, frames: bool = True, size: tuple[int, int] = (64, 64), **options: Any,
) -> Request:  # fmt: skip
    """A request about one window of four seconds, frames of the given size included."""
    start = 4.0 * (times[0] // 4.0)
    request = Request(
        recording=recording,
        span=span or Span(start, start + 4.0),
        times=tuple(times),
        prompt=prompt,
        model=model,
        question=Question(tokens=tokens, **options),
        tags=tags,
    )
    width, height = size
    shown = [still(time, width=width, height=height) for time in times]
    return request.showing(shown) if frames else request
