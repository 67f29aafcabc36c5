"""Crops, drawn: what a head is shown and what each objective is told of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from earmark.training.optimisation import Crops, lay_out
from gate_making import kitchen


def drawn(actions: list[tuple[int, int]], *, steps: int = 20, length: int = 20) -> list[str]:
    """What is active, what counts as an action to be heard, and where one starts."""
    bounds = np.array(actions, dtype=np.intp).reshape(-1, 2)
    targets = lay_out([np.ones((length, 2))], [bounds], steps=steps).targets
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
    batch = lay_out([np.ones((8, 2))], [np.zeros((0, 2), dtype=np.intp)], steps=20)
    assert batch.targets.heard.sum() == 8
    assert batch.features[0, 8:].abs().sum() == 0


def test_draws_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    recordings = list(kitchen(3).values())

    def draws(seed: int) -> list[torch.Tensor]:
        crops = Crops(recordings, crop=8.0, batch=3, seed=seed)
        return [crops.draw().features for _ in range(3)]

    assert all(map(torch.equal, draws(1), draws(1)))
    assert not all(map(torch.equal, draws(1), draws(2)))


def test_long_recordings_are_drawn_more_often() -> None:
    short, long = kitchen(2, seconds=10.0), kitchen(1, seconds=90.0, seed=3)
    long_one = next(iter(long.values()))
    marked = long_one.takes[0].copy()
    marked[:] = 7
    heard = [next(iter(short.values())), replace(long_one, takes=(marked,))]
    crops = Crops(heard, crop=4.0, batch=50, seed=0)
    share = np.mean([float((crops.draw().features[:, 0, 0] == 7).float().mean()) for _ in range(8)])
    assert 0.8 < share < 0.98  # 0.9 of the sound
