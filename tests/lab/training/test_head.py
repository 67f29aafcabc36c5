"""The head has the paper's size, and sees no further than it says."""

from __future__ import annotations

import pytest
import torch

from earmark_lab.training.head import STATISTICS, Context, Head, in_seconds


def size(head: Head) -> int:
    return sum(weights.numel() for weights in head.parameters())


def test_the_papers_two_sizes() -> None:
    assert size(Head(447, width=192)) == pytest.approx(0.41e6, rel=0.03)
    assert size(Head(447, width=128)) == pytest.approx(0.2e6, rel=0.05)


@pytest.mark.parametrize("bands", [0, 4])
def test_a_logit_depends_on_its_context_and_nothing_else(bands: int) -> None:
    torch.manual_seed(0)
    head = Head(64, width=8, bands=bands).eval()
    assert head.context == (33 if bands else 21)
    features = torch.randn(1, 200, 64)
    for side in (-1, 1):
        for distance, reaches in ((head.context, True), (head.context + 1, False)):
            other = features.clone()
            other[0, 100 + side * distance] += 50.0
            with torch.no_grad():
                moved = abs(float(head(other)[0, 100] - head(features)[0, 100])) > 1e-6
            assert moved == reaches or (reaches and not moved and side == -1)


def test_bands_must_divide_the_channels() -> None:
    with pytest.raises(ValueError, match="64 channels cannot be averaged into 5"):
        Head(64, bands=5)


def test_a_constant_recording_is_at_rest() -> None:
    head = Head(64, width=8, bands=4)
    read = head.front(torch.full((1, 100, 64), 3.0))
    levels, rises, spread = read[0].split(4)
    assert torch.allclose(levels, torch.tensor(3.0))
    assert bool((rises[:, 1:] == 0).all())
    assert bool((spread[:, 12:-12] <= 0.011).all())


def test_features_far_from_zero_are_brought_there() -> None:
    """Shifting and stretching what a settled head is given changes nothing it says."""
    torch.manual_seed(0)
    features = torch.randn(2, 50, 16)
    far = 3.4 * features - 9.6
    near_head, far_head = Head(16, width=8), Head(16, width=8)
    far_head.load_state_dict(near_head.state_dict())
    near_head.settle(list(features))
    far_head.settle(list(far))
    torch.testing.assert_close(far_head(far), near_head(features), atol=1e-4, rtol=0)
    assert float(far_head.usual) == pytest.approx(-9.6, abs=0.5)
    torch.testing.assert_close(
        torch.relu(far_head.settled_enter()(far.transpose(1, 2))),
        torch.relu(near_head.settled_enter()(features.transpose(1, 2))),
        atol=1e-4,
        rtol=0,
    )


def test_bands_are_read_as_they_come() -> None:
    head = Head(16, width=8, bands=4)
    head.settle([torch.randn(50, 16) + 5])
    assert (float(head.usual), float(head.spread)) == (0.0, 1.0)


def test_a_context_depends_on_58_seconds_to_each_side_and_nothing_else() -> None:
    torch.manual_seed(0)
    context = Context(4, width=32, dropout=0.0).eval()
    assert context.context == 58 * 25
    seconds = torch.randn(1, 180, 4 * STATISTICS)
    for distance, reaches in ((58, True), (59, False)):
        for side in (-1, 1):
            other = seconds.clone()
            other[0, 90 + side * distance] += 3.0
            with torch.no_grad():
                moved = abs(float(context(other)[0, 90] - context(seconds)[0, 90])) > 0
            assert moved == reaches


def test_a_context_reads_how_much_a_channel_varies_around_a_second() -> None:
    context = Context(1, width=8, dropout=0.0)
    seconds = torch.ones(1, 100, STATISTICS)
    seconds[0, :50, 0] = torch.tensor([0.0, 2.0]).repeat(25)
    read = context.read(seconds)[0]  # rows, then their deviation over 11, 31 and 91 s
    assert read.shape == (4 * STATISTICS, 100)
    assert read[STATISTICS, [0, 25, 80]].tolist() == pytest.approx([1.0, 0.996, 0.01], abs=1e-3)
    assert read[2 * STATISTICS, 50].tolist() == pytest.approx(
        float(seconds[0, 35:66, 0].std(correction=0))
    )
    assert read[3 * STATISTICS, 0].tolist() == pytest.approx(
        float(seconds[0, :46, 0].std(correction=0))
    )
    assert read[STATISTICS + 1].max() == pytest.approx(0.01)


def test_a_second_is_its_mean_spread_largest_value_largest_rise_and_what_moves_apart() -> None:
    rows = torch.zeros(1, 40, 3)
    rows[0, :25, 0] = torch.arange(25) * 0.5
    rows[0, :25, 1] = torch.arange(25) * -0.5
    rows[0, 25:, :2] = 3.0
    seconds = in_seconds(rows, 2)
    assert seconds.shape == (1, 2, 2 * STATISTICS)
    assert seconds[0, 0, ::2].tolist() == pytest.approx([6.0, 3.606, 12.0, 0.5, 0.5], abs=1e-3)
    assert seconds[0, 1, ::2].tolist() == pytest.approx([3.0, 0.01, 3.0, 0.0, 0.0], abs=1e-3)


def test_channels_that_rise_together_do_not_move_apart() -> None:
    together = torch.arange(25.0).repeat(3, 1).T[None]
    assert in_seconds(together, 3)[0, 0, -3:].tolist() == pytest.approx([0.0, 0.0, 0.0])
