"""DASM by name: the user's model and queries from the shelf, or from where the user says.

earmark models add dasm model.onnx             the model
earmark models add dasm-queries kitchen.txt    what to listen for, one a line
earmark models add dasm-embeddings kitchen.npy      where the model asks for them
dasm:weights=model.onnx:queries=kitchen.txt    or all of it by path
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal, get_args

from earmark.errors import EarmarkError, ModelMismatch
from earmark.features.encoder import SoundEncoder
from earmark.features.pretrained.chunk_encoder import Weights
from earmark.features.pretrained.dasm import QueryEncoder, open_queries
from earmark.features.pretrained.readout import Activity, Logits, Reading
from earmark.features.pretrained.vocabulary import read_names
from earmark.media import Sound
from earmark.timeline import Track

Reads = Literal["logits", "activity"]


@dataclass(frozen=True, slots=True, repr=False)
class DasmOnShelf(SoundEncoder):
    """DASM: an open-vocabulary model of the user's, asked for the sounds in a text file.

    Its `repr`, under which what was heard is kept, names the files by what is in them.
    """

    name: ClassVar[str] = "dasm"

    reads: Reads = "logits"
    """What is made of it: see `Logits` and `Activity`."""
    threshold: float = 0.0
    """Posteriors below this count as 0; activity only."""
    weights: str | None = None
    """The ONNX file, see `open_queries`; None takes `dasm.onnx` from the user's shelf."""
    queries: str | None = None
    """The text file; None takes `dasm.txt` from the user's shelf."""
    expects: str | None = None
    """SHA-256 of the model and queries a gate was trained on; None takes any."""

    def __post_init__(self) -> None:
        if self.reads not in get_args(Reads):
            raise ValueError(f"dasm reads {' or '.join(get_args(Reads))}, not {self.reads!r}")
        if self.threshold and self.reads != "activity":
            raise ValueError("dasm has a threshold for its activity and for nothing else")
        self.reading()

    def __repr__(self) -> str:
        try:
            held = repr(self._opened())
        except EarmarkError:
            held = f"reads={self.reads!r}, threshold={self.threshold!r}, absent"
        return f"{type(self).__name__}({held})"

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model hears."""
        return self._opened().sample_rate

    @property
    def channels(self) -> int:
        """One a query, or one in all."""
        return self.reading().channels(len(self.classes))

    @property
    def classes(self) -> tuple[str, ...]:
        """The queries, in the order of the file."""
        return read_names(self._files()[1])

    def reading(self) -> Reading:
        """What is made of the model's posteriors; every query is one that hands may cause."""
        return Activity(self.threshold, excluded=()) if self.reads == "activity" else Logits()

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The features of `sound`, whose blocks follow each other from time 0.

        Raises:
            ModelMissing: The model or the list is not on the shelf.
            ModelMismatch: A file is not what it should be.
        """
        opened = self._opened()
        if self.expects not in (None, opened.source):
            raise ModelMismatch(
                "this gate was trained on another dasm, or on other queries; name both with "
                "`:weights=FILE:queries=FILE`"
            )
        return opened.encode(sound)

    def fingerprint(self) -> str:
        """SHA-256 of the model and its queries, for a gate to expect."""
        return self._opened().source

    def _files(self) -> tuple[Path, Path]:
        from earmark.models import ModelStore

        model, queries = self.weights, self.queries
        return (
            ModelStore().find("dasm") if model is None else Path(model).expanduser(),
            ModelStore().find("dasm-queries") if queries is None else Path(queries).expanduser(),
        )

    def _opened(self) -> QueryEncoder:
        files = self._files()
        beside = (*files, files[1].with_suffix(".npy"))
        return _open(self, *files, tuple(Weights.of(file) for file in beside if file.is_file()))


@lru_cache(maxsize=1)
def _open(
    wanted: DasmOnShelf,
    model: Path,
    queries: Path,
    held: tuple[Weights, ...],  # noqa: ARG001 - the key's: a file that changed is opened anew
) -> QueryEncoder:
    return open_queries(model, queries, reading=wanted.reading())
