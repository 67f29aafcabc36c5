"""Annotated actions of recordings, independent of the file format.

Readers (see `readers`) turn a file into an `AnnotationFile`; `combine_files` checks the rows and
groups them by recording. Nothing here depends on a file format, an experiment or a model.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from earmark.errors import AnnotationError
from earmark.reporting.text_format import counted
from earmark.timeline import Span

END_TOLERANCE = 1.0
"""Seconds an action may extend past the end before it is an error; EPIC-SOUNDS has 0.3 s."""


@dataclass(frozen=True, slots=True, order=True)
class Action(Span):
    """An annotated span."""

    label: str = ""
    """What happens, in the annotator's words; empty if the file has no label."""


@dataclass(frozen=True, slots=True)
class AnnotationRow:
    """One row of an annotation file, not yet checked."""

    recording: str
    start: float
    end: float
    label: str
    place: str
    """Its position, for messages: `file.csv line 12`."""
    key: str = ""
    """The row's id, unique in its file; empty if the format has none."""


@dataclass(frozen=True, slots=True)
class AnnotationFile:
    """The content of one annotation file."""

    rows: tuple[AnnotationRow, ...]
    durations: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the recordings whose length is in the file."""
    recordings: tuple[str, ...] = ()
    """Recordings the file is about, also those without annotations."""
    unreadable: int = 0
    """Rows with unreadable times, where the format allows them (EgoSound, ELAN); left out."""
    notes: tuple[str, ...] = ()
    """Remarks on how the file was read, for the report."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """Actions by recording, in order of time, with each recording's length."""

    recordings: dict[str, list[Action]]
    """Every recording, also those without actions; actions may overlap."""
    durations: dict[str, float]
    """Seconds of each recording."""
    guessed: frozenset[str] = frozenset()
    """Recordings of no given length, taken to end with their last event."""
    excluded: dict[str, int] = field(default_factory=dict)
    """Rows left out, counted by reason."""
    remarks: tuple[str, ...] = ()
    """Remarks of the readers, one line each."""

    @property
    def actions(self) -> int:
        """The number of actions in all recordings."""
        return sum(len(actions) for actions in self.recordings.values())

    @property
    def hours(self) -> float:
        """The total length of all recordings in hours."""
        return sum(self.durations[name] for name in self.recordings) / 3600

    @property
    def lengths(self) -> list[float]:
        """The length of every action in seconds."""
        return [each.duration for actions in self.recordings.values() for each in actions]

    @property
    def overlapping(self) -> int:
        """The number of actions that start before an earlier one of the recording has ended."""
        return sum(
            action.start < latest
            for actions in self.recordings.values()
            for action, latest in zip(actions[1:], accumulate((a.end for a in actions), max))  # noqa: B905
        )

    @property
    def duplicates(self) -> int:
        """The number of actions that equal another one of the same recording."""
        return sum(len(actions) - len(set(actions)) for actions in self.recordings.values())

    @property
    def fingerprint(self) -> str:
        """A short hash of all actions and lengths, to identify the annotations."""
        digest = hashlib.sha256()
        for name in sorted(self.recordings):
            digest.update(f"{name} {self.durations[name]!r}\n".encode())
            for action in self.recordings[name]:
                digest.update(f"{action.start!r} {action.end!r} {action.label}\n".encode())
        return digest.hexdigest()[:16]

    def only(self, names: Iterable[str]) -> Annotations:
        """The recordings `names`, in that order; `AnnotationError` for an unknown name."""
        wanted = list(dict.fromkeys(names))
        unknown = [name for name in wanted if name not in self.recordings]
        if unknown:
            known = f"the annotations, which know {list_few(self.recordings)}"
            raise AnnotationError(f"{list_few(unknown)} not in {known}")
        return replace(
            self,
            recordings={name: self.recordings[name] for name in wanted},
            durations={name: self.durations[name] for name in wanted},
            guessed=self.guessed.intersection(wanted),
        )

    def without(self, names: Collection[str]) -> Annotations:
        """All recordings except `names`."""
        return self.only(name for name in self.recordings if name not in names)

    def notes(self) -> list[str]:
        """Remarks on the rows for the report, one line each."""
        lines = [f"{counted(n, 'row')} left out: {why}" for why, n in self.excluded.items()]
        lines += self.remarks
        silent = [name for name, marked in self.recordings.items() if not marked]
        for count, thing, told in (
            (
                len(self.guessed),
                "recording",
                "of no given length, taken to end with the last event",
            ),
            (self.overlapping, "action", "overlapping an earlier one; each counts"),
            (self.duplicates, "row", "saying the same as another; each counts"),
            (len(silent), "recording", f"without action, so without coverage: {list_few(silent)}"),
        ):
            lines += [f"{counted(count, thing)} {told}"] if count else []
        return lines


def list_few(names: Iterable[str], *, most: int = 3) -> str:
    """The first `most` of `names` as text, and the number of the others."""
    everything = list(names)
    shown = ", ".join(everything[:most])
    return shown + (f" and {len(everything) - most} more" if len(everything) > most else "")


def combine_files(
    files: Sequence[AnnotationFile], *, durations: Mapping[str, float] | None = None
) -> Annotations:
    """The rows of all files, checked and grouped by recording.

    `durations` override the lengths in the files; a recording without any length ends with its
    last event. Actions that extend at most `END_TOLERANCE` seconds past the end are cut there;
    rows of zero length are left out and counted.
    """
    last: dict[str, float] = {}
    known: dict[str, float] = {}
    for file in files:
        known |= file.durations
        for name in file.recordings:
            last.setdefault(name, 0.0)
        for entry in file.rows:
            last[entry.recording] = max(last.get(entry.recording, 0.0), entry.end)
    known |= durations or {}
    lengths = last | {name: known[name] for name in last if name in known}
    kept: dict[str, list[Action]] = {name: [] for name in lengths}
    excluded: Counter[str] = Counter()
    for file in files:
        if file.unreadable:
            excluded["the timestamp cannot be read"] += file.unreadable
        seen: dict[str, str] = {}
        for entry in file.rows:
            if entry.key and entry.key in seen:
                raise AnnotationError(
                    f"{entry.place}: the id {entry.key} was used before ({seen[entry.key]}); "
                    f"remove one of the two rows"
                )
            seen[entry.key] = entry.place
            action = _action(entry, lengths[entry.recording])
            if action.duration > 0:
                kept[entry.recording].append(action)
            else:
                excluded["no time between start and end"] += 1
    ordered = {name: sorted(actions) for name, actions in kept.items()}
    remarks = tuple(dict.fromkeys(note for file in files for note in file.notes))
    guessed = frozenset(last.keys() - known.keys())
    return Annotations(ordered, lengths, guessed, dict(excluded), remarks)


def _action(entry: AnnotationRow, duration: float) -> Action:
    """The action of a row in a recording of `duration` seconds; errors name the row."""
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
