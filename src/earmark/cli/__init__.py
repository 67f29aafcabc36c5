"""Turns words on a command line into calls of the library; prints; exits."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys

from earmark.cli.app import app
from earmark.errors import EarmarkError
from earmark.reporting.console import err

logger = logging.getLogger(__name__)

INTERRUPTED = 130
"""What typer ends with on Ctrl-C."""


def main() -> None:
    """Run the `earmark` command; one line and exit code 1 where something stands in the way.

    A polite request to end (SIGTERM, as batch schedulers send) is treated like Ctrl-C: answers
    still in flight are awaited and kept. The second one waits for nothing: what has arrived is
    kept, and threads that decode or call are ended with the process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file's name may be no text: print it as it is
            is_unicode = stream.encoding.lower().startswith("utf")
            stream.reconfigure(errors="surrogateescape" if is_unicode else "backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except (EarmarkError, ValueError) as error:
        logger.debug("raised here", exc_info=True)
        err.print(f"earmark: {error}", style="red")
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        err.print(f"earmark: cannot go on: {where}{error.strerror or error}", style="red")
        sys.exit(1)
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:
            err.print("earmark: stopped; what was finished is kept, the same command goes on")
            sys.stdout.flush()
            sys.stderr.flush()
            from multiprocessing import active_children

            for worker in active_children():  # nobody waits for them any more
                worker.kill()
            os._exit(INTERRUPTED)
        raise
