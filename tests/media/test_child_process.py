"""Sound decoded in another process is the sound decoded here, and so is what goes wrong with it."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import wave
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from earmark import Recording, open_recording
from earmark.errors import BackendError, InternalError, UnreadableFile
from earmark.features.sound_levels import FloorMel
from earmark.media import Meter, Source
from earmark.media.audio_decoder import PIECE_BYTES, decode_runs, place_runs
from earmark.media.child_process import (
    WORTH_A_PROCESS,
    cores,
    decode_in_process,
    is_worth_a_process,
)
from earmark.workers.worker_pool import WorkerProcesses
from making import AudioPlan, whole_sound

RATE = 16_000


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Noise just long enough for a process of its own, in more pieces than are decoded ahead."""
    path = tmp_path_factory.mktemp("long") / "a.wav"
    samples = np.random.default_rng(0).integers(0, 255, round(WORTH_A_PROCESS * 8000), np.uint8)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8000)
        file.writeframes(samples.tobytes())
    return open_recording(path)


def started(before: set[object]) -> list[multiprocessing.Process]:
    """The processes of this one that were not there before."""
    return [process for process in multiprocessing.active_children() if process not in before]


def heard(recording: Recording, decode, track: int = 0):
    """The blocks of sound, what was counted, and the features of the gate."""
    meter = Meter()
    pieces = decode(recording.parts, track, meter)
    blocks = list(place_runs(pieces, recording.parts, RATE, meter))
    rows = [track.values for track in FloorMel().encode(blocks)]
    values = np.concatenate([block.values for block in blocks])
    return values, meter, np.concatenate(rows), (meter.missing, meter.overlap)


NOISY = {"clicks": (0.5, 1.25, 3.0), "noise": 0.05}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("48.mp4", {"audio": AudioPlan(**NOISY, channels=2)}),
        ("44.mp4", {"audio": AudioPlan(**NOISY, channels=2, sample_rate=44_100)}),
        ("six.mp4", {"audio": AudioPlan(**NOISY, channels=6)}),
        ("opus.mp4", {"audio": AudioPlan(**NOISY, codec="libopus")}),
        ("raw.mov", {"audio": AudioPlan(**NOISY, codec="pcm_s24le", channels=2)}),
        ("a.wav", {"audio": AudioPlan(**NOISY)}),
        ("a.mkv", {"audio": AudioPlan(**NOISY)}),
        ("late.mp4", {"audio": AudioPlan(**NOISY, start=1.0), "offset": 2.0}),
        ("hole.mp4", {"audio": AudioPlan(**NOISY, hole=(1.0, 2.0))}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_decoded_apart_is_the_same_to_the_last_bit(media, name, options):
    recording = open_recording(media(name, **options))
    here, counted, rows, gaps = heard(recording, decode_runs)
    there, told, features, holes = heard(recording, decode_in_process)
    assert np.array_equal(here, there)
    assert np.array_equal(rows, features)
    assert (counted.damaged_packets, gaps) == (told.damaged_packets, holes)
    assert np.abs(here).max() > 0.1


def test_chapters_of_several_kinds_are_decoded_by_one_process(media):
    names = ("GX010007.mp4", "GX020007.mkv", "GX030007.mp4")
    plan = AudioPlan(**NOISY, sample_rate=44_100)
    recording = open_recording(Source(tuple(str(media(name, audio=plan)) for name in names)))
    here, there = heard(recording, decode_runs), heard(recording, decode_in_process)
    assert np.array_equal(here[0], there[0])
    assert np.array_equal(here[2], there[2])


def test_no_piece_is_too_large_for_the_shared_memory(media):
    plan = AudioPlan(**NOISY, codec="pcm_f32le", channels=6, sample_rate=96_000)
    recording = open_recording(media("wide.mov", audio=plan))
    with closing(decode_in_process(recording.parts, 0, Meter())) as pieces:
        sizes = [sum(plane.buffer_size for plane in piece.frame.planes) for piece in pieces]
    assert len(sizes) > 1 and max(sizes) <= PIECE_BYTES
    here, there = heard(recording, decode_runs), heard(recording, decode_in_process)
    assert np.array_equal(here[0], there[0])


def test_what_stands_in_the_way_is_raised_here_as_it_would_be_without(media, tmp_path):
    path = tmp_path / "gone.mp4"
    path.write_bytes(media("a.mp4").read_bytes())
    recording = open_recording(path)
    path.unlink()
    with pytest.raises(UnreadableFile, match="does not exist") as here:
        list(decode_runs(recording.parts, 0, Meter()))
    with pytest.raises(UnreadableFile) as there:
        list(decode_in_process(recording.parts, 0, Meter()))
    assert str(here.value) == str(there.value)


def test_a_bug_in_the_other_process_says_where_it_was(media):
    recording = open_recording(media("a.mp4"))
    with pytest.raises(InternalError, match="a bug in earmark") as bug:
        list(decode_in_process(recording.parts, "first", Meter()))  # type: ignore[arg-type]
    assert "audio_decoder.py" in bug.value.__notes__[0]


def test_a_process_that_is_lost_is_told(long):
    before = set(multiprocessing.active_children())
    with closing(decode_in_process(long.parts, 0, Meter())) as pieces:
        next(pieces)
        (process,) = started(before)
        process.kill()
        with pytest.raises(BackendError, match=r"a\.wav: the process .* was lost \(code -9\)"):
            list(pieces)


def test_the_process_ends_with_whoever_asked_for_it(long):
    before = set(multiprocessing.active_children())
    pieces = decode_in_process(long.parts, 0, Meter())
    next(pieces)
    (process,) = started(before)
    pieces.close()
    assert process.exitcode is not None
    assert started(before) == []


@pytest.mark.skipif(cores() < 2, reason="a process of its own takes a second core")
def test_a_long_recording_is_decoded_apart_but_not_in_a_worker_nor_over_a_network(long, media):
    assert is_worth_a_process(long.parts)
    assert not is_worth_a_process([replace(long.parts[0], uri="https://example.org/a.wav")])
    assert not is_worth_a_process(open_recording(media("a.mp4")).parts)
    workers = WorkerProcesses(1, 600.0)
    ((_, in_a_worker),) = workers.run(is_worth_a_process, [long.parts])
    workers.close()
    assert in_a_worker is False
    before = set(multiprocessing.active_children())
    sound = long.sound()
    next(sound)
    assert len(started(before)) == 1
    del sound
    assert started(before) == []
    values = heard(long, decode_runs)[0]
    assert np.array_equal(whole_sound(long), values)


LISTENS = """
import sys
from earmark.media import open_recording
print(sum(len(block) for block in open_recording(sys.argv[1]).sound()))
"""


def test_a_script_without_a_guard_is_not_run_again(long, tmp_path):
    script = Path(tmp_path, "script.py")
    script.write_text(LISTENS)
    words = [sys.executable, str(script), long.source.uris[0]]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"{round(WORTH_A_PROCESS * RATE)}\n"
