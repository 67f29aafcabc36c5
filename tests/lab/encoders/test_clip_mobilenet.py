"""mn04 gives what the authors' code gives, and its graph without weights gives the same.

The numbers are those of the authors' code (EfficientAT), for ten seconds of `seeded_sound`: eight
of the 527 logits, evenly spread, with the published weights and with seeded ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from scipy.signal import resample_poly

from earmark.features.mn04 import FFT_SIZE, MN04, log_mel, read_weights
from earmark_lab.encoders.convolutional import ClipMobileNet
from published_weights import seeded_sound, seeded_weights
from sound_blocks import features

PUBLISHED = [-4.44083, -8.24694, -11.49146, -12.57206, -6.53609, -14.88114, -7.07836, -10.53809]
SEEDED = [2.6931, 2.96132, 1.98909, 5.23537, -0.62853, 0.40429, -1.47789, -1.23651]
SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def clip_logits(network: ClipMobileNet, sound: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        rows = network.embed(network.spectrum(torch.from_numpy(sound)[None]))
        return network.classify(rows.mean(1))[0].numpy()


def spread(logits: np.ndarray) -> np.ndarray:
    return logits[np.linspace(0, 526, 8).astype(int)]


def published(shared_data: Path) -> Path:
    return shared_data / "mn04" / "mn04_as_mAP_432.pt"


def loaded(path: Path) -> ClipMobileNet:
    network = ClipMobileNet().eval()
    network.load_state_dict(torch.load(path, weights_only=True))
    return network


def test_logits_are_those_of_the_authors_code_with_any_weights():
    network = ClipMobileNet().eval()
    network.load_state_dict(seeded_weights(network.state_dict()))
    logits = clip_logits(network, seeded_sound(10, 32_000))
    np.testing.assert_allclose(spread(logits), SEEDED, atol=1e-3)


def test_logits_are_those_of_the_authors_code_with_the_published_weights(shared_data):
    network = loaded(published(shared_data))
    logits = clip_logits(network, seeded_sound(10, 32_000))
    np.testing.assert_allclose(spread(logits), PUBLISHED, atol=1e-3)
    assert sum(weight.numel() for weight in network.parameters()) == 983_599


def test_tensors_are_read_without_pytorch_as_pytorch_reads_them(shared_data):
    ours = read_weights(published(shared_data))
    theirs = torch.load(published(shared_data), weights_only=True)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value.numpy())


def test_the_graph_in_the_package_is_the_one_the_script_writes(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import mn04_graph

    assert mn04_graph.TARGET.read_bytes() == mn04_graph.make_graph().SerializeToString()
    assert "onnx" in sys.modules


def test_the_graph_gives_what_pytorch_gives(shared_data):
    """One patch; the spectra are those of the core in both."""
    encoder, network = MN04(weights=published(shared_data)), loaded(published(shared_data))
    spectra = log_mel(seeded_sound(3.222, 16_000))[:320]
    with torch.inference_mode():
        rows = network.embed(torch.from_numpy(spectra.T.copy())[None]).mean(1)
        expected = network.classify(rows).numpy()
    np.testing.assert_allclose(encoder._rows(spectra.T[None]), expected, atol=1e-3)


def test_sound_at_half_the_rate_gives_nearly_the_same(shared_data):
    """Against the published front end on the same sound at 32,000 samples per second."""
    encoder, network = MN04(weights=published(shared_data)), loaded(published(shared_data))
    low = seeded_sound(9.6, 16_000)
    high = resample_poly(low.astype(float), 2, 1).astype(np.float32)
    half = FFT_SIZE // 2
    ours = log_mel(np.pad(low, (half, half), mode="reflect"))[:960]
    with torch.inference_mode():
        theirs = network.spectrum(torch.from_numpy(high)[None])[0].T.numpy()
    assert (
        np.abs(ours[5:-5, :95] - theirs[5:955, :95]).mean() < 0.03
    )  # below 7 kHz; they range to 3
    logits = features(encoder, low)[5 * 24]  # the patch around 4.8 to 5.76 s
    patch = high[round((4.8 - 1.12) * 32_000) : round((5.76 + 1.12) * 32_000)]
    difference = np.abs(logits - clip_logits(network, patch))
    assert difference.mean() < 0.5
