"""Turns words on a command line into calls of the library; prints; exits."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the `earmark` command; one line and exit code 1 where something stands in the way."""
    from earmark.cli.app import app
    from earmark.cli.console import err
    from earmark.errors import EarmarkError

    try:
        app()
    except (EarmarkError, ValueError) as error:
        err.print(f"earmark: {error}", style="red")
        sys.exit(1)
    except OSError as error:
        err.print(f"earmark: {error.strerror or error}: nothing more can be written", style="red")
        sys.exit(1)
    except KeyboardInterrupt:
        err.print("earmark: stopped; what was finished is kept", style="red")
        sys.exit(130)
