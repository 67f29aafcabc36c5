"""Material is gathered from real files, and bad input is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark import open_recording
from earmark.errors import AnnotationError
from earmark.features.sound_levels import LogMel
from earmark.media import Meter, find
from earmark_lab.annotations.actions import Action, Annotations
from earmark_lab.training.dataset import fingerprint, fold, gather, group, hold_out, participant
from making import make_audio


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("media")
    make_audio(folder / "P01_1.wav", duration=6.0, clicks=[2.0])
    make_audio(folder / "P02_1.wav", duration=5.0, clicks=[1.0])
    return folder


def marked(**actions: list[tuple[float, float]]) -> Annotations:
    recordings = {name: [Action(a, b) for a, b in spans] for name, spans in actions.items()}
    return Annotations(recordings, dict.fromkeys(recordings, 6.0))


GOOD = {"P01_1": [(2.0, 3.0)], "P02_1": [(1.0, 4.0)]}


def test_features_are_those_of_the_encoder(media: Path) -> None:
    material = gather(marked(**GOOD), media, encoder="log-mel")
    recording = open_recording(find([str(media / "P01_1.wav")])[0])
    wanted = np.concatenate([track.values for track in LogMel()(recording, meter=Meter())])
    np.testing.assert_allclose(material["P01_1"].features, wanted, atol=5e-3)
    assert material["P01_1"].duration == pytest.approx(6.0, abs=0.05)
    assert [action.start for action in material["P01_1"].actions] == [2.0]


def test_what_was_heard_is_kept(media: Path, tmp_path: Path) -> None:
    first = gather(marked(**GOOD), media, encoder="log-mel", cache=tmp_path)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 2
    again = gather(marked(**GOOD), media, encoder="log-mel", cache=tmp_path)
    assert fingerprint(first) == fingerprint(again)
    kept[0].write_bytes(kept[0].read_bytes()[:200])
    repaired = gather(marked(**GOOD), media, encoder="log-mel", cache=tmp_path)
    assert fingerprint(first) == fingerprint(repaired)


def test_features_are_the_same_wherever_the_file_lies(media: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(media, tmp_path / "elsewhere"))
    here, there = (gather(marked(**GOOD), each, encoder="log-mel") for each in (media, moved))
    assert fingerprint(here) == fingerprint(there)


def test_the_fingerprint_tells_other_spans_and_other_sound(media: Path) -> None:
    prints = {
        fingerprint(gather(marked(**spans), media, encoder=encoder))
        for spans in (GOOD, {**GOOD, "P01_1": [(2.0, 3.1)]}, {"P01_1": [(2.0, 3.0)]})
        for encoder in ("log-mel", "energy")
    }
    assert len(prints) == 6


def test_bad_input_is_named(media: Path) -> None:
    with pytest.raises(AnnotationError, match=r"no media in .* for P09_1; the stems must agree"):
        gather(marked(P09_1=[(0, 1)]), media, encoder="log-mel")
    with pytest.raises(AnnotationError, match=r"P02_1: the span 7-8 s lies outside .* lasts 5"):
        gather(marked(P02_1=[(7, 8)]), media, encoder="log-mel")
    with pytest.raises(AnnotationError, match="no recording has a single span"):
        gather(marked(P01_1=[]), media, encoder="log-mel")
    with pytest.raises(ValueError, match=r"no frontline 'ears'; the frontlines are .*log-mel"):
        gather(marked(**GOOD), media, encoder="ears")


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
