"""LiteRT says nothing aside that is not worth a line; a network is opened once and lent."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from earmark.errors import ModelMismatch, ModelMissing
from earmark.models import ModelStore
from earmark.models.sessions import borrow, class_names
from making import make_audio

PROGRAM = """
import os, sys
from pathlib import Path
from earmark.models import sessions

sessions.open_network("yamnet", Path(sys.argv[1]))
with sessions._hide_info_lines():
    os.write(2, b"INFO: nothing\\nERROR: something\\n")
os.write(2, b"INFO: mine\\n")
"""


def test_only_its_info_lines_are_left_out():
    pytest.importorskip("ai_edge_litert")
    try:
        path = ModelStore().find("yamnet")
    except ModelMissing as error:
        pytest.skip(str(error))
    words = [sys.executable, "-c", PROGRAM, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "ERROR: something\nINFO: mine\n")


TOGETHER = """
import os, threading, time
from earmark.models import sessions

def open_one():
    with sessions._hide_info_lines():
        time.sleep(0.01)

threads = [threading.Thread(target=open_one) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
os.write(2, b"still here")
"""


def test_threads_that_open_networks_together_leave_the_error_stream_as_it_was():
    words = [sys.executable, "-c", TOGETHER]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == "still here"


def test_a_network_is_lent_to_one_at_a_time_and_opened_again_when_its_file_changed(tmp_path):
    path = tmp_path / "network"
    path.write_bytes(b"one")

    def opened(path):
        return [path.read_bytes()]

    with borrow(opened, path) as first, borrow(opened, path) as second:
        assert first == second == [b"one"]
        assert first is not second
    with borrow(opened, path) as third:
        assert third is first or third is second
    path.write_bytes(b"another")
    with borrow(opened, path) as fourth:
        assert fourth == [b"another"]


def test_a_damaged_file_has_no_class_names(tmp_path):
    path = tmp_path / "yamnet.tflite"
    path.write_bytes(bytes(1000))
    with pytest.raises(ModelMismatch, match=r"yamnet\.tflite is damaged: it has no class names"):
        class_names(path)


def test_onnx_runtime_keeps_and_sends_no_record_of_its_use(tmp_path):
    """From 1.31 on it has an id of the machine in the user's cache, and reports to its maker."""
    path = make_audio(tmp_path / "a.wav", duration=8.0, clicks=[5.0])
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    own = {name: value for name, value in os.environ.items() if not name.startswith("ORT_")}
    command = [sys.executable, "-m", "earmark", "select", str(path), "--budget", "1"]
    subprocess.run(command, env={**own, **home}, check=True, stdout=subprocess.DEVNULL)
    assert [one.name for one in (tmp_path / "cache").iterdir()] == ["earmark"]
