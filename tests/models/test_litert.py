"""LiteRT says nothing aside that is not worth a line; a network is opened once and lent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from earmark.errors import ModelMismatch, ModelMissing
from earmark.models import ModelStore
from earmark.models.litert import borrow, class_names

PROGRAM = """
import os, sys
from pathlib import Path
from earmark.models import litert

litert.open_network("yamnet", Path(sys.argv[1]))
with litert._hide_info_lines():
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
from earmark.models import litert

def open_one():
    with litert._hide_info_lines():
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
