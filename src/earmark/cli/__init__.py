"""The command line: parses arguments, calls the library, prints results and sets the exit code."""

from earmark.cli.app import main, run

__all__ = ["main", "run"]
