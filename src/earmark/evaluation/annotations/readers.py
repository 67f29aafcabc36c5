"""Reads annotation files: one reader per format, chosen by name or detected from the content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from earmark.errors import AnnotationError
from earmark.evaluation.annotations import document_readers, table_readers
from earmark.evaluation.annotations.actions import (
    AnnotationFile,
    Annotations,
    combine_files,
    list_few,
)
from earmark.evaluation.annotations.table_readers import read_errors
from earmark.gate.survival import Survival
from earmark.models.registry import Registry


class Reader(Protocol):
    """Reads annotation files of one format.

    Returns the rows as they stand in the file, each with its place for messages; `combine_files`
    checks the times. Raises `AnnotationError` for a file that is not of this format. The caller
    reports files that cannot be opened or decoded.
    """

    def __call__(self, path: Path, /) -> AnnotationFile:
        """The rows of the file at `path`."""
        ...


READERS: Registry[Reader] = Registry(
    "earmark.readers",
    {
        "epic": partial(table_readers.read_table, columns=table_readers.COLUMNS["epic"]),
        "captaincook4d": table_readers.read_captaincook4d,
        "egoexolearn": partial(  # verbs and nouns are the numbers of their classes
            table_readers.read_table,
            columns=table_readers.COLUMNS["egoexolearn"],
            note="a file lists one split of the actions: more goes on than is marked",
        ),
        "factory10k": table_readers.read_factory10k,
        "csv": table_readers.read_table,
        "dcase": table_readers.read_frames,
        "audacity": table_readers.read_audacity,
        "goalstep": document_readers.read_goalstep,
        "goalstep-substeps": partial(document_readers.read_goalstep, depths=(1,)),
        "goalstep-all": partial(document_readers.read_goalstep, depths=(0, 1)),
        "egosound": document_readers.read_egosound,
        "elan": document_readers.read_elan,
        "corrections": document_readers.read_corrections,
    },
    kind="annotation format",
)
"""Every format by name. `epic` reads EPIC-KITCHENS-100, EPIC-SOUNDS and the train-split file.

Formats of other packages must be named; only the built-in ones are detected from the content.
"""

SUFFIXES = {".csv", ".txt", ".tsv", ".json", ".jsonl", ".eaf"}
"""Suffixes of the files that are read from a folder."""


def read_annotations(
    paths: Path | Iterable[Path],
    *,
    format: str | None = None,  # noqa: A002 - the word the command line uses
    durations: Mapping[str, float] | None = None,
) -> Annotations:
    """The actions annotated in `paths`: files, or folders searched for annotation files.

    `format` is a name of `READERS`; None detects it for each file: GoalStep files give steps, ELAN
    files all tiers; `elan:TIER,TIER` chooses some. `durations`, seconds by recording, override
    those in the files.
    """
    files = _files([paths] if isinstance(paths, Path) else list(paths))
    read = [read_file(file, format=format) for file in files]
    _refuse_repeated_stems(files, read)
    if not any(one.rows or one.recordings for one in read):
        named = list_few(file.name for file in files)
        raise AnnotationError(f"{named}: no row, so nothing is annotated")
    return combine_files(read, durations=durations)


def read_action_length(text: str | Path) -> float | Survival:
    """The `action_length` of a plan, from a number of seconds or from annotation files."""
    try:
        return float(str(text))
    except ValueError:
        pass
    path = Path(text)
    if not path.exists():
        raise ValueError(
            f"--action-length {text} is neither a number of seconds nor a file of marks"
        )
    lengths = read_annotations(path).lengths
    if not lengths:
        raise AnnotationError(f"{path.name} marks no action, so it says nothing of their length")
    return Survival.from_lengths(lengths)


def read_file(path: Path, *, format: str | None = None) -> AnnotationFile:  # noqa: A002
    """The rows of one file."""
    with read_errors(path):
        name, _, tiers = (format or detect(path)).partition(":")
        if not tiers:
            return READERS.named(name)(path)
        if name != "elan":
            raise ValueError(f"no annotation format {format!r}: only elan:TIER,TIER has parts")
        return document_readers.read_elan(path, tiers=tiers.split(","))


def detect(path: Path) -> str:
    """The format of `path`, from its suffix and first lines; `AnnotationError` if unknown."""
    with read_errors(path), path.open(encoding="utf-8-sig") as file:
        head = file.read(4096)
    suffix = path.suffix.lower()
    if suffix == ".eaf" or "<ANNOTATION_DOCUMENT" in head:
        return "elan"
    if suffix in {".json", ".jsonl"} or head.lstrip()[:1] in {"[", "{"}:
        return document_readers.detect(path, head)
    return table_readers.detect(path, head)


def _files(paths: list[Path]) -> list[Path]:
    """The annotation files in `paths`, each once; folders are searched in order of name."""
    files: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            files[path.resolve()] = path
            continue
        inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES)
        if not inside:
            known = ", ".join(sorted(SUFFIXES))
            raise AnnotationError(f"{path} holds no annotation file ({known})")
        files.update({each.resolve(): each for each in inside})
    if not files:
        raise AnnotationError("no annotation file was given")
    return list(files.values())


def _refuse_repeated_stems(files: list[Path], read: list[AnnotationFile]) -> None:
    """Raise if two files whose recording is named after the file have the same stem."""
    owner: dict[str, Path] = {}
    for file, one in zip(files, read, strict=True):
        for name in one.recordings:
            if name == file.stem and name in owner:
                raise AnnotationError(
                    f"two files annotate the recording {name}: {owner[name]} and {file}; "
                    f"rename one ({list_few([f.name for f in files])} were read)"
                )
            owner[name] = file
