"""Turns a recording into features on one clock: an `Encoder` takes a Recording, yields Tracks."""

from earmark.hear.encoder import SAMPLE_RATE, STEP, Encoder, SoundEncoder
from earmark.hear.logmel import LogMel
from earmark.hear.loudness import Energy, EnergyVariance
from earmark.hear.onset import Flux
from earmark.hear.packets import Packets

ENCODERS: dict[str, type[Encoder]] = {
    "energy": Energy,
    "flux": Flux,
    "variance": EnergyVariance,
    "log-mel": LogMel,
    "packets": Packets,
}
"""Every encoder that needs no weights, by the name the command line uses."""

__all__ = [
    "ENCODERS",
    "SAMPLE_RATE",
    "STEP",
    "Encoder",
    "Energy",
    "EnergyVariance",
    "Flux",
    "LogMel",
    "Packets",
    "SoundEncoder",
]
