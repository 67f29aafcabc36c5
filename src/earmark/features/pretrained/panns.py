"""PANNs Cnn14_DecisionLevelMax (Kong et al., 2020): 527 AudioSet classes."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from earmark.features.pretrained.detector import STEPS, Detector
from earmark.features.pretrained.spectrograms import PowerSpectrum
from earmark.features.spectrum import hertz_bands

SAMPLE_RATE = 32_000
BANDS = 64
HALVINGS = 5
"""How often the convolutions halve the rate of the spectra: 100 Hz to 3.125 Hz."""
STEPS_PER_DECISION = 8
"""Steps of the 25 Hz clock that one decision stands for."""


class Cnn14(Detector):
    """Six blocks of two convolutions; a decision every 320 ms, repeated until the next."""

    def __init__(self, *, channels: int = 64, classes: int = 527) -> None:
        super().__init__()
        bands = hertz_bands(
            BANDS, size=1024, sample_rate=SAMPLE_RATE, low=50, high=14_000, slaney=True
        )
        self._mel = PowerSpectrum(torch.hann_window(1024), bands, hop=320)
        self.bn0 = nn.BatchNorm2d(BANDS)
        widths = [1, *(channels * 2**place for place in range(HALVINGS + 1))]
        for number, (wide, out) in enumerate(pairwise(widths), start=1):
            self.add_module(f"conv_block{number}", _Block(wide, out))
        self.fc1 = nn.Linear(widths[-1], widths[-1])
        self.fc_audioset = nn.Linear(widths[-1], classes)

    def spectrum(self, sound: Tensor) -> Tensor:
        """Mel levels in dB, `(batch, 1001, 64)` of ten seconds."""
        energy = self._mel(sound).clamp(min=1e-10)
        return 10.0 * torch.log10(energy).transpose(1, 2)

    def embed(self, spectrum: Tensor) -> Tensor:
        """One vector per step, `(batch, 250, width)`; a new one every 320 ms."""
        return repeat_decisions(self.decide(spectrum))

    def decide(self, spectrum: Tensor) -> Tensor:
        """One vector for every 320 ms of sound of any length, `(batch, decisions, width)`."""
        maps = self.bn0(spectrum.transpose(1, 2)[..., None]).permute(0, 3, 2, 1)
        for number in range(1, HALVINGS + 1):
            maps = F.avg_pool2d(self.get_submodule(f"conv_block{number}")(maps), 2)
        rows = self.get_submodule("conv_block6")(maps).mean(dim=3)  # (batch, width, 31)
        loudest = F.max_pool1d(rows, 3, stride=1, padding=1)
        around = F.avg_pool1d(rows, 3, stride=1, padding=1)
        return F.relu(self.fc1((loudest + around).transpose(1, 2)))

    def classify(self, rows: Tensor) -> Tensor:
        """Logits of the AudioSet classes."""
        return self.fc_audioset(rows)


def repeat_decisions(rows: Tensor) -> Tensor:
    """Each row repeated for its eight steps, and the last one to the end of the ten seconds.

    The published model repeats a decision for 32 spectra of 10 ms. These are eight whole steps of
    40 ms, so the maximum within a step is the decision itself.
    """
    places = torch.arange(STEPS, device=rows.device) // STEPS_PER_DECISION
    return rows[:, places.clamp(max=rows.shape[1] - 1)]


class _Block(nn.Module):
    """Two 3x3 convolutions, each with a batch norm and a ReLU."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.bn2 = nn.BatchNorm2d(out)

    def forward(self, maps: Tensor) -> Tensor:
        maps = F.relu(self.bn1(self.conv1(maps)))
        return F.relu(self.bn2(self.conv2(maps)))
