"""Our models give what the authors' own code gives, with the same weights and the same sound.

The numbers are those of the authors' code (see experiments/LOG.md), for the weights and the sound
of `published_weights`: four rows and four classes, evenly spread.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from earmark.hear.published import published
from earmark.hear.published.checkpoint import build
from published_weights import seeded_sound, seeded_weights

# fmt: off
GOLDENS = {
    "beats": (1e-4, [
        [1.10625, -1.29311, -2.08326, -0.1399], [1.16411, -1.3271, -2.07394, -0.06568],
        [1.10945, -1.28497, -2.09544, -0.14118], [1.21094, -1.33151, -1.99829, -0.0173]]),
    "atst-frame": (1e-4, [
        [-0.32203, -2.64733, 0.52563, 0.21034], [-0.7127, -2.53816, 0.78576, 0.30427],
        [-0.39059, -2.7143, 0.39702, 0.59563], [-0.40584, -2.57263, 0.38664, 0.32808]]),
    "fpasst": (1e-4, [
        [-0.64689, 0.738, 2.16485, 1.22181], [-0.80667, 0.29701, 2.32586, 1.20553],
        [-0.7343, 0.66224, 2.33702, 1.02529], [-0.57664, -0.1895, 2.24767, 0.7007]]),
    "frame-mn06": (1e-2, [
        [0.00122, -1.60039, 1.88527, 0.79722], [-2.13206, -8.32772, 1.20316, 4.88935],
        [-5.03824, -4.23327, -2.30233, 11.42973], [-5.06561, -3.21047, -0.73457, -1.74151]]),
    "frame-mn10": (1e-2, [
        [3.42556, -2.3359, -0.83035, 0.94384], [1.52127, -1.93833, 3.30863, 0.1845],
        [6.28365, -2.97022, 5.09901, 5.39346], [0.96795, -2.9967, -1.54547, -1.7222]]),
    "panns": (1e-4, [
        [1.55808, -0.8987, 1.18831, 0.44509], [2.74775, -0.87904, 1.76011, 0.59052],
        [2.62845, -0.83009, 1.52701, 0.68842], [2.11994, -0.54094, 1.41431, 1.24396]]),
    "slowfast": (1e-4, [[-4.25308, -0.57002, 17.29946, 1.0558]]),
}
# fmt: on
"""Random MobileNets magnify the last digit of a spectrum a thousand times; trained ones do not."""

HEAVY = {"beats", "atst-frame", "fpasst", "panns", "slowfast"}


def cases() -> list:
    return [pytest.param(name, marks=pytest.mark.slow if name in HEAVY else ()) for name in GOLDENS]


@pytest.mark.parametrize("name", cases())
def test_logits_are_those_of_the_authors_code(name):
    known = published(name)
    detector = build(known).eval()
    detector.load_state_dict(seeded_weights(detector.state_dict()))
    sound = seeded_sound(known.layout.chunk / 25, known.sample_rate)
    with torch.inference_mode():
        logits = detector(torch.from_numpy(sound)[None])[0].numpy()
    tolerance, golden = GOLDENS[name]
    rows = [0, 60, 125, 249] if len(logits) == 250 else [0]
    classes = np.linspace(0, len(known.classes) - 1, 4).astype(int)
    assert logits.shape == (len(logits), len(known.classes))
    np.testing.assert_allclose(logits[rows][:, classes], golden, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "millions"), [("frame-mn06", 1.62), ("frame-mn10", 3.83), ("slowfast", 26.07)]
)
def test_as_many_weights_as_published(name, millions):
    known = published(name)
    weights = sum(weight.numel() for weight in build(known).parameters())
    weights += (known.width + 1) * 447 * ("weak_head." in known.unused)
    assert weights / 1e6 == pytest.approx(millions, abs=0.005)
