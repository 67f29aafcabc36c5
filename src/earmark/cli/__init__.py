"""The command line: parses arguments, calls the library, prints results and sets the exit code."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from earmark.cli.app import app
from earmark.errors import EarmarkError
from earmark.report.console import err
from earmark.settings import InvalidSetting, setting_named

logger = logging.getLogger(__name__)

INTERRUPTED = 130
"""Of typer, after Ctrl-C."""


def main() -> None:
    run(app)


def run(commands: Callable[..., Any], args: Sequence[str] | None = None, **choices: Any) -> None:
    """An error prints one line and exits 1.

    SIGTERM, which batch schedulers send, is treated like Ctrl-C: the command waits for answers in
    flight and stores them. The second signal waits for nothing: answers that have arrived are
    stored, and threads that decode or call end with the process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file name may be invalid Unicode
            is_unicode = stream.encoding.lower().startswith("utf")
            stream.reconfigure(errors="surrogateescape" if is_unicode else "backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        commands(args, **choices)
    except InvalidSetting as error:
        named = f"{_flag(error.name)}: " if error.name else ""
        err.print(f"earmark: {named}{error.reason}", style="red")
        sys.exit(1)
    except (EarmarkError, ValueError) as error:
        logger.debug("raised here", exc_info=True)
        err.print(f"earmark: {error}", style="red")
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        err.print(f"earmark: cannot go on: {where}{error.strerror or error}", style="red")
        sys.exit(1)
    except SystemExit as error:
        if error.code == INTERRUPTED:
            err.print("earmark: stopped; what was finished is kept, the same command goes on")
            sys.stdout.flush()
            sys.stderr.flush()
            from multiprocessing import active_children

            for worker in active_children():  # nothing waits for their results any more
                worker.kill()
            os._exit(INTERRUPTED)
        raise


def _flag(name: str) -> str:
    try:
        return f"--{setting_named(name).flag}"
    except InvalidSetting:
        return name
