"""Published audio models as encoders; their weights are the user's to bring.

Nothing here imports PyTorch until a checkpoint is opened.
"""

from earmark.features.pretrained.chunk_encoder import ChunkEncoder
from earmark.features.pretrained.pretrained_encoder import PretrainedEncoder
from earmark.features.pretrained.query_encoder import QueryEncoder, QueryModel
from earmark.features.pretrained.segments import Segment, segments
from earmark.features.pretrained.vocabulary import class_names, not_manipulation, read_names

__all__ = [
    "ChunkEncoder",
    "PretrainedEncoder",
    "QueryEncoder",
    "QueryModel",
    "Segment",
    "class_names",
    "not_manipulation",
    "read_names",
    "segments",
]
