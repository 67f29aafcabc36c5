"""Visual tokens: how many a picture takes, and how small it must be to fit an allowance.

A model sees a picture as patches, and one token is one patch: 32 x 32 pixels for Qwen3-VL (16-pixel
patches merged two by two). A video merges two frames in time as well.

    640 x 352  =  20 x 11 patches  =  220 tokens;  eight as images 1760, as a video 880
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from earmark.media import Frame

PATCH = 32
"""Pixels along one side of a visual token of Qwen3-VL."""


def image_tokens(width: int, height: int, *, frames: int = 1, patch: int = PATCH) -> int:
    """Tokens of `frames` pictures of one size, each sent as an image."""
    return frames * math.ceil(width / patch) * math.ceil(height / patch)


def fit(
    width: int, height: int, *, frames: int = 1, tokens: int, patch: int = PATCH
) -> tuple[int, int]:
    """The largest width and height at which `frames` images take at most `tokens`.

    Multiples of `patch` with the shape of the picture kept to within a patch; never larger
    than the picture. A side shorter than one patch stays as it is and counts as one.

    >>> fit(1920, 1080, tokens=240)
    (640, 352)
    """
    if min(width, height, frames, patch) < 1:
        raise ValueError(f"a picture of {width} x {height}, {frames} times, cannot be fitted")
    each = tokens // frames
    if each < 1:
        raise ValueError(f"{tokens} visual tokens cannot hold {frames} frames; at least one each")
    longer, shorter = max(width, height), min(width, height)
    along = _patches(longer, shorter, most=each, patch=patch)
    long_side, short_side = (
        min(side, count * patch) for side, count in zip((longer, shorter), along, strict=True)
    )
    return (long_side, short_side) if width >= height else (short_side, long_side)


def _patches(longer: int, shorter: int, *, most: int, patch: int) -> tuple[int, int]:
    """Patches along the longer and the shorter side, at most `most` in all."""
    widest, tallest = max(1, longer // patch), max(1, shorter // patch)
    for along in range(widest, 0, -1):
        across = min(tallest, max(1, round(along * shorter / longer)))
        if along * across <= most:
            return along, across
    raise AssertionError("one patch always fits")


def shrink(frames: Sequence[Frame], *, tokens: int, patch: int = PATCH) -> list[Frame]:
    """`frames` resized so that together they take at most `tokens` as images.

    Frames already small enough are passed on as they are.
    """
    small = []
    for frame in frames:
        size = frame.width, frame.height
        target = fit(*size, frames=len(frames), tokens=tokens, patch=patch)
        small.append(frame if target == size else frame.resized(*target))
    return small
