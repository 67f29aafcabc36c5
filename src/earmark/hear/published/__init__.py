"""Published audio models as encoders; their weights are the user's to bring.

Nothing here imports PyTorch until a checkpoint is opened.
"""

from earmark.hear.published.catalogue import PUBLISHED, Published, published
from earmark.hear.published.dasm import QueryEncoder, QueryModel, open_queries
from earmark.hear.published.dasm_on_shelf import DasmOnShelf
from earmark.hear.published.encoder import ChunkEncoder, Listening
from earmark.hear.published.listening import PublishedEncoder, open_encoder
from earmark.hear.published.on_shelf import DETECTORS_ON_SHELF, ON_SHELF, OnShelf
from earmark.hear.published.reading import Activity, Embeddings, Logits, Reading
from earmark.hear.published.segments import Segment, segments
from earmark.hear.published.vocabulary import class_names, not_manipulation, read_names

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
