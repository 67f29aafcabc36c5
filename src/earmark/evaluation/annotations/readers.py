"""Reads annotation files: one function a format, found by name or by looking inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from earmark.errors import AnnotationError
from earmark.evaluation.annotations import document_readers, table_readers
from earmark.evaluation.annotations.actions import AnnotationFile, Annotations, few, gather
from earmark.evaluation.annotations.table_readers import reading

FORMATS: dict[str, Callable[[Path], AnnotationFile]] = {
    "epic": table_readers.read_epic,
    "csv": table_readers.read_generic,
    "dcase": table_readers.read_frames,
    "audacity": table_readers.read_audacity,
    "goalstep": document_readers.read_goalstep_steps,
    "goalstep-substeps": document_readers.read_goalstep_substeps,
    "goalstep-all": document_readers.read_goalstep_all,
    "egosound": document_readers.read_egosound,
    "elan": document_readers.read_elan,
}
"""Every format by name. `epic` reads EPIC-KITCHENS-100, EPIC-SOUNDS and the train-split file."""

SUFFIXES = {".csv", ".txt", ".tsv", ".json", ".jsonl", ".eaf"}
"""Files looked at when a folder is given."""


def read_annotations(
    paths: Path | Iterable[Path],
    *,
    format: str | None = None,  # noqa: A002 - the word the command line uses
    durations: Mapping[str, float] | None = None,
    duration_source: str = "table",
) -> Annotations:
    """The actions marked in `paths`: files, or folders searched for annotation files.

    Args:
        paths: one or many.
        format: a name of `FORMATS`; found by looking into each file when not given. GoalStep files
            are read as their steps unless a substep format is named, ELAN files with all their
            tiers unless some are named: `elan:TIER,TIER`.
        durations: seconds by recording, which win over what the files say.
        duration_source: where `durations` come from, kept beside each length.

    Raises:
        AnnotationError: a file that cannot be read, is of no known format or contradicts itself.
    """
    files = _files([paths] if isinstance(paths, Path) else list(paths))
    listings = [read_listing(file, format=format) for file in files]
    _refuse_repeated_stems(files, listings)
    if not any(listing.entries or listing.recordings for listing in listings):
        raise AnnotationError(
            f"{few(file.name for file in files)}: no row, so nothing is annotated"
        )
    return gather(listings, durations=durations, duration_source=duration_source)


def read_listing(path: Path, *, format: str | None = None) -> AnnotationFile:  # noqa: A002
    """The rows of one file."""
    name, _, part = (format or "").partition(":")
    if (format is not None and name not in FORMATS) or (part and name != "elan"):
        raise ValueError(
            f"no annotation format {format!r}; there are {', '.join(FORMATS)} and elan:TIER,TIER"
        )
    with reading(path):
        if part:
            return document_readers.read_elan(path, tiers=part.split(","))
        return FORMATS[name or detect(path)](path)


def detect(path: Path) -> str:
    """The name of the format `path` is in, from its suffix and its first lines.

    Raises:
        AnnotationError: it looks like none of them.
    """
    with path.open(encoding="utf-8-sig") as file:
        head = file.read(4096)
    suffix = path.suffix.lower()
    if suffix == ".eaf" or "<ANNOTATION_DOCUMENT" in head:
        return "elan"
    if suffix in {".json", ".jsonl"} or head.lstrip()[:1] in {"[", "{"}:
        return document_readers.detect(path, head)
    return table_readers.detect(path, head)


def _files(paths: list[Path]) -> list[Path]:
    """The annotation files in `paths`, each once, folders searched in order of name."""
    files: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            files[path.resolve()] = path
            continue
        inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES)
        if not inside:
            raise AnnotationError(
                f"{path} holds no annotation file ({', '.join(sorted(SUFFIXES))})"
            )
        files.update({each.resolve(): each for each in inside})
    if not files:
        raise AnnotationError("no annotation file was given")
    return list(files.values())


def _refuse_repeated_stems(files: list[Path], listings: list[AnnotationFile]) -> None:
    """Raise if two files that name their recording by their own name have the same name."""
    owner: dict[str, Path] = {}
    for file, listing in zip(files, listings, strict=True):
        for name in listing.recordings:
            if name == file.stem and name in owner:
                raise AnnotationError(
                    f"two files annotate the recording {name}: {owner[name]} and {file}; "
                    f"rename one ({few([f.name for f in files])} were read)"
                )
            owner[name] = file
