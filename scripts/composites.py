"""The composites every experiment of the gate is made on, dense and sparse together.

`resound/` holds one busy track a recording, `shift/` one mostly idle track a participant. Whoever
is held out is held out of both: recordings are divided by participant.
"""

from __future__ import annotations

from pathlib import Path

from earmark_lab.annotations.actions import Annotations
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.annotations.table_readers import read_durations
from earmark_lab.training.dataset import hold_out, participant

DATA = (
    "composites, not kitchen audio: recorded sounds (ESC-50, Kitchen20) placed at the times of "
    "EPIC-SOUNDS events over room noise, with the action intervals of the EPIC-KITCHENS-100 "
    "validation recordings, and bouts of these between long stretches of ambience"
)
LICENCE = (
    "research use only: ESC-50 CC BY-NC 3.0, Kitchen20 clips under their Freesound terms, "
    "EPIC-KITCHENS-100 and EPIC-SOUNDS annotations CC BY-NC 4.0"
)
SPARSE = "_shift"
"""How the names of the sparse recordings end."""


def media(data: Path) -> list[Path]:
    """The folders of the sound tracks."""
    return [data / "resound", data / "shift"]


def annotations(data: Path) -> Annotations:
    """The actions of every composite."""
    epic = data / "epic"
    kitchens = read_annotations(
        epic / "EPIC_100_validation.csv",
        durations=read_durations(epic / "EPIC_100_video_info.csv"),
    )
    dense = kitchens.only(sorted(path.stem for path in (data / "resound").glob("*.opus")))
    sparse = read_annotations(data / "shift" / "actions.csv")
    return Annotations({**dense.recordings, **sparse.recordings}, dense.durations)


def old_test(names: list[str]) -> list[str]:
    """The recordings of the participants whom the gate of version 0.9 had not met."""
    _, test = hold_out([name for name in names if not name.endswith(SPARSE)])
    people = {participant(name) for name in test}
    return [name for name in names if participant(name) in people]
