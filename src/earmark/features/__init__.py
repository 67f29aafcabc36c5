"""Turns a recording into features on one clock: an `Encoder` takes a Recording, yields Tracks."""

from collections.abc import Callable
from functools import partial

from earmark.features.encoder import SAMPLE_RATE, STEP, Encoder, SoundEncoder
from earmark.features.encoder_spec import make_named
from earmark.features.energy import Energy, EnergyVariance
from earmark.features.log_mel import LogMel
from earmark.features.motion import CompensatedFlow, FrameDifference, OpticalFlow
from earmark.features.packet_motion import Packets
from earmark.features.pretrained import DETECTORS_ON_SHELF, ON_SHELF, DasmOnShelf
from earmark.features.spectral_flux import Flux
from earmark.features.yamnet import YAMNet, YAMNetDetector

ENCODERS: dict[str, type[Encoder]] = {
    "energy": Energy,
    "flux": Flux,
    "variance": EnergyVariance,
    "log-mel": LogMel,
    "packets": Packets,
    "yamnet": YAMNet,
    "frame-difference": FrameDifference,
    "flow": OpticalFlow,
    "flow-compensated": CompensatedFlow,
    **ON_SHELF,
    "dasm": DasmOnShelf,
}
"""Every encoder by the name the command line uses; weights are looked for on first use."""

DETECTORS: dict[str, Callable[..., Encoder]] = {
    "yamnet": YAMNetDetector,
    **DETECTORS_ON_SHELF,
    "dasm": partial(DasmOnShelf, reads="activity"),
}
"""For encoders whose features are no score: what ranks moments by itself, without a gate."""


def encoder_named(text: str) -> Encoder:
    """The encoder that gives a gate its features: a name, with options after colons."""
    return make_named(text, ENCODERS)


def detector_named(text: str) -> Encoder:
    """What ranks moments by itself under that name; takes options like `encoder_named`."""
    return make_named(text, {**ENCODERS, **DETECTORS})


__all__ = [
    "DETECTORS",
    "ENCODERS",
    "SAMPLE_RATE",
    "STEP",
    "CompensatedFlow",
    "Encoder",
    "Energy",
    "EnergyVariance",
    "Flux",
    "FrameDifference",
    "LogMel",
    "OpticalFlow",
    "Packets",
    "SoundEncoder",
    "YAMNet",
    "YAMNetDetector",
    "detector_named",
    "encoder_named",
]
