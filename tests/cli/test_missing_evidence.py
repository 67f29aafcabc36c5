"""A model that is not here is one line, and the rest works."""

from __future__ import annotations

import pytest

from acceptance.command_line import earmark
from earmark.evidence.picture_evidence import REQUIREMENTS
from earmark.models import ModelStore
from earmark.run.run import Run
from earmark_lab.demo import Script, write_scene


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A bench with a clock and a sign, and something to hear."""
    path = tmp_path_factory.mktemp("scene") / "a.mp4"
    write_scene(path, Script.compose(duration=60.0), size=(480, 360), fps=2)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("missing", [(), ("heard",), ("read",), ("seen",), tuple(REQUIREMENTS)])
def test_a_kind_of_evidence_that_has_no_model_here_is_one_line(
    missing, clip, tmp_path, monkeypatch
):
    kept, models = ModelStore(), tmp_path / "models"
    models.mkdir()
    for kind, (best, *_) in REQUIREMENTS.items():
        if kind in missing:
            continue
        pytest.importorskip(best.library)
        for name in best.models:
            if kept.state(name) != "here":
                pytest.skip(f"{name} is not here: earmark models get evidence")
            (models / kept.path(name).name).symlink_to(kept.path(name))
    monkeypatch.setenv("EARMARK_CACHE", str(tmp_path))
    run = tmp_path / "run"
    done = earmark("caption", clip, "--budget", "2", "--run", run)
    assert done.code == 0, done.err
    told = [line for line in done.out.splitlines() if "no installed model tells" in line]
    assert len(told) == bool(missing)
    assert all(kind in told[0] for kind in missing)
    with Run(run) as opened:
        (recording,) = opened.recordings()
        found = {entry.kind for entry in opened.evidence(recording.id)}
    assert found.isdisjoint(missing)
    assert found == set(REQUIREMENTS) - set(missing)
