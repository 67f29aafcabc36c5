"""A run is blurred once and for good, the pictures it keeps already too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from earmark.captioning.request import Question
from earmark.errors import ModelMissing
from earmark.evidence.face_blur import FaceBlur
from earmark.models import ModelStore
from earmark.run.database import is_at_work
from earmark.run.records import PickFrames
from earmark.run.run import Run, blur_of
from earmark.run.schema import FILE
from small_runs import PLAN, cell, open_run


class Stamp:
    """Blurs by writing that it did: what finds faces need not be here."""

    name = "stamp"

    def __init__(self) -> None:
        self.checks = 0

    def check(self) -> None:
        self.checks += 1

    def jpeg(self, picture: bytes) -> bytes:
        return b"blurred" if picture else b""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_run(tmp_path) as ledger:
        ledger.keep_frames("a", PickFrames(cell(1), b"a face " * 99, 9, 1, 100))
        ledger.keep_frames("a", PickFrames(cell(3), b"", 9, 1, 100))
    return tmp_path


def pictures(folder: Path, blur: Stamp | None = None) -> list[bytes]:
    with Run(folder, blur=blur) as run:
        return [run.thumbnail("a", cell(window)) for window in (1, 3, 5)]


def test_what_a_run_keeps_is_blurred_once_and_overwritten(folder: Path):
    first, second = Stamp(), Stamp()
    Run.resume(folder, blur=first).close()
    assert pictures(folder) == [b"blurred", b"", b""]
    assert not any(b"a face" in path.read_bytes() for path in folder.glob(f"{FILE}*"))
    with Run(folder) as run:
        assert run.is_blurred and run.hides_faces
        assert run.note("blur") == "stamp"
    Run.resume(folder, blur=second).close()
    assert (first.checks, second.checks) == (1, 0)


def test_pictures_of_another_run_are_blurred_as_they_are_shown(folder: Path):
    stamp = Stamp()
    assert pictures(folder, stamp) == [b"blurred", b"", b""]
    with Run(folder, blur=stamp) as run:
        assert run.hides_faces and not run.is_blurred
    with Run(folder) as run:
        assert not run.hides_faces
        assert run.thumbnail("a", cell(1)).startswith(b"a face")
        assert [run.has_thumbnail("a", cell(window)) for window in (1, 3, 5)] == [
            True,
            False,
            False,
        ]


def test_what_is_blurred_already_is_not_blurred_when_it_is_shown(folder: Path):
    Run.resume(folder, blur=Stamp()).close()

    class Never(Stamp):
        def jpeg(self, picture: bytes) -> bytes:
            raise AssertionError(f"{picture!r} is blurred twice")

    assert pictures(folder, Never()) == [b"blurred", b"", b""]


def test_a_run_without_what_finds_faces_is_let_go_and_not_said_to_be_blurred(folder: Path):
    store = ModelStore(folder / "no models")
    asked = replace(Question(), blur=FaceBlur(store))
    with pytest.raises(ModelMissing):
        Run(folder, PLAN, blur=asked.blur)
    assert not is_at_work(folder)
    with Run(folder) as run:
        assert not run.is_blurred
        assert blur_of(run, None, store) is None
        assert blur_of(run, asked.blur, store) == FaceBlur(store)
    Run(folder, PLAN).close()
    Run.resume(folder, blur=Stamp()).close()
    with Run(folder) as run:
        assert blur_of(run, None, store) == FaceBlur(store)
