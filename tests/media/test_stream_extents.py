"""When a file begins and ends, by its streams."""

from __future__ import annotations

import pytest

from earmark.media.stream_extents import Extent, bounds


@pytest.mark.parametrize(
    ("heard", "seen", "shown"),
    [
        ([(0.0, 4.0)], None, (0.0, 4.0)),
        ([(1.0, 4.0), (0.5, 3.0)], None, (0.5, 4.0)),
        ([(0.0, 4.0)], (0.05, 3.95), (0.05, 3.95)),
        ([(0.0, 4.0)], (0.5, 3.0), (0.0, 4.0)),
        ([(0.25, 4.25)], (0.3125, 4.1875), (0.3125, 4.1875)),
        ([(2.0, 4.0)], (1.0, 9.0), (1.0, 9.0)),
        ([], (1.0, 9.0), (1.0, 9.0)),
    ],
)
def test_pictures_decide_where_sound_overhangs_by_a_hair_and_else_the_longest(heard, seen, shown):
    extents = [Extent(*one) for one in heard]
    assert bounds(extents, Extent(*seen) if seen else None) == shown
