"""Published models as encoders: a checkpoint run by PyTorch, or an export run by ONNX Runtime.

`earmark models add beats BEATs_strong_1.pt` copies a checkpoint into the model store; the exported
model beside it, `BEATs_strong_1.onnx`, is used without a checkpoint or without PyTorch. A file
elsewhere is given by its path: `beats:weights=/data/BEATs_strong_1.pt`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from earmark.errors import EarmarkError
from earmark.features.pretrained.chunk_encoder import ChunkEncoder
from earmark.features.pretrained.network import Network, NetworkOptions, WeightsFile
from earmark.features.pretrained.vocabulary import class_names
from earmark.models import MODELS, ModelStore, find_checkpoint, require
from earmark.models.catalogue import Architecture, Layout

Reads = Literal["logits", "activity", "embeddings"]

NOT_IN_REPR = ("weights", "store", "batch", "threads", "expects", "hop")
"""Options that do not change the features, and the hop, which is part of the layout."""


@dataclass(frozen=True, slots=True, repr=False)
class PretrainedEncoder(ChunkEncoder):
    """A published model; every option is a plain value, so that a gate's card can store it.

    Its `repr`, the key of cached features, contains the hash of the weights.
    """

    name: str
    """Of a row of the catalogue that has an architecture."""
    reads: Reads = "logits"
    """The features: see `ChunkEncoder`."""
    drop_layers: int = 0
    """Number of the transformer's last layers to leave out; embeddings only. Two fewer transferred
    better in the authors' own tables, for BEATs and for ATST-Frame."""
    hop: float | None = None
    """Seconds from one chunk to the next; None for the model's own."""
    threshold: float = 0.0
    """Posteriors below this count as 0; activity only."""
    excluded: tuple[str, ...] | None = None
    """Names of classes that are not activity; None for the documented list."""
    weights: str | None = None
    """The checkpoint, or the folder that holds it; None takes it from the model store."""
    store: str | None = None
    """The folder of the model store; None for the user's own."""
    device: str = "cpu"
    """PyTorch's device, such as `cuda`."""
    half: bool | None = None
    """Whether the network runs in half precision, except spectra and posteriors; None for half on
    an accelerator and full on a CPU."""
    batch: int = 4
    """Chunks at a time; more use more memory and have less overhead."""
    threads: int | None = None
    """CPU threads; None for the library's default."""
    expects: str | None = None
    """SHA-256 of the checkpoint a gate was trained on; None accepts any."""

    def __post_init__(self) -> None:
        self._check(self.name, reads=get_args(Reads))
        if self.drop_layers and self.reads != "embeddings":
            raise ValueError(f"{self.name} without its last layers has embeddings and nothing else")
        if self.batch < 1 or (self.threads is not None and self.threads < 1):
            raise ValueError(
                f"a model hears at least one chunk at a time on one thread, not {self.batch} on "
                f"{self.threads}"
            )
        if self.excluded is not None:  # a gate's card stores it as a list
            object.__setattr__(self, "excluded", tuple(self.excluded))

    def __repr__(self) -> str:
        named = [each.name for each in fields(self) if each.name not in NOT_IN_REPR]
        options = ", ".join(f"{name}={getattr(self, name)!r}" for name in named)
        try:
            held = WeightsFile.of(self._file()).digest
        except EarmarkError:
            held = "absent"
        return f"{type(self).__name__}({options}, layout={self.layout}, weights={held})"

    @property
    def architecture(self) -> Architecture:
        """The model's architecture in the catalogue."""
        return MODELS.named(self.name).network

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model was trained at."""
        return self.architecture.sample_rate

    @property
    def layout(self) -> Layout:
        """The layout of its chunks on the clock."""
        own = self.architecture.layout
        return own if self.hop is None else own.with_hop(self.hop)

    @property
    def channels(self) -> int:
        """Values in each row of features."""
        if self.reads == "embeddings":
            return self.architecture.width
        return 1 if self.reads == "activity" else len(self.classes)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""
        return class_names(MODELS.named(self.name).vocabulary)

    @property
    def is_half(self) -> bool:
        """Whether the network runs in half precision."""
        on_cpu = self.device.partition(":")[0] == "cpu"
        return not on_cpu if self.half is None else self.half

    def network(self) -> Network:
        """The network, in PyTorch or ONNX Runtime; loaded and checked once per process."""
        return _open(
            NetworkOptions(
                self.name,
                has_head=self.reads != "embeddings",
                drop_layers=self.drop_layers,
                device=self.device,
                is_half=self.is_half,
                threads=self.threads,
            ),
            WeightsFile.of(self._file()),
        )

    def _file(self) -> Path:
        if self.weights is not None:
            return find_checkpoint(self.name, Path(self.weights).expanduser())
        return ModelStore.at(self.store).find(self.name)


@lru_cache(maxsize=1)
def _open(options: NetworkOptions, weights: WeightsFile) -> Network:
    if weights.file.suffix == ".onnx":
        from earmark.features.pretrained.network import OnnxNetwork

        return OnnxNetwork.open(options, weights)
    require("torch", what=f"the {options.name} encoder")
    from earmark.features.pretrained.checkpoint import TorchNetwork

    return TorchNetwork.open(options, weights)
