"""LiteRT says nothing aside that is not worth a line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from earmark.errors import ModelMissing
from earmark.models import ModelStore

PROGRAM = """
import os, sys
from pathlib import Path
from earmark.models import litert

litert.open_network("yamnet", Path(sys.argv[1]))
with litert._without_info_lines():
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
