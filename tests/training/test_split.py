"""Nobody is heard on both sides of a split."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.errors import AnnotationError
from earmark.training.dataset import fold, group, hold_out, participant

names = st.lists(
    st.builds(lambda who, which: f"P{who:02d}_{which}", st.integers(1, 30), st.integers(0, 99)),
    unique=True,
    min_size=1,
    max_size=60,
)


@given(names)
def test_a_test_set_is_of_whole_participants(recordings: list[str]) -> None:
    kept, test = hold_out(recordings, share=0.25)
    assert sorted(kept + test) == sorted(recordings)
    assert not {participant(n) for n in kept} & {participant(n) for n in test}
    assert len(test) >= 0.25 * len(recordings)
    assert hold_out(recordings[::-1], share=0.25) == (kept, test)


@given(names, st.integers(2, 5))
def test_folds_share_nobody(recordings: list[str], folds: int) -> None:
    people = len(group(recordings))
    if people < folds:
        with pytest.raises(AnnotationError, match=f"{people} participants cannot be split"):
            fold(recordings, folds=folds)
        return
    parts = fold(recordings, folds=folds)
    assert sorted(name for part in parts for name in part) == sorted(recordings)
    assert all(parts)
    owners = [{participant(name) for name in part} for part in parts]
    assert sum(len(each) for each in owners) == people


def test_a_name_without_a_participant_is_its_own() -> None:
    assert participant("P28_101") == "P28"
    assert participant("GX010042") == "GX010042"
    assert participant("night_shift") == "night_shift"


def test_the_split_of_the_composites_stays_what_it_was(shared_data: Path) -> None:
    """Fixed before anything was scored: nobody moves between development and test."""
    names = [path.stem for path in (shared_data / "resound").glob("*.opus")]
    kept, test = hold_out(names)
    assert (len(kept), len(test)) == (83, 30)
    people = {participant(name) for name in test}
    assert people == {"P01", "P02", "P04", "P08", "P12", "P14", "P20", "P29", "P31"}
