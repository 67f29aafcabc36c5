"""Turns a recording into features on one clock: an `Encoder` takes a Recording, yields Tracks."""

from collections.abc import Callable
from functools import partial

from earmark.features.encoder import Encoder
from earmark.features.encoder_spec import make_encoder, split_name
from earmark.features.energy import Energy, EnergyVariance
from earmark.features.floor_mel import FloorMel
from earmark.features.log_mel import LogMel
from earmark.features.motion import CompensatedFlow, FrameDifference, OpticalFlow
from earmark.features.packet_motion import Packets
from earmark.features.pretrained.pretrained_encoder import PretrainedEncoder
from earmark.features.pretrained.query_encoder import QueryEncoder
from earmark.features.spectral_flux import Flux
from earmark.features.yamnet import YAMNet
from earmark.models import PRETRAINED
from earmark.models.registry import Registry

ENCODERS: Registry[Callable[..., Encoder]] = Registry(
    "earmark.encoders",
    {
        "energy": Energy,
        "flux": Flux,
        "variance": EnergyVariance,
        "log-mel": LogMel,
        "floor-mel": FloorMel,
        "packets": Packets,
        "yamnet": YAMNet,
        "frame-difference": FrameDifference,
        "flow": OpticalFlow,
        "flow-compensated": CompensatedFlow,
        **{name: partial(PretrainedEncoder, name) for name in PRETRAINED},
        "dasm": QueryEncoder,
    },
    kind="encoder",
)
"""Every encoder by the name the command line uses; weights are looked for on first use.

Another package's is a frozen dataclass that keeps the contract of `Encoder`: its fields are its
options. One whose features are no score has a field `reads`, which may be `activity`.
"""


def encoder_named(text: str) -> Encoder:
    """The encoder that gives a gate its features: a name, with options after colons."""
    return make_encoder(ENCODERS.named(split_name(text)[0]), text)


def detector_named(text: str) -> Encoder:
    """What ranks moments by itself under that name; takes options like `encoder_named`."""
    return make_encoder(ENCODERS.named(split_name(text)[0]), text, detects=True)
