"""Turns a recording into features on one clock: an `Encoder` takes a Recording, yields Tracks."""

from collections.abc import Callable

from earmark.features.encoder import Encoder
from earmark.features.encoder_spec import make_encoder, split_name
from earmark.models import PRETRAINED
from earmark.models.registry import Registry

_PRETRAINED = "earmark.features.pretrained.pretrained_encoder:PretrainedEncoder"

ENCODERS: Registry[Callable[..., Encoder]] = Registry(
    "earmark.encoders",
    {
        "energy": "earmark.features.energy:Energy",
        "flux": "earmark.features.log_mel:Flux",
        "variance": "earmark.features.energy:EnergyVariance",
        "log-mel": "earmark.features.log_mel:LogMel",
        "floor-mel": "earmark.features.floor_mel:FloorMel",
        "packets": "earmark.features.packet_motion:Packets",
        "yamnet": "earmark.features.yamnet:YAMNet",
        "frame-difference": "earmark.features.motion:FrameDifference",
        "flow": "earmark.features.motion:OpticalFlow",
        "flow-compensated": "earmark.features.motion:CompensatedFlow",
        **{name: f"{_PRETRAINED}:{name}" for name in PRETRAINED},
        "dasm": "earmark.features.pretrained.query_encoder:QueryEncoder",
    },
    kind="encoder",
)
"""Every encoder by its name on the command line; weights are located on first use.

An encoder of another package is a frozen dataclass that fulfils the contract of `Encoder`: its
fields are its options. If its features are not a score, it has a field `reads`, which may be
`activity`.
"""


def encoder_named(text: str) -> Encoder:
    """The encoder for a gate's features, from a name with options after colons."""
    return make_encoder(ENCODERS.named(split_name(text)[0]), text)
