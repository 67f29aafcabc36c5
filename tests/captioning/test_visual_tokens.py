from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.captioning.request import PATCH, fit
from stills import ask_about, image_tokens, still


@pytest.mark.parametrize(
    ("size", "frames", "tokens", "fitted"),
    [
        ((1920, 1080), 1, 2040, (1920, 1056)),  # all of it, cut to whole patches
        ((1920, 1080), 1, 240, (640, 352)),
        ((1080, 1920), 1, 240, (352, 640)),  # portrait
        ((1920, 1080), 8, 1760, (640, 352)),
        ((320, 240), 1, 5000, (320, 224)),  # never upscaled
        ((20, 20), 1, 5000, (20, 20)),  # less than a patch stays as it is
        ((3840, 40), 1, 10, (320, 32)),  # a ribbon is still one patch high
        ((1920, 1080), 1, 1, (32, 32)),
    ],
)
def test_fitted_sizes(size, frames, tokens, fitted):
    assert fit(*size, frames=frames, tokens=tokens) == fitted


sides = st.integers(min_value=32, max_value=4000)


@given(sides, sides, st.integers(1, 16), st.integers(16, 5000))
def test_what_is_fitted_fits(width, height, frames, tokens):
    small = fit(width, height, frames=frames, tokens=tokens)
    assert frames * image_tokens(*small) <= tokens
    assert small[0] <= width and small[1] <= height
    assert small[0] % PATCH == 0 and small[1] % PATCH == 0
    # The short side is within one patch of what the shape asks for, where one patch is enough.
    asked = small[0] * height / width if width >= height else small[1] * width / height
    given_side = small[1] if width >= height else small[0]
    assert abs(given_side - asked) <= PATCH


@given(sides, sides, st.integers(1, 3000))
def test_one_more_patch_along_the_long_side_would_not_fit(width, height, tokens):
    width, height = max(width, height), min(width, height)
    fitted = fit(width, height, tokens=tokens)[0]
    for wider in range(fitted + 32, width + 1, 32):
        across = min(max(1, height // 32), max(1, round(wider / 32 * height / width)))
        assert wider // 32 * across > tokens


def test_too_small_an_allowance_is_refused():
    with pytest.raises(ValueError, match="4 visual tokens cannot hold 8 frames"):
        fit(640, 352, frames=8, tokens=4)


def test_frames_are_shrunk_only_where_they_must_be():
    large, small = still(1.0, width=1920, height=1080), still(2.0, width=320, height=160)
    shrunk = ask_about([1.0, 2.0], tokens=480, frames=False).showing([large, small]).frames
    assert [frame.rgb.shape for frame in shrunk] == [(352, 640, 3), (160, 320, 3)]
    assert shrunk[1] is small
    assert [frame.time for frame in shrunk] == [1.0, 2.0]
