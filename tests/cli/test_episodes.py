"""`earmark select --episodes` as a person runs it."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acceptance.command_line import earmark
from earmark import ScoreCache, SoundListing, Span, Track
from earmark.cli import options
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.gate.gate import default_gate
from earmark.grid import Grid
from earmark.media import find
from earmark.pipeline.listen import listen
from earmark.pipeline.session import open_session
from earmark.pipeline.sounds import RecordingSounds
from earmark.selection.episodes import EpisodeListing, RecordingEpisodes
from making import make_audio, make_video


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    clicks = [5.0, 6.2, 7.1, 8.3, 12.0, 12.9, 14.2, 15.0, 21.3, 22.1]
    make_audio(folder / "a.wav", duration=30.0, clicks=clicks)
    return folder


def run(*words: object) -> tuple[int, str, str]:
    outcome = earmark("select", "--episodes", *words)
    return outcome.code, outcome.out, outcome.err


def test_both_accounts_stand_side_by_side(folder: Path) -> None:
    code, said, _ = run(folder / "a.wav", "--recall", "95%", "--format", "json")
    assert code == 0
    (found,) = json.loads(said)
    assert found["windows"] == 8
    assert 0 < found["calls"] <= 8
    kept = sum(span["end"] - span["start"] for span in found["episodes"])
    assert found["kept"] == pytest.approx(kept)
    assert found["duration_account"] == pytest.approx(kept / 4)
    assert found["calls"] >= found["duration_account"]


def test_a_lower_recall_keeps_no_more(folder: Path) -> None:
    kept = []
    for recall in ("99%", "95%", "87%"):
        _, said, _ = run(folder / "a.wav", "--recall", recall, "--format", "json")
        kept.append(json.loads(said)[0]["kept"])
    assert kept == sorted(kept, reverse=True)


def test_what_was_heard_to_select_is_not_heard_again(folder: Path, tmp_path: Path) -> None:
    cache, gate = ScoreCache(tmp_path), default_gate().frontline()
    (source,) = find([folder / "a.wav"])
    heard = listen(source, open_session(cache=tmp_path).listening).heard
    cache.keep(replace(heard, scores=Track(np.ones_like(heard.scores.values))), gate)
    _, said, _ = run(folder / "a.wav", "--cache", tmp_path, "--format", "json")
    assert json.loads(said)[0]["episodes"] == [{"start": 0.0, "end": 30.0}]


def test_what_is_odd_about_a_recording_is_said(tmp_path: Path) -> None:
    make_audio(tmp_path / "a.wav", duration=8.0)
    code, said, told = run(tmp_path)
    assert (code, "0 episodes" in said) == (0, True)
    assert f"{tmp_path / 'a.wav'}: the sound track is silent" in told


def test_a_recall_below_the_lowest_point_is_said_to_be(folder: Path) -> None:
    _, lowest, quiet = run(folder / "a.wav", "--recall", "87%")
    _, lower, told = run(folder / "a.wav", "--recall", "40%")
    assert lower == lowest
    assert "lowest operating point is 87% recall" in told
    assert quiet == ""


@pytest.mark.parametrize(("end", "is_told"), [(16.0, False), (24.0, True)])
def test_when_episodes_save_less_than_half_a_way_out_is_named(end: float, is_told: bool) -> None:
    spans = (Span(0.0, end),)
    *_, last = RecordingEpisodes("a.wav", 40.0, spans, 4.0).lines()
    assert ("under a budget" in str(last)) == is_told


def test_windows_are_counted_as_the_grid_counts_them(tmp_path: Path) -> None:
    path = make_audio(tmp_path / "a.wav", duration=8.05, clicks=[1.0])
    _, said, _ = run(path, "--format", "json")
    assert json.loads(said)[0]["windows"] == Grid(4.0).count(8.05) == 2


def test_a_name_with_a_comma_is_one_column(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a, b.wav").write_bytes((folder / "a.wav").read_bytes())
    _, rows, _ = run(tmp_path, "--format", "csv")
    assert {row[0] for row in csv.reader(rows.splitlines()[1:])} == {str(tmp_path / "a, b.wav")}


def test_the_table_and_the_csv(folder: Path) -> None:
    code, said, _ = run(folder / "a.wav")
    assert code == 0
    assert "s kept, as long as" in said and "The episodes touch" in said
    _, rows, _ = run(folder / "a.wav", "--format", "csv")
    head, *spans = rows.splitlines()
    assert head == "recording,start,end"
    assert spans and f"{len(spans)} episode" in said


def test_a_promise_is_explained(folder: Path) -> None:
    code, _, told = run(folder / "a.wav", "--guarantee", "80%")
    assert code == 0
    assert "promise: 80% recall on average" in told
    count = len(default_gate().misses.shares)
    code, _, told = run(folder / "a.wav", "--guarantee", "99%")
    assert code == 1
    assert f"{count} development recordings cannot promise 99%" in told
    code, _, told = run(folder / "a.wav", "--recall", "99.9%")
    assert code == 1
    assert "no operating point reaches 100%" in told


def test_a_recording_without_sound_is_named_and_the_others_go_on(
    folder: Path, tmp_path: Path
) -> None:
    silent = make_video(tmp_path / "silent.mp4", duration=2.0, has_audio=False)
    code, said, told = run(silent, folder / "a.wav", "--format", "json")
    assert code == 1
    assert "silent.mp4 has no audio stream" in told
    assert len(json.loads(said)) == 1


class Terminal(io.StringIO):
    """A terminal that stdout goes to."""

    def isatty(self) -> bool:
        return True


def test_no_name_of_a_file_moves_the_cursor_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    span = Span(1.0, 2.0)
    episodes = RecordingEpisodes("\x1b[2J.mp4", 8.0, (span,), 4.0)
    options.show(EpisodeListing((episodes,)), "csv")
    event = EvidenceEntry(span, "heard", "Hammer", 0.9, "mn04 track")
    recording = RecordingSounds("\x1b[2J.mp4", 8.0, (event,))
    options.show(SoundListing("", {}, (recording,)), "csv")
    assert terminal.getvalue().count("\\x1b[2J.mp4,1.00,2.00") == 2
