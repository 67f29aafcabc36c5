"""Names for what is heard in a window, remembered so that a recording is heard for them once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from earmark.errors import EarmarkError
from earmark.features.yamnet import YAMNet
from earmark.media import Recording
from earmark.media.atomic_file import replacing
from earmark.models import ModelStore
from earmark.timeline import Span

Named = dict[Span, tuple[str, ...]]
"""The names of the sounds in each span, likeliest first."""


class Namer(Protocol):
    """Says what is heard in spans of recordings; the same of each, however it is asked."""

    @property
    def model(self) -> str:
        """The name that goes into a plan."""
        ...

    def __call__(self, recording: Recording, spans: Sequence[Span]) -> Named:
        """The names of each of `spans`; nothing is listened to for none."""
        ...

    def recall(self, recording: Recording, spans: Sequence[Span]) -> Named | None:
        """The names of each of `spans` as far as they are remembered; None where one is not."""
        ...

    def learn(self, recording: Recording, names: Named) -> None:
        """Remember what another has named."""
        ...


@dataclass(frozen=True, slots=True)
class SoundNamer:
    """Says what is heard in spans of a recording, in the words of an encoder that knows sounds."""

    encoder: YAMNet
    folder: Path | None = None
    """Where to remember; None listens every time."""

    @property
    def model(self) -> str:
        """The name that goes into a plan."""
        return "yamnet"

    def __call__(self, recording: Recording, spans: Sequence[Span]) -> Named:
        """The names of each of `spans`, likeliest first; empty where nothing is recognised."""
        known = self._remembered(recording) if spans else {}
        missing = [span for span in spans if span not in known]
        if missing:
            known |= dict(zip(missing, self.encoder.tags(recording, missing), strict=True))
            self._remember(recording, known)
        return {span: known[span] for span in spans}

    def recall(self, recording: Recording, spans: Sequence[Span]) -> Named | None:
        """The names of each of `spans` as far as they are remembered; None where one is not."""
        known = self._remembered(recording) if spans else {}
        return {span: known[span] for span in spans} if known.keys() >= set(spans) else None

    def learn(self, recording: Recording, names: Named) -> None:
        """Remember what another has named."""
        if self.folder is not None:
            self._remember(recording, self._remembered(recording) | names)

    def _path(self, recording: Recording) -> Path | None:
        if self.folder is None:
            return None
        parts = f"{recording.key} {recording.audio_track} {self.encoder!r}"
        name = hashlib.sha256(parts.encode()).hexdigest()
        return self.folder / "names" / name[:2] / f"{name}.json"

    def _remembered(self, recording: Recording) -> Named:
        path = self._path(recording)
        try:
            rows = json.loads(path.read_text(encoding="utf-8")) if path else []
        except (FileNotFoundError, ValueError):  # not there, or damaged
            return {}
        return {Span(start, end): tuple(names) for start, end, names in rows}

    def _remember(self, recording: Recording, known: Named) -> None:
        path = self._path(recording)
        if path is None:
            return
        rows = [(span.start, span.end, names) for span, names in sorted(known.items())]
        with replacing(path) as scratch:
            scratch.write_text(json.dumps(rows), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class NamingItem:
    """The spans of one recording whose sounds want names, on their way to a worker."""

    place: int
    """Among those named together."""
    recording: Recording
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return self.recording.name


@dataclass(frozen=True, slots=True)
class NamingWork:
    """What a worker does with one recording; holds no state."""

    namer: Namer

    def __call__(self, item: NamingItem) -> Named:
        """The names of each span."""
        return self.namer(item.recording, item.spans)


Spread = Callable[[NamingWork, Sequence[NamingItem]], Iterable[tuple[NamingItem, Any]]]
"""Does the work for each item wherever there is room, and gives its names or an EarmarkError."""


def name_sounds(
    namer: Namer | None, wanted: Iterable[tuple[Recording, Sequence[Span]]], spread: Spread
) -> list[Named]:
    """The names of the sounds in spans of several recordings, in order; what is known is recalled.

    None are named where there is no namer, and in a recording without sound.
    """
    items = [
        NamingItem(place, recording, tuple(spans) if recording.has_audio else ())
        for place, (recording, spans) in enumerate(wanted)
    ]
    if namer is None:
        return [{} for _ in items]
    named = {item.place: namer.recall(item.recording, item.spans) for item in items}
    for item, names in spread(NamingWork(namer), [i for i in items if named[i.place] is None]):
        if isinstance(names, EarmarkError):
            raise names
        named[item.place] = names
        namer.learn(item.recording, names)
    return [names or {} for _, names in sorted(named.items())]


def sound_namer(
    wanted: bool | None, folder: Path | None, *, store: ModelStore | None = None
) -> SoundNamer | None:
    """What names sounds; None where that is not wanted.

    Args:
        wanted: None means only if YAMNet and its library are on this machine.
        folder: Where names are cached; None listens every time.
        store: Where YAMNet is looked for; the user's own store if not given.

    Raises:
        ModelMissing: it is wanted, and YAMNet is not here.
    """
    store = store or ModelStore()
    is_here = store.state("yamnet") == "here" and find_spec("ai_edge_litert") is not None
    if wanted is False or (wanted is None and not is_here):
        return None
    return SoundNamer(YAMNet(weights=store.find("yamnet")), folder)
