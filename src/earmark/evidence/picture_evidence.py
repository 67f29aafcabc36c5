"""Objects and text that small models find in the frames of a window."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from earmark.errors import ModelMissing
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.media import Frame
from earmark.models import ModelStore
from earmark.models.catalogue import PPOCR
from earmark.timeline import Span

DETECTOR = "efficientdet-lite0"

REQUIREMENTS = {
    "heard": ("ai_edge_litert", ("yamnet",)),
    "read": ("cv2", PPOCR),
    "seen": ("ai_edge_litert", (DETECTOR,)),
}
"""The library and the models of each kind of evidence."""

MIN_CONFIDENCE = 0.5
"""Least confidence of an object to be reported."""


PictureReader = Callable[[Sequence[Frame], Span], list[EvidenceEntry]]
"""Finds evidence about a span in its frames; called from several threads, and pickled."""

_SLOTS = threading.BoundedSemaphore(os.cpu_count() or 1)
"""Limits the windows processed at once to one per core, since each takes some 100 MB."""


@dataclass(frozen=True, slots=True)
class PictureEvidence:
    """All that the available models find in the frames of a window."""

    readers: tuple[PictureReader, ...]

    def __call__(self, frames: Sequence[Frame], span: Span) -> tuple[EvidenceEntry, ...]:
        """The evidence about `span` found in any of `frames`."""
        with _SLOTS:
            return tuple(entry for reader in self.readers for entry in reader(frames, span))


def available_kinds(store: ModelStore) -> list[str]:
    """Kinds of evidence for which models in `store` and libraries are there; `said` is opt-in."""
    return [
        kind
        for kind, (library, names) in REQUIREMENTS.items()
        if find_spec(library) and all(store.state(name) == "here" for name in names)
    ]


def picture_evidence(
    wanted: bool | None = None, store: ModelStore | None = None
) -> PictureEvidence | None:
    """The readers whose models are in `store`; None if not wanted or none is there.

    Args:
        wanted: None means only if there is a model, and a library for it.
        store: Where models are looked for; the user's own store if not given.

    Raises:
        ModelMissing: it is wanted, and no model for it is here.
    """
    store = store or ModelStore()
    readers: list[PictureReader] = []
    if wanted is False:
        return None
    available = available_kinds(store)
    if "read" in available:
        from earmark.evidence.text_reader import TextReader

        readers.append(TextReader(store=store))
    if "seen" in available:
        from earmark.evidence.object_detector import ObjectTagger

        readers.append(ObjectTagger(least=MIN_CONFIDENCE, weights=store.find(DETECTOR)).read)
    if wanted and not readers:
        raise ModelMissing(
            "nothing here reads text or names objects in frames: pip install "
            "'earmark[vision]' and run `earmark models get evidence`"
        )
    return PictureEvidence(tuple(readers)) if readers else None
