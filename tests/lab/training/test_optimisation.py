"""A fit is the same every time, also when it was interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from earmark.errors import ModelMismatch
from earmark_lab.training.dataset import TrainingRecording
from earmark_lab.training.gate_training import in_bouts
from earmark_lab.training.head import OBJECTIVES, Context, Head
from earmark_lab.training.optimisation import (
    Check,
    Crops,
    fit,
    lay_out,
    make_context,
    make_head,
    score,
)
from earmark_lab.training.settings import Settings
from gate_making import SMALL, kitchen


def weights(head: Head | Context) -> torch.Tensor:
    return torch.cat([each.flatten() for each in head.parameters()])


def fit_head(
    recordings: Sequence[TrainingRecording], settings: Settings, **options: Any
) -> tuple[Head, list[Check]]:
    seed = options.pop("seed", 0)
    head = make_head(64, settings, seed=seed)
    return head, fit(head, recordings, settings, seed=seed, measure=lambda: 0.5, **options)


def fitted(**changes: object) -> torch.Tensor:
    settings = replace(SMALL, **changes)  # type: ignore[arg-type]
    return weights(fit_head(list(kitchen(3).values()), settings, seed=1)[0])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_same_seed_gives_the_same_head(objective: str) -> None:
    first = fitted(objective=objective)
    assert torch.equal(first, fitted(objective=objective))
    assert bool(torch.isfinite(first).all())


def test_objectives_differ_in_nothing_but_the_objective() -> None:
    """Before the first step the heads are equal, and they see the same crops."""
    heads = [fitted(objective=name, steps=1, learning_rate=1e-12) for name in OBJECTIVES]
    for head in heads[1:]:
        torch.testing.assert_close(head, heads[0], atol=1e-9, rtol=0)


def test_an_interrupted_fit_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    recordings, settings = list(kitchen(3).values()), replace(SMALL, steps=8)
    whole = fit_head(recordings, settings, seed=3)

    class Stopped(Exception):
        pass

    def stop(check: Check) -> None:
        if check.step == 6:
            raise Stopped

    kept = tmp_path / "state.pt"
    with pytest.raises(Stopped):
        fit_head(recordings, settings, seed=3, checkpoint=kept, progress=stop)
    torch.manual_seed(99)
    resumed = fit_head(recordings, settings, seed=3, checkpoint=kept)
    assert torch.equal(weights(resumed[0]), weights(whole[0]))
    assert [check.step for check in resumed[1]] == [2, 4, 6, 8]
    assert resumed[1] == whole[1]
    again = fit_head(recordings, settings, seed=3, checkpoint=kept)
    assert torch.equal(weights(again[0]), weights(whole[0]))


def test_a_checkpoint_of_other_settings_or_recordings_is_refused(tmp_path: Path) -> None:
    recordings, kept = list(kitchen(2).values()), tmp_path / "state.pt"
    fit_head(recordings, SMALL, checkpoint=kept)
    with pytest.raises(ModelMismatch, match="other settings; give another folder"):
        fit_head(recordings, replace(SMALL, objective="span"), checkpoint=kept)
    moved = [replace(heard, actions=heard.actions[1:]) for heard in recordings]
    with pytest.raises(ModelMismatch, match="other recordings; give another folder"):
        fit_head(moved, SMALL, checkpoint=kept)
    more_seeds = replace(SMALL, seeds=7, loudness=0.3)
    fit_head(recordings, more_seeds, checkpoint=kept)


def test_without_cooling_a_training_goes_on_to_more_steps(tmp_path: Path) -> None:
    recordings, kept = list(kitchen(2).values()), tmp_path / "state.pt"
    flat = replace(SMALL, steps=2, cooling=0.0)
    fit_head(recordings, flat, checkpoint=kept)
    more = fit_head(recordings, replace(flat, steps=4), checkpoint=kept)
    once = fit_head(recordings, replace(flat, steps=4))
    for one, other in zip(more[0].parameters(), once[0].parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ModelMismatch, match="other settings"):  # it has taken four
        fit_head(recordings, flat, checkpoint=kept)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    recordings, kept = list(kitchen(2).values()), tmp_path / "kept.pt"
    fit_head(recordings, SMALL, checkpoint=kept)
    one_line = r"kept\.pt cannot be read \(.+\); give another folder, or remove it\Z"
    for content in (kept.read_bytes()[:-2000], b"", b"no checkpoint"):
        kept.write_bytes(content)
        with pytest.raises(ModelMismatch, match=one_line):
            fit_head(recordings, SMALL, checkpoint=kept)


@pytest.mark.parametrize("objective", ["span", "rate"])
def test_a_head_learns_where_actions_start(objective: str) -> None:
    settings = replace(SMALL, objective=objective, steps=40, check_every=40, learning_rate=1e-2)
    material = kitchen(4)
    head = fit_head(list(material.values()), settings)[0]
    heard = next(iter(kitchen(1, seed=9).values()))
    scores = score(head, OBJECTIVES[objective], heard.features)
    near = np.zeros(len(scores), dtype=bool)
    for start in (action.start for action in heard.actions):
        near[round(start * 25) : round(start * 25) + 15] = True
    assert scores[near].mean() > 1.5 * scores[~near].mean()


def test_a_loss_that_is_no_number_stops_the_fit() -> None:
    recordings = list(kitchen(2).values())
    broken = recordings[0].takes[0].copy()
    broken[:] = np.nan
    ruined = [replace(heard, takes=(broken,)) for heard in recordings]
    with pytest.raises(ModelMismatch, match="no longer a number"):
        fit_head(ruined, SMALL)


def test_a_context_learns_which_seconds_lie_in_a_bout() -> None:
    """Half a recording is idle: its features never jump."""
    settings = replace(SMALL, steps=150, check_every=150, crop=6.0)
    idle = [half_idle(heard) for heard in kitchen(4, seconds=120.0).values()]
    bouts = [in_bouts(heard, settings.context_channels) for heard in idle]
    context = make_context(settings, seed=0)
    fit(context, bouts, settings.of_context(), seed=0)
    fresh = in_bouts(half_idle(kitchen(1, seconds=120.0, seed=9)["P00_0"]), 4)
    with torch.no_grad():
        chance = torch.sigmoid(context.eval()(torch.from_numpy(fresh.features)[None]))[0]
    assert float(chance[:60].mean() - chance[70:].mean()) > 0.3


def half_idle(heard: TrainingRecording) -> TrainingRecording:
    """The recording with calm features and no action from one minute on."""
    features = heard.takes[0].copy()
    features[60 * 25 :] = np.random.default_rng(0).standard_normal((len(features) - 1500, 64)) * 0.3
    actions = tuple(action for action in heard.actions if action.end < 60)
    return replace(heard, takes=(features,), actions=actions)


def drawn(actions: list[tuple[int, int]], *, steps: int = 20, length: int = 20) -> list[str]:
    """What is active, what counts as an action to be heard, and where one starts."""
    bounds = np.array(actions, dtype=np.intp).reshape(-1, 2)
    _, targets = lay_out([np.ones((length, 2))], [bounds], steps=steps)
    active = ["#" if on else "." for on in targets.active[0].tolist()]
    counted, starts = ["."] * steps, ["."] * steps
    for place, owner in zip(targets.inside.tolist(), targets.owner.tolist(), strict=True):
        counted[place] = str(owner)
    for place in targets.starts.tolist():
        starts[place] = "^"
    return ["".join(active), "".join(counted), "".join(starts)]


def test_whole_actions() -> None:
    assert drawn([(2, 5), (8, 12)]) == [
        "..###...####........",
        "..000...1111........",
        "..^.....^...........",
    ]


def test_an_action_mostly_out_of_sight_is_neither_action_nor_silence() -> None:
    assert drawn([(-6, 2), (16, 40)]) == [
        "##..............####",
        "....................",
        "................^...",
    ]


def test_an_action_mostly_in_sight_counts() -> None:
    assert drawn([(-2, 6), (15, 24)]) == [
        "######.........#####",
        "000000.........11111",
        "...............^....",
    ]


def test_an_action_longer_than_the_crop_counts_where_it_fills_half_of_it() -> None:
    assert drawn([(-500, 12)])[1] == "000000000000........"
    assert drawn([(-500, 9)])[1] == "...................."


def test_a_short_recording_is_padded_and_the_padding_is_not_heard() -> None:
    assert drawn([(4, 30)], length=8) == [
        "....####............",
        "....................",
        "....^...............",
    ]
    features, targets = lay_out([np.ones((8, 2))], [np.zeros((0, 2), dtype=np.intp)], steps=20)
    assert targets.heard.sum() == 8
    assert features[0, 8:].abs().sum() == 0


def test_draws_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    recordings = list(kitchen(3).values())

    def draws(seed: int) -> list[torch.Tensor]:
        crops = Crops(recordings, 200, 3, seed=seed)
        return [crops.draw()[0] for _ in range(3)]

    assert all(map(torch.equal, draws(1), draws(1)))
    assert not all(map(torch.equal, draws(1), draws(2)))


def test_long_recordings_are_drawn_more_often() -> None:
    short, long = kitchen(2, seconds=10.0), kitchen(1, seconds=90.0, seed=3)
    long_one = next(iter(long.values()))
    marked = long_one.takes[0].copy()
    marked[:] = 7
    heard = [next(iter(short.values())), replace(long_one, takes=(marked,))]
    crops = Crops(heard, 100, 50, seed=0)
    share = np.mean([float((crops.draw()[0][:, 0, 0] == 7).float().mean()) for _ in range(8)])
    assert 0.8 < share < 0.98  # 0.9 of the sound
