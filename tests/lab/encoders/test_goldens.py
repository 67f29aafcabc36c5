"""Our models give what the authors' own code gives, with the same weights and the same sound.

The numbers are those of the authors' code (see experiments/published-encoders.md), for the weights
and the sound of `published_weights`: four rows and four classes, evenly spread.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from earmark.features.sound_tags import class_names
from earmark_lab.encoders.detector import build
from earmark_lab.encoders.pretrained_encoder import ARCHITECTURES
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
    "frame-mn06": (1e-3, [
        [0.08426, 0.12173, 0.16331, -0.06542], [0.17526, 0.16203, 0.2104, 0.00931],
        [0.08409, 0.1839, 0.05958, -0.01295], [0.09875, 0.12978, 0.17615, -0.10247]]),
    "frame-mn10": (1e-3, [
        [-0.06078, -0.09995, 0.32857, -0.01802], [-0.02146, -0.16071, 0.33717, -0.01067],
        [-0.04512, -0.14607, 0.32556, -0.00826], [-0.02131, -0.16884, 0.28235, 0.03295]]),
    "panns": (1e-4, [
        [0.8603, -0.58446, 0.73416, 0.16675], [1.50653, -0.51565, 1.10284, 0.29963],
        [1.4179, -0.42679, 0.96814, 0.33764], [1.07654, -0.29589, 0.90468, 0.63215]]),
    "slowfast": (1e-4, [[-2.31498, 0.35325, 10.62972, 0.63045]]),
}
# fmt: on
"""A tolerance, then logits; random MobileNets magnify the last digit of a spectrum."""

HEAVY = {"beats", "atst-frame", "fpasst", "panns", "slowfast"}


def cases() -> list:
    return [pytest.param(name, marks=pytest.mark.slow if name in HEAVY else ()) for name in GOLDENS]


@pytest.mark.parametrize("name", cases())
def test_logits_are_those_of_the_authors_code(name):
    network = ARCHITECTURES[name]
    detector = build(network).eval()
    detector.load_state_dict(seeded_weights(detector.state_dict()))
    sound = seeded_sound(network.layout.chunk / 25, network.sample_rate)
    with torch.inference_mode():
        logits = detector(torch.from_numpy(sound)[None])[0].numpy()
    count = len(class_names(network.vocabulary))
    tolerance, golden = GOLDENS[name]
    rows = [0, 60, 125, 249] if len(logits) == 250 else [0]
    classes = np.linspace(0, count - 1, 4).astype(int)
    assert logits.shape == (len(logits), count)
    np.testing.assert_allclose(logits[rows][:, classes], golden, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "millions"), [("frame-mn06", 1.62), ("frame-mn10", 3.83), ("slowfast", 26.07)]
)
def test_as_many_weights_as_published(name, millions):
    network = ARCHITECTURES[name]
    weights = sum(weight.numel() for weight in build(network).parameters())
    weights += (network.width + 1) * 447 * ("weak_head." in network.unused)
    assert weights / 1e6 == pytest.approx(millions, abs=0.005)
