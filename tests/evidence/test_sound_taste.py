"""A workshop radio takes no calls, and a favourite takes them first."""

from __future__ import annotations

import numpy as np
import pytest

import earmark
from drawing import windows
from earmark import Span
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_taste import FAVOURED, IGNORED, SoundTaste
from earmark.settings import Settings


def sound(start: float, end: float, name: str) -> EvidenceEntry:
    return EvidenceEntry(Span(start, end), "heard", name, 0.8, "mn04 track")


RADIO = [sound(0.0, 20.0, "Pop music"), sound(9.0, 11.0, "Hammer"), sound(13.0, 15.0, "Dog")]


def test_a_radio_counts_little_unless_something_else_is_heard():
    """
    pop music ├───────────────────┤
    hammer            ├─┤
    window    0   1   2   3   4   5   6
    """
    weighed = SoundTaste(ignore=("music",)).weigh(windows("5555555"), RADIO)
    low = 0.5 * IGNORED
    assert weighed.rates == pytest.approx([low, low, 0.5, low, low, 0.5, 0.5])
    assert np.argmin(weighed.scores) == 0


def test_a_favourite_counts_more():
    weighed = SoundTaste(favour=("hammer", "drill")).weigh(windows("5555555"), RADIO)
    assert weighed.rates == pytest.approx([0.5, 0.5, 0.5 * FAVOURED, 0.5, 0.5, 0.5, 0.5])


def test_the_lists_come_from_the_file_and_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "earmark.toml").write_text('[sounds]\nignore = ["music"]\nfavour = ["drill"]\n')
    assert Settings.load().sounds.ignore == ("music",)
    changed = Settings.load({"ignore": "music, speech"}).sounds
    assert (changed.ignore, changed.favour) == (("music", "speech"), ("drill",))
    assert earmark.Settings().sounds.ignore == ()
