"""Encoders whose network hears overlapping chunks, brought onto the 25 Hz clock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from earmark.errors import ModelMismatch
from earmark.features.encoder import SoundEncoder, as_track
from earmark.features.pretrained.chunks import hear_in_chunks
from earmark.features.pretrained.network import Network
from earmark.features.pretrained.readout import check_threshold, logit, strongest
from earmark.features.sound_tags import LEAST, MOST, name_likeliest
from earmark.media import Meter, Recording, Sound
from earmark.models.architecture import TEN_SECONDS, Layout
from earmark.timeline import FloatArray, Span, Track


class ChunkEncoder(SoundEncoder):
    """An encoder over a network that hears chunks; the same rows however many at once.

    What is made of the network's rows is said by `reads`:

    - `logits`: the posteriors in logit space, which is what the paper's gate reads. Nothing is
      thresholded. Most classes are nearly always absent, so that the values lie around -10; a gate
      brings them to 0 by what it measured on its own training recordings.
    - `activity`: a detector without a gate, the greatest posterior of any class that counts.
    - `embeddings`: what the head would have read, for a gate that learns its own.
    """

    __slots__ = ()

    name: str
    """In the catalogue."""
    reads: str
    threshold: float
    expects: str | None
    excluded: tuple[str, ...] | None = None
    """Names of the classes that are no activity; None for the documented list."""
    batch: int = 4

    @property
    def layout(self) -> Layout:
        """How its chunks lie on the clock."""
        return TEN_SECONDS

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the posteriors."""

    @abstractmethod
    def network(self) -> Network:
        """What hears the chunks, opened once a process.

        `ModelMissing` without weights in the model store, `ModelMismatch` where the file there is
        not this model's, `MissingExtra` where it needs PyTorch and there is none.
        """

    @property
    def channels(self) -> int:
        """Values in each row of features."""
        return 1 if self.reads == "activity" else len(self.classes)

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The features of `sound`, whose blocks follow each other from time 0.

        `ModelMismatch` where the gate it belongs to was trained on other weights.
        """
        network = self.network()
        if self.expects not in (None, network.source):
            raise ModelMismatch(self._other_weights(network.source))
        heard = hear_in_chunks(
            sound, network, layout=self.layout, sample_rate=self.sample_rate, batch=self.batch
        )
        return (as_track(self._features(rows), first) for rows, first in heard)

    def fingerprint(self) -> str:
        """SHA-256 of the checkpoint, for a gate to expect; an exported one has its checkpoint's."""
        return self.network().source

    def tags(
        self,
        recording: Recording,
        spans: Sequence[Span],
        *,
        meter: Meter | None = None,
        most: int = MOST,
        least: float = LEAST,
    ) -> list[tuple[str, ...]]:
        """What is heard in each of `spans`, by the network's own classes: see `name_likeliest`.

        The recording is listened to once, however many there are.
        """
        listener = replace(self, reads="logits", threshold=0.0)  # type: ignore[type-var]
        heard = listener(recording, meter=meter if meter is not None else Meter())
        return name_likeliest(heard, spans, self.classes, most=most, least=least)

    def _features(self, rows: FloatArray) -> FloatArray:
        if self.reads == "activity":
            return strongest(rows, self.classes, threshold=self.threshold, excluded=self.excluded)
        return logit(rows) if self.reads == "logits" else rows

    def _check(self, *, reads: tuple[str, ...]) -> None:
        """`ValueError` unless the options go together."""
        if self.reads not in reads:
            words = f"{', '.join(reads[:-1])} or {reads[-1]}"
            raise ValueError(f"{self.name} reads {words}, not {self.reads!r}")
        if self.threshold and self.reads != "activity":
            raise ValueError(f"{self.name} has a threshold for its activity and for nothing else")
        check_threshold(self.threshold)

    def _other_weights(self, found: str) -> str:
        return (
            f"this gate was trained on another {self.name}: sha256 {(self.expects or '')[:12]}… "
            f"instead of {found[:12]}…; name its checkpoint with `:weights=FILE`"
        )
