"""Ray of these tests alone, and a time limit on each: what hangs fails."""

from __future__ import annotations

import faulthandler
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT = 300
"""Seconds a test may take, its fixtures included."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Fail a test that hangs; end the process if even that does not help."""

    def fail(*_: object) -> None:
        pytest.fail(f"{item.name} was not finished after {LIMIT} s")

    previous = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, LIMIT, 30)
    faulthandler.dump_traceback_later(2 * LIMIT, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.fixture(scope="session", autouse=True)
def ray_folder() -> Iterator[Path]:
    """Where Ray keeps its sockets; with what a killed cluster leaves behind.

    Not in `tmp_path`: the path of a socket has at most 107 characters.
    """
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    (folder / "ray").mkdir()
    (folder / "ray" / "ray_current_cluster").write_text("127.0.0.1:9")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", str(folder))
        patch.delenv("RAY_ADDRESS", raising=False)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)
