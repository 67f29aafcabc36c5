from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from earmark_lab.demo import SILENT_SHARE, Script, make_scene


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path):
    first = make_scene(tmp_path / "a.mp4", seed=3, duration=8.0)
    again = make_scene(tmp_path / "b.mp4", seed=3, duration=8.0)
    other = make_scene(tmp_path / "c.mp4", seed=4, duration=8.0)
    assert first.path.read_bytes() == again.path.read_bytes() != other.path.read_bytes()
    assert first.actions == again.actions


@pytest.mark.parametrize("duration", [5.0, 7.4])
def test_both_streams_last_as_long_as_the_scene(tmp_path: Path, duration: float):
    scene = make_scene(tmp_path / "scene.mp4", duration=duration, fps=20, size=(160, 120))
    with av.open(str(scene.path)) as container:
        frames = [frame.time for frame in container.decode(video=0)]
        container.seek(0)
        samples = sum(frame.samples for frame in container.decode(audio=0))
    assert len(frames) == round(duration * 20)
    assert np.allclose(np.diff(frames), 1 / 20)
    assert 0 <= samples / 16_000 - duration < 0.2  # AAC rounds up to whole frames


def test_pictures_move_during_actions_and_at_no_other_time():
    script = Script.compose(seed=0, duration=60.0)
    for index, (before, after) in enumerate(pairwise(script.pictures(fps=10)), start=1):
        times = ((index - 1) / 10, index / 10)
        working = any(a.start <= time < a.end for a in script.actions for time in times)
        moved = bool(np.any(before != after))
        assert working or not moved
    assert len(script.actions) > 5


def test_every_action_moves_something():
    script = Script.compose(seed=0, duration=60.0)
    pictures = list(script.pictures(fps=10))
    for action in script.actions:
        inside = pictures[int(action.start * 10) : int(action.end * 10) + 1]
        assert any(np.any(before != after) for before, after in pairwise(inside)), action


def test_actions_are_in_order_apart_and_inside():
    for seed in range(20):
        script = Script.compose(seed=seed, duration=300.0)
        assert all(one.end < two.start for one, two in pairwise(script.actions))
        assert all(0 <= action.start < action.end <= 300.0 for action in script.actions)


def test_a_shift_has_quiet_and_busy_stretches():
    starts = [action.start for action in Script.compose(seed=1, duration=3600.0).actions]
    per_minute, _ = np.histogram(starts, bins=60, range=(0, 3600))
    assert np.mean(per_minute == 0) > 0.1
    assert per_minute.max() > 3 * per_minute.mean() / 2


def test_listening_helps_and_is_not_perfect():
    """Heard windows are louder than the rest on average, and no threshold tells them apart."""
    script = Script.compose(seed=2, duration=600.0)
    sound = script.sound()
    levels = np.log10(np.mean(sound.reshape(-1, 4 * 16_000) ** 2, axis=1))
    busy = np.array(
        [
            any(start < action.end and action.start < start + 4 for action in script.actions)
            for start in np.arange(0, 600, 4)
        ]
    )
    ahead = np.mean(levels[busy][:, None] > levels[~busy][None, :])  # area under the ROC curve
    assert 0.6 < ahead < 0.95
    silent = [not action.is_heard for action in script.actions if action.label != "carry"]
    assert abs(np.mean(silent) - SILENT_SHARE) < 0.1


def test_a_scene_without_time_is_refused():
    with pytest.raises(ValueError, match="more than 0 s, not 0"):
        Script.compose(duration=0.0)
