"""Checkpoints: which there are, where they come from, and the shelf they are kept on."""

from earmark.models.catalogue import CATALOGUE, Checkpoint, checkpoint_named
from earmark.models.shelf import Got, Shelf
from earmark.models.sources import Address, Npm, Origin, Wheel

__all__ = [
    "CATALOGUE",
    "Address",
    "Checkpoint",
    "Got",
    "Npm",
    "Origin",
    "Shelf",
    "Wheel",
    "checkpoint_named",
]
