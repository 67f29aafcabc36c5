"""Published models by name alone: weights from the user's shelf, looked for on first use.

`earmark models add beats BEATs_strong_1.pt` puts a checkpoint on the shelf; an exported model
beside it, `BEATs_strong_1.onnx`, is taken where there is no checkpoint or no PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal

from earmark.hear.encoder import Encoder, SoundEncoder
from earmark.hear.published.catalogue import published
from earmark.hear.published.encoder import ChunkEncoder
from earmark.hear.published.listening import open_encoder
from earmark.hear.published.reading import Activity, Embeddings, Logits, Reading
from earmark.media import Sound
from earmark.timeline import Track

Reads = Literal["logits", "activity", "embeddings"]


@dataclass(frozen=True, slots=True)
class OnShelf(SoundEncoder):
    """A published model; every option is a plain value, so that a gate's card can hold it."""

    name: ClassVar[str]
    """Of `PUBLISHED`."""

    reads: Reads = "logits"
    """What is made of it: see `Logits`, `Activity` and `Embeddings`."""
    drop_layers: int = 0
    """Leave out so many of a transformer's last layers; embeddings only."""
    hop: float | None = None
    """Seconds from one chunk to the next; None for the model's own."""

    def __post_init__(self) -> None:
        if self.reads not in ("logits", "activity", "embeddings"):
            raise ValueError(
                f"{self.name} reads logits, activity or embeddings, not {self.reads!r}"
            )
        if self.drop_layers and self.reads != "embeddings":
            raise ValueError(f"{self.name} without its last layers has embeddings and nothing else")

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model was trained at."""
        return published(self.name).sample_rate

    @property
    def channels(self) -> int:
        """Values in each row of features."""
        known, reading = published(self.name), self.reading()
        width = len(known.classes) if reading.output == "posteriors" else known.width
        return reading.channels(width)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the logits."""
        return published(self.name).classes

    def reading(self) -> Reading:
        """What is made of the model's rows."""
        if self.reads == "embeddings":
            return Embeddings(self.drop_layers)
        return Activity() if self.reads == "activity" else Logits()

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The features of `sound`, whose blocks follow each other from time 0.

        Raises:
            ModelMissing: The weights are not on the shelf.
            ModelMismatch: The file there is not this model's.
            MissingExtra: PyTorch is not installed, and no exported model lies there.
        """
        return _opened(self, find_weights(self.name)).encode(sound)


@dataclass(frozen=True, slots=True)
class BeatsOnShelf(OnShelf):
    """BEATs with its AudioSet-Strong head: the paper's encoder."""

    name: ClassVar[str] = "beats"


@dataclass(frozen=True, slots=True)
class AtstFrameOnShelf(OnShelf):
    """ATST-Frame with its AudioSet-Strong head."""

    name: ClassVar[str] = "atst-frame"


@dataclass(frozen=True, slots=True)
class FrequencyPasstOnShelf(OnShelf):
    """fPaSST with its AudioSet-Strong head."""

    name: ClassVar[str] = "fpasst"


@dataclass(frozen=True, slots=True)
class FrameMobileNet06OnShelf(OnShelf):
    """frame_mn06 with its AudioSet-Strong head: the lightest."""

    name: ClassVar[str] = "frame-mn06"


@dataclass(frozen=True, slots=True)
class FrameMobileNet10OnShelf(OnShelf):
    """frame_mn10 with its AudioSet-Strong head: light."""

    name: ClassVar[str] = "frame-mn10"


@dataclass(frozen=True, slots=True)
class PannsOnShelf(OnShelf):
    """PANNs Cnn14_DecisionLevelMax, 527 AudioSet classes."""

    name: ClassVar[str] = "panns"


@dataclass(frozen=True, slots=True)
class SlowFastOnShelf(OnShelf):
    """Auditory SlowFast with the 44 classes of EPIC-SOUNDS."""

    name: ClassVar[str] = "slowfast"


_KINDS: tuple[type[OnShelf], ...] = (
    BeatsOnShelf,
    AtstFrameOnShelf,
    FrequencyPasstOnShelf,
    FrameMobileNet06OnShelf,
    FrameMobileNet10OnShelf,
    PannsOnShelf,
    SlowFastOnShelf,
)

ON_SHELF: dict[str, type[OnShelf]] = {kind.name: kind for kind in _KINDS}
"""Encoders by name: posteriors in logit space, for a gate."""

DETECTORS_ON_SHELF: dict[str, Callable[[], Encoder]] = {
    kind.name: partial(kind, reads="activity") for kind in _KINDS
}
"""Detectors by name: one score a moment, without a gate."""


def find_weights(name: str) -> Path:
    """The checkpoint of `name` on the user's shelf, or the exported model beside it.

    Raises:
        ModelMissing: Neither is there; says how to get it.
    """
    from earmark.models import Shelf

    shelf = Shelf()
    exported = shelf.path(name).with_suffix(".onnx")
    has_checkpoint = shelf.state(name) == "here" and find_spec("torch") is not None
    return exported if exported.is_file() and not has_checkpoint else shelf.find(name)


@lru_cache(maxsize=1)
def _opened(wanted: OnShelf, weights: Path) -> ChunkEncoder:
    return open_encoder(wanted.name, weights, reading=wanted.reading(), hop=wanted.hop)
