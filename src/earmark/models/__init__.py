"""Checkpoints: which there are, where they come from, and the shelf they are kept on."""

from earmark.models.catalogue import CATALOGUE, Checkpoint, checkpoint_named
from earmark.models.download import Address, Npm, Origin, Wheel
from earmark.models.model_store import Got, ModelStore

__all__ = [
    "CATALOGUE",
    "Address",
    "Checkpoint",
    "Got",
    "ModelStore",
    "Npm",
    "Origin",
    "Wheel",
    "checkpoint_named",
]
