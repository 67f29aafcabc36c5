"""How long actions last, from words on a command line or a file of marks."""

from __future__ import annotations

from pathlib import Path

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.readers import read_annotations
from earmark.gate.survival import Survival


def read_action_length(text: str | Path) -> float | Survival:
    """What `action_length` of a plan is, written as seconds or as a file or folder of marks.

    Raises:
        ValueError: it is neither.
        AnnotationError: the file marks nothing, or cannot be read.
    """
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
