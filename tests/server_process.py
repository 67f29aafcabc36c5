"""A server in a process of its own that ends with the block.

with server_process([sys.executable, "a_server.py"]) as said:    # the first line it printed
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def server_process(command: Sequence[str], *, is_quiet: bool = False) -> Iterator[str]:
    """The first line that the process prints, once it listens; by it a server says where it is.

    Its standard input stays open until the end of the block or of this process; what it complains
    of is heard unless it is to be quiet.
    """
    errors = subprocess.DEVNULL if is_quiet else None
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline().strip()
            assert said, f"the server ended at once with code {process.wait()}"
            yield said
        finally:
            process.terminate()
