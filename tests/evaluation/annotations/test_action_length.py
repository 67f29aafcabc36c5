"""How long actions last, as it is told on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark.errors import AnnotationError
from earmark.evaluation.annotations.readers import read_action_length
from earmark.gate.survival import Survival


def test_seconds_or_marks(tmp_path: Path) -> None:
    marks = tmp_path / "marks.csv"
    marks.write_text("recording,start,end\na,1,3\na,9,12\nb,0,40\n")
    assert read_action_length("2.5") == 2.5
    found = read_action_length(str(marks))
    assert found == Survival.from_lengths([2.0, 3.0, 40.0])
    assert found.median == pytest.approx(3.0, abs=1e-5)


def test_what_is_neither_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither a number of seconds nor a file of marks"):
        read_action_length("long")
    (tmp_path / "none.csv").write_text("recording,start,end\na,1,1\n")
    with pytest.raises(AnnotationError, match="marks no action"):
        read_action_length(tmp_path / "none.csv")
