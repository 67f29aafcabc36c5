"""Published models by name alone: weights from the user's shelf, looked for on first use.

`earmark models add beats BEATs_strong_1.pt` puts a checkpoint on the shelf; an exported model
beside it, `BEATs_strong_1.onnx`, is taken where there is no checkpoint or no PyTorch. A file that
is elsewhere is named by its path: `beats:weights=/data/BEATs_strong_1.pt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal, get_args

from earmark.errors import EarmarkError, ModelMismatch
from earmark.features.encoder import Encoder, SoundEncoder
from earmark.features.pretrained.catalogue import find_checkpoint, published
from earmark.features.pretrained.chunk_encoder import ChunkEncoder, Listening, Weights
from earmark.features.pretrained.pretrained_encoder import open_encoder
from earmark.features.pretrained.readout import Activity, Embeddings, Logits, Reading
from earmark.media import Sound
from earmark.timeline import Track

Reads = Literal["logits", "activity", "embeddings"]


@dataclass(frozen=True, slots=True, repr=False)
class OnShelf(SoundEncoder):
    """A published model; every option is a plain value, so that a gate's card can hold it.

    Its `repr`, under which what was heard is kept, names the weights by what is in them.
    """

    name: ClassVar[str]
    """Of `PUBLISHED`."""

    reads: Reads = "logits"
    """What is made of it: see `Logits`, `Activity` and `Embeddings`."""
    drop_layers: int = 0
    """Leave out so many of a transformer's last layers; embeddings only."""
    hop: float | None = None
    """Seconds from one chunk to the next; None for the model's own."""
    threshold: float = 0.0
    """Posteriors below this count as 0; activity only."""
    weights: str | None = None
    """The checkpoint, or the folder that holds it; None takes it from the user's shelf."""
    device: str = "cpu"
    """Where PyTorch runs it; `cuda` and its like in half precision."""
    batch: int = 4
    """Chunks at a time."""
    threads: int | None = None
    """Of a CPU; None leaves it to the library."""
    expects: str | None = None
    """SHA-256 of the checkpoint a gate was trained on; None takes any."""

    def __post_init__(self) -> None:
        if self.reads not in get_args(Reads):
            raise ValueError(
                f"{self.name} reads logits, activity or embeddings, not {self.reads!r}"
            )
        if self.drop_layers and self.reads != "embeddings":
            raise ValueError(f"{self.name} without its last layers has embeddings and nothing else")
        if self.threshold and self.reads != "activity":
            raise ValueError(f"{self.name} has a threshold for its activity and for nothing else")
        self.reading()
        self.listening()

    def __repr__(self) -> str:
        unheard = ("weights", "batch", "threads", "expects")
        named = [each.name for each in fields(self) if each.name not in unheard]
        options = ", ".join(f"{name}={getattr(self, name)!r}" for name in named)
        try:
            held = Weights.of(find_weights(self.name, self.weights)).digest
        except EarmarkError:
            held = "absent"
        return f"{type(self).__name__}({options}, weights={held})"

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
        return Activity(self.threshold) if self.reads == "activity" else Logits()

    def listening(self) -> Listening:
        """How the model is run."""
        return Listening(self.batch, self.threads, self.device)

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The features of `sound`, whose blocks follow each other from time 0.

        Raises:
            ModelMissing: The weights are not on the shelf.
            ModelMismatch: The file there is not this model's.
            MissingExtra: PyTorch is not installed, and no exported model lies there.
        """
        opened = self._opened()
        if self.expects not in (None, opened.source):
            raise ModelMismatch(
                f"this gate was trained on another {self.name}: sha256 {self.expects[:12]}… "
                f"instead of {opened.source[:12]}…; name its checkpoint with `:weights=FILE`"
            )
        return opened.encode(sound)

    def fingerprint(self) -> str:
        """SHA-256 of the checkpoint, for a gate to expect; an exported one has its checkpoint's."""
        return self._opened().source

    def _opened(self) -> ChunkEncoder:
        return _open(self, Weights.of(find_weights(self.name, self.weights)))


@dataclass(frozen=True, slots=True, repr=False)
class BeatsOnShelf(OnShelf):
    """BEATs with its AudioSet-Strong head: the paper's encoder."""

    name: ClassVar[str] = "beats"


@dataclass(frozen=True, slots=True, repr=False)
class AtstFrameOnShelf(OnShelf):
    """ATST-Frame with its AudioSet-Strong head."""

    name: ClassVar[str] = "atst-frame"


@dataclass(frozen=True, slots=True, repr=False)
class FrequencyPasstOnShelf(OnShelf):
    """fPaSST with its AudioSet-Strong head."""

    name: ClassVar[str] = "fpasst"


@dataclass(frozen=True, slots=True, repr=False)
class FrameMobileNet06OnShelf(OnShelf):
    """frame_mn06 with its AudioSet-Strong head: the lightest."""

    name: ClassVar[str] = "frame-mn06"


@dataclass(frozen=True, slots=True, repr=False)
class FrameMobileNet10OnShelf(OnShelf):
    """frame_mn10 with its AudioSet-Strong head: light."""

    name: ClassVar[str] = "frame-mn10"


@dataclass(frozen=True, slots=True, repr=False)
class PannsOnShelf(OnShelf):
    """PANNs Cnn14_DecisionLevelMax, 527 AudioSet classes."""

    name: ClassVar[str] = "panns"


@dataclass(frozen=True, slots=True, repr=False)
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

DETECTORS_ON_SHELF: dict[str, Callable[..., Encoder]] = {
    kind.name: partial(kind, reads="activity") for kind in _KINDS
}
"""Detectors by name: one score a moment, without a gate."""


def find_weights(name: str, place: str | None = None) -> Path:
    """The checkpoint of `name` at `place`, or on the user's shelf, or the exported model beside it.

    Raises:
        ModelMismatch: There is none at `place`.
        ModelMissing: Neither is on the shelf; says how to get it.
    """
    from earmark.models import ModelStore

    if place is not None:
        return find_checkpoint(name, Path(place).expanduser())
    shelf = ModelStore()
    exported = shelf.path(name).with_suffix(".onnx")
    has_checkpoint = shelf.state(name) == "here" and find_spec("torch") is not None
    return exported if exported.is_file() and not has_checkpoint else shelf.find(name)


@lru_cache(maxsize=1)
def _open(wanted: OnShelf, weights: Weights) -> ChunkEncoder:
    return open_encoder(
        wanted.name,
        weights.file,
        reading=wanted.reading(),
        hop=wanted.hop,
        listening=wanted.listening(),
    )
