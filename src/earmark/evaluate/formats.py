"""Reads annotation files: one function a format, found by name or by looking inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from earmark.errors import AnnotationError
from earmark.evaluate import documents, sheets
from earmark.evaluate.annotations import Annotations, Listing, few, gather

FORMATS: dict[str, Callable[[Path], Listing]] = {
    "epic": sheets.read_epic,
    "csv": sheets.read_generic,
    "dcase": sheets.read_frames,
    "audacity": sheets.read_audacity,
    "goalstep": documents.read_goalstep_steps,
    "goalstep-substeps": documents.read_goalstep_substeps,
    "goalstep-all": documents.read_goalstep_all,
    "egosound": documents.read_egosound,
    "elan": documents.read_elan,
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
            are read as their steps unless a substep format is named.
        durations: seconds by recording, which win over what the files say.
        duration_source: where `durations` come from, kept beside each length.

    Raises:
        AnnotationError: a file that cannot be read, is of no known format or contradicts itself.
    """
    files = _files([paths] if isinstance(paths, Path) else list(paths))
    listings = [read_listing(file, format=format) for file in files]
    _refuse_repeated_stems(files, listings)
    return gather(listings, durations=durations, duration_source=duration_source)


def read_listing(path: Path, *, format: str | None = None) -> Listing:  # noqa: A002
    """The rows of one file."""
    if format is not None and format not in FORMATS:
        raise ValueError(f"no annotation format {format!r}; there are {', '.join(FORMATS)}")
    try:
        return FORMATS[format or detect(path)](path)
    except OSError as error:
        raise AnnotationError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise AnnotationError(f"{path.name} is not UTF-8 text (byte {error.start})") from error


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
        return documents.detect(path, head)
    return sheets.detect(path, head)


def _files(paths: list[Path]) -> list[Path]:
    """The annotation files in `paths`, folders searched in order of name."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(each for each in path.rglob("*") if each.suffix.lower() in SUFFIXES)
        if not inside:
            raise AnnotationError(
                f"{path} holds no annotation file ({', '.join(sorted(SUFFIXES))})"
            )
        files.extend(inside)
    if not files:
        raise AnnotationError("no annotation file was given")
    return files


def _refuse_repeated_stems(files: list[Path], listings: list[Listing]) -> None:
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
