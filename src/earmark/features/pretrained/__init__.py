"""Published audio models as encoders; their weights are the user's to bring.

Nothing here imports PyTorch until a checkpoint is opened.
"""

from earmark.features.pretrained.catalogue import PUBLISHED, Published, published
from earmark.features.pretrained.chunk_encoder import ChunkEncoder, Listening
from earmark.features.pretrained.dasm import QueryEncoder, QueryModel, open_queries
from earmark.features.pretrained.pretrained_encoder import PublishedEncoder, open_encoder
from earmark.features.pretrained.readout import Activity, Embeddings, Logits, Reading
from earmark.features.pretrained.segments import Segment, segments
from earmark.features.pretrained.stored_dasm import DasmOnShelf
from earmark.features.pretrained.stored_encoder import DETECTORS_ON_SHELF, ON_SHELF, OnShelf
from earmark.features.pretrained.vocabulary import class_names, not_manipulation, read_names

__all__ = [
    "DETECTORS_ON_SHELF",
    "ON_SHELF",
    "PUBLISHED",
    "Activity",
    "ChunkEncoder",
    "DasmOnShelf",
    "Embeddings",
    "Listening",
    "Logits",
    "OnShelf",
    "Published",
    "PublishedEncoder",
    "QueryEncoder",
    "QueryModel",
    "Reading",
    "Segment",
    "class_names",
    "not_manipulation",
    "open_encoder",
    "open_queries",
    "published",
    "read_names",
    "segments",
]
