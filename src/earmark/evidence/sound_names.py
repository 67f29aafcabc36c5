"""Names the sounds in windows; cached, so that a recording is decoded for them once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import EarmarkError
from earmark.evidence.picture_evidence import available_kinds
from earmark.media import Recording
from earmark.media.atomic_file import write_whole
from earmark.media.content_file import content_file
from earmark.models import ModelStore
from earmark.timeline import Span

if TYPE_CHECKING:
    from earmark.evidence.sound_listener import SoundListener
    from earmark.features.sound_tags import SoundTagger
    from earmark.features.yamnet import YAMNet

NAMES = "names"
"""Folder of the names in the cache."""

TAGGING_MODELS = ("beats", "atst-frame", "fpasst", "frame-mn10", "frame-mn06", "panns")
"""AudioSet networks that name sounds, in order of preference; the paper's first."""

SoundNames = dict[Span, tuple[str, ...]]
"""The names of the sounds in each span, likeliest first."""


@dataclass(frozen=True, slots=True)
class SoundNamer:
    """Names the sounds in spans of a recording, by the classes of its encoder.

    The names of a span do not depend on the other spans asked for.
    """

    encoder: SoundTagger
    folder: Path | None = None
    """Folder of the cache; None listens every time."""
    track_encoder: YAMNet | None = None
    """Tracks sounds over a whole recording where `encoder` can only name them."""

    @property
    def model(self) -> str:
        """Name of the encoder, as saved in a plan."""
        return getattr(self.encoder, "name", "yamnet")

    def __call__(self, recording: Recording, spans: Sequence[Span]) -> SoundNames:
        """The names of each of `spans`, likeliest first; empty where nothing is recognised."""
        known = self.cached(recording) if spans else {}
        missing = [span for span in spans if span not in known]
        if missing:
            known |= zip(missing, self._name(recording, missing), strict=True)
            self.keep(recording, known)
        return {span: known[span] for span in spans}

    @property
    def listener(self) -> SoundListener | None:
        """Tracks sounds over a whole recording; None if no encoder can."""
        from earmark.evidence.sound_listener import SoundListener
        from earmark.features.yamnet import YAMNet

        encoder = self.encoder if isinstance(self.encoder, YAMNet) else self.track_encoder
        return SoundListener(encoder, self.folder) if encoder else None

    def _name(self, recording: Recording, spans: Sequence[Span]) -> Sequence[tuple[str, ...]]:
        listener = self.listener
        if listener and listener.encoder is self.encoder and (track := listener.find(recording)):
            return [track.names_in(span) for span in spans]
        return self.encoder.tags(recording, spans)

    def cached(self, recording: Recording) -> SoundNames:
        """The cached names of a recording; empty if there are none, or the file is damaged."""
        path = self._path(recording)
        try:
            rows = json.loads(path.read_text(encoding="utf-8")) if path else []
            return {Span(start, end): tuple(names) for start, end, names in rows}
        except (FileNotFoundError, ValueError, TypeError):  # not there, or damaged
            return {}

    def keep(self, recording: Recording, names: SoundNames) -> None:
        """Add `names` to the cache."""
        path = self._path(recording)
        if path is None:
            return
        known = sorted((self.cached(recording) | names).items())
        rows = [(span.start, span.end, words) for span, words in known]
        write_whole(path, json.dumps(rows))

    def _path(self, recording: Recording) -> Path | None:
        if self.folder is None:
            return None
        parts = f"{recording.key} {recording.audio_track} {self.encoder!r}"
        return content_file(self.folder / NAMES, recording.key, parts, ".json")


@dataclass(frozen=True, slots=True)
class NamingItem:
    """The spans of one recording to name, as sent to a worker."""

    place: int
    """Index among the recordings named together."""
    recording: Recording
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return self.recording.name


def _name_item(item: NamingItem, *, namer: SoundNamer) -> SoundNames:
    """The names of one recording, computed by a worker."""
    return namer(item.recording, item.spans)


ParallelMap = Callable[
    [Callable[[NamingItem], SoundNames], Sequence[NamingItem]], Iterable[tuple[NamingItem, Any]]
]
"""Does the work for each item, possibly in parallel; yields its names or an `EarmarkError`."""


def name_sounds(
    namer: SoundNamer | None,
    wanted: Iterable[tuple[Recording, Sequence[Span]]],
    spread: ParallelMap,
) -> list[tuple[SoundNames, str]]:
    """The names of the sounds in spans of several recordings, in order; cached ones are reused.

    There are no names without a namer, for a recording without sound, and where naming fails; in
    the last case the reason comes with them in one line.
    """
    if namer is None:
        return [({}, "") for _ in wanted]
    items = [
        NamingItem(place, recording, tuple(spans) if recording.has_audio else ())
        for place, (recording, spans) in enumerate(wanted)
    ]
    named = [namer.cached(item.recording) if item.spans else {} for item in items]
    missing = [item for item in items if not named[item.place].keys() >= set(item.spans)]
    reasons = [""] * len(items)
    for item, names in spread(partial(_name_item, namer=namer), missing):
        if isinstance(names, EarmarkError):
            named[item.place], reasons[item.place] = {}, f"its sounds have no names: {names}"
            continue
        named[item.place] = names
        namer.keep(item.recording, names)
    return list(zip(named, reasons, strict=True))


def sound_namer(
    wanted: bool | None, folder: Path | None, *, store: ModelStore | None = None
) -> SoundNamer | None:
    """The first of `TAGGING_MODELS` whose weights are here, else YAMNet; None if not wanted.

    Args:
        wanted: None means only if one of them and its library are on this machine.
        folder: Where names are cached; None listens every time.
        store: Where weights are looked for; the user's own store if not given.

    Raises:
        ModelMissing: it is wanted, and none is here.
    """
    store = store or ModelStore()
    if wanted is False:
        return None
    has_yamnet = "heard" in available_kinds(store)
    has_torch = find_spec("torch") is not None
    usable = (
        name
        for name in TAGGING_MODELS
        if store.path(name).with_suffix(".onnx").is_file()  # exported: PyTorch is not needed
        or (has_torch and store.state(name) == "here")
    )
    tagger = next(usable, None)
    if wanted is None and not has_yamnet and tagger is None:
        return None
    from earmark.evidence.sound_track import CELL
    from earmark.features.yamnet import YAMNet

    if tagger is None:
        return SoundNamer(YAMNet(cell=CELL, weights=store.find("yamnet")), folder)
    from earmark.features.pretrained.pretrained_encoder import PretrainedEncoder

    yamnet = YAMNet(cell=CELL, weights=store.find("yamnet")) if has_yamnet else None
    return SoundNamer(
        PretrainedEncoder(tagger, store=str(store.folder)), folder, track_encoder=yamnet
    )
