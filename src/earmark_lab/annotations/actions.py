"""Annotated actions of recordings, independent of the file format."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

from earmark.errors import AnnotationError
from earmark.media import Source, find
from earmark.media.source import name_of
from earmark.text_format import counted
from earmark.timeline import Span

END_TOLERANCE = 1.0
"""Seconds past the end before it is an error; EPIC-SOUNDS has 0.3 s."""


@dataclass(frozen=True, slots=True, order=True)
class Action(Span):
    label: str = ""


@dataclass(frozen=True, slots=True)
class AnnotationRow:
    recording: str
    start: float
    end: float
    label: str
    place: str
    key: str = ""
    """Unique in its file; empty if the format has none."""


@dataclass(frozen=True, slots=True)
class AnnotationFile:
    rows: tuple[AnnotationRow, ...]
    durations: Mapping[str, float] = field(default_factory=dict)
    recordings: tuple[str, ...] = ()
    unreadable: int = 0
    """Rows left out, in formats that allow unreadable times (EgoSound, ELAN)."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Annotations:
    recordings: dict[str, list[Action]]
    """Also those without actions; actions are in order and may overlap."""
    durations: dict[str, float]
    guessed: frozenset[str] = frozenset()
    """Without a length; taken to end with their last event."""
    excluded: dict[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def actions(self) -> int:
        return sum(len(actions) for actions in self.recordings.values())

    @property
    def hours(self) -> float:
        return sum(self.durations[name] for name in self.recordings) / 3600

    @property
    def lengths(self) -> list[float]:
        return [action.duration for actions in self.recordings.values() for action in actions]

    @property
    def overlapping(self) -> int:
        """Actions that start before an earlier one has ended."""
        return sum(
            action.start < latest
            for actions in self.recordings.values()
            for action, latest in zip(actions[1:], accumulate((a.end for a in actions), max))  # noqa: B905
        )

    @property
    def duplicates(self) -> int:
        return sum(len(actions) - len(set(actions)) for actions in self.recordings.values())

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name in sorted(self.recordings):
            digest.update(f"{name} {self.durations[name]!r}\n".encode())
            for action in self.recordings[name]:
                digest.update(f"{action.start!r} {action.end!r} {action.label}\n".encode())
        return digest.hexdigest()[:16]

    def only(self, names: Iterable[str]) -> Annotations:
        """In that order; `AnnotationError` for an unknown name."""
        chosen = list(dict.fromkeys(names))
        unknown = [name for name in chosen if name not in self.recordings]
        if unknown:
            context = f"the annotations, which know {list_few(self.recordings)}"
            raise AnnotationError(f"{list_few(unknown)} not in {context}")
        return replace(
            self,
            recordings={name: self.recordings[name] for name in chosen},
            durations={name: self.durations[name] for name in chosen},
            guessed=self.guessed.intersection(chosen),
        )

    def without(self, names: Collection[str]) -> Annotations:
        return self.only(name for name in self.recordings if name not in names)

    def notes(self) -> list[str]:
        lines = [f"{counted(n, 'row')} left out: {why}" for why, n in self.excluded.items()]
        lines += self.remarks
        silent = [name for name, marked in self.recordings.items() if not marked]
        for count, thing, remark in (
            (
                len(self.guessed),
                "recording",
                "without a given length, taken to end with the last event",
            ),
            (self.overlapping, "action", "overlapping an earlier one; each counts"),
            (self.duplicates, "row", "saying the same as another; each counts"),
            (len(silent), "recording", f"without action, so without coverage: {list_few(silent)}"),
        ):
            lines += [f"{counted(count, thing)} {remark}"] if count else []
        return lines


def list_few(names: Iterable[str], *, most: int = 3) -> str:
    everything = list(names)
    text = ", ".join(everything[:most])
    return text + (f" and {len(everything) - most} more" if len(everything) > most else "")


def combine_files(
    files: Sequence[AnnotationFile], *, durations: Mapping[str, float] | None = None
) -> Annotations:
    """`durations` override the lengths in the files.

    Actions that extend at most `END_TOLERANCE` past the end are cut there; rows of zero length are
    left out and counted.
    """
    last: dict[str, float] = {}
    stated: dict[str, float] = {}
    for file in files:
        stated |= file.durations
        for name in file.recordings:
            last.setdefault(name, 0.0)
        for entry in file.rows:
            last[entry.recording] = max(last.get(entry.recording, 0.0), entry.end)
    stated |= durations or {}
    lengths = last | {name: stated[name] for name in last if name in stated}
    by_recording: dict[str, list[Action]] = {name: [] for name in lengths}
    excluded: Counter[str] = Counter()
    for file in files:
        if file.unreadable:
            excluded["the timestamp cannot be read"] += file.unreadable
        places: dict[str, str] = {}
        for entry in file.rows:
            if entry.key and entry.key in places:
                raise AnnotationError(
                    f"{entry.place}: the id {entry.key} was used before ({places[entry.key]}); "
                    f"remove one of the two rows"
                )
            places[entry.key] = entry.place
            action = _action(entry, lengths[entry.recording])
            if action.duration > 0:
                by_recording[entry.recording].append(action)
            else:
                excluded["no time between start and end"] += 1
    ordered = {name: sorted(actions) for name, actions in by_recording.items()}
    remarks = tuple(dict.fromkeys(note for file in files for note in file.notes))
    guessed = frozenset(last.keys() - stated.keys())
    return Annotations(ordered, lengths, guessed, dict(excluded), remarks)


def _action(entry: AnnotationRow, duration: float) -> Action:
    where = f"{entry.place} ({entry.recording})"
    if not (math.isfinite(entry.start) and math.isfinite(entry.end)):
        raise AnnotationError(f"{where}: the times {entry.start} and {entry.end} are not finite")
    if entry.end < entry.start:
        raise AnnotationError(
            f"{where}: ends at {entry.end:g} s, before it starts at {entry.start:g} s; "
            f"swap or remove the row"
        )
    if entry.start < 0:
        raise AnnotationError(f"{where}: starts at {entry.start:g} s, before the recording")
    if entry.end > duration + END_TOLERANCE:
        raise AnnotationError(
            f"{where}: ends at {entry.end:g} s but the recording at {duration:g} s; "
            f"check the row, or the recording's length"
        )
    return Action(min(entry.start, duration), min(entry.end, duration), entry.label)


def find_media(
    paths: Sequence[str | Path], *, wanted: Collection[str] | None = None
) -> dict[str, Source]:
    """By the stem of the file or first chapter; `AnnotationError` if two of `wanted` share one."""
    sources: dict[str, Source] = {}
    named = {str(path) for path in paths}
    for source in find([str(path) for path in paths]):
        if "://" not in source.uris[0] and not Path(source.uris[0]).is_file():
            if source.uris[0] in named:
                raise AnnotationError(f"there are no media at {source.path}")
            continue  # found in a folder: a broken link, or a folder that cannot be read
        name = Path(name_of(source.uris[0])).stem
        if name in sources and (wanted is None or name in wanted):
            raise AnnotationError(
                f"two media files are called {name}: {sources[name].path} and {source.path}"
            )
        sources.setdefault(name, source)
    return sources


def reconcile(
    annotated: Collection[str],
    available: Collection[str],
    *,
    allow_missing: bool = False,
    what: str = "media",
) -> list[str]:
    """The recordings in both; `what` is the word for the available side in messages."""
    here = set(available)
    common = [name for name in annotated if name in here]
    unheard = [name for name in annotated if name not in here]
    unmarked = sorted(here - set(annotated))
    if (unheard or unmarked) and not allow_missing:
        parts = [f"no {what} for {list_few(unheard, most=10)}"] if unheard else []
        parts += [f"no annotations for {list_few(unmarked, most=10)}"] if unmarked else []
        raise AnnotationError(
            f"{'; '.join(parts)}: pass --allow-missing to go on with the {len(common)} with both"
        )
    if not common:
        raise AnnotationError(
            f"no recording has both {what} and annotations: {what} {list_few(sorted(available))}, "
            f"annotations {list_few(annotated)}"
        )
    return common
