"""The composites every experiment of the gate is made on: who is developed on, who is tested on.

The split was written down before anything was scored: participants in the order of the SHA-256
of their names, the first ones to the test set until it holds a quarter of the recordings.
"""

from __future__ import annotations

from pathlib import Path

from earmark.evaluation.annotations.actions import Annotations
from earmark.evaluation.annotations.readers import read_annotations
from earmark.evaluation.annotations.table_readers import read_durations
from earmark.training.split import hold_out

DATA = (
    "composites, not kitchen audio: recorded sounds (ESC-50, Kitchen20) placed at the times of "
    "EPIC-SOUNDS events over room noise, with the action intervals of the EPIC-KITCHENS-100 "
    "validation recordings; train and dev participants only"
)
LICENCE = (
    "research use only: ESC-50 CC BY-NC 3.0, Kitchen20 clips under their Freesound terms, "
    "EPIC-KITCHENS-100 and EPIC-SOUNDS annotations CC BY-NC 4.0"
)


def media(data: Path) -> Path:
    """The folder of the sound tracks."""
    return data / "resound"


def annotations(data: Path) -> tuple[Annotations, Annotations]:
    """The actions of the recordings to develop on, and of those to test on."""
    epic = data / "epic"
    everything = read_annotations(
        epic / "EPIC_100_validation.csv",
        durations=read_durations(epic / "EPIC_100_video_info.csv"),
    )
    heard = everything.only(sorted(path.stem for path in media(data).glob("*.opus")))
    develop, test = hold_out(list(heard.recordings))
    return heard.only(develop), heard.only(test)
