from earmark.models.catalogue import EXTRAS, MODELS, PRETRAINED, SETS, Model, find_model, require
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
    "find_model",
    "require",
]
