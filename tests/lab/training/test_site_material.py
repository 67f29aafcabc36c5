"""Made recordings as training material: stored once, and filtered by family."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from earmark_lab.sites.site import SiteGenerator
from earmark_lab.training.site_material import MadeMaterial, gather_sites

GENERATOR = SiteGenerator(timings=["picking", "assembly"], ambiences=["none"])


def gathered(cache: Path, *, hours: float = 0.05) -> MadeMaterial:
    return gather_sites(GENERATOR, hours=hours, seed=1, encoder="floor-mel", cache=cache)


def test_what_is_stored_is_what_is_made_and_is_not_made_again(tmp_path):
    made = gathered(tmp_path)
    (path,) = tmp_path.glob("*.npz")
    written = path.stat().st_mtime_ns
    again = gathered(tmp_path)
    (name,) = made.recordings
    assert path.stat().st_mtime_ns == written
    assert_array_equal(made.recordings[name].takes[0], again.recordings[name].takes[0])
    assert made.recordings[name].actions == again.recordings[name].actions
    assert made.recordings[name].takes[0].shape == ((180 * 25), 16)
    direct = next(GENERATOR.recordings(hours=0.05, seed=1))
    assert direct.actions == pytest.approx(made.recordings[name].actions)
    assert np.isfinite(made.recordings[name].features).all()


def test_a_family_that_is_left_out_is_in_no_recording():
    sites = {plan.name: plan.site for plan in SiteGenerator().plans(hours=20, seed=0)}
    everything = MadeMaterial(dict.fromkeys(sites), sites)
    kept = everything.without(timings=("picking",), sounds=("impacts",))
    assert 0 < len(kept) < len(sites)
    assert all(
        sites[name].timing != "picking" and "impacts" not in sites[name].sounds for name in kept
    )
    assert everything.without(timings=(), sounds=()).keys() == sites.keys()


def test_an_encoder_that_reads_no_sound_is_refused(tmp_path):
    with pytest.raises(ValueError, match="made recordings have sound alone"):
        gather_sites(GENERATOR, hours=0.05, seed=1, encoder="packets", cache=tmp_path)
