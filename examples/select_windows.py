"""Which windows of a recording are worth a call to a vision model?

    python examples/select_windows.py [RECORDING ...]

Without recordings the example makes a short scene. It decodes no frame and calls no model.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import earmark
from earmark_lab.demo import make_scene


def main(paths: list[str]) -> None:
    """Print a forecast, and the picks of a quarter of the windows."""
    with tempfile.TemporaryDirectory() as folder:
        recordings = paths or [str(make_scene(Path(folder) / "scene.mp4", duration=60.0).path)]

        forecast = earmark.plan(recordings)
        for rung in forecast.rungs:
            reached = "?" if rung.coverage is None else f"{rung.coverage:.0%}"
            print(f"{rung.calls:5} calls: {reached} of the actions expected")

        selection = earmark.select(recordings, budget="25%")
        for chosen in selection.recordings:
            print(chosen.path)
            for pick in chosen.picks:
                print(
                    f"  {pick.start:7.1f}–{pick.end:.1f} s, at {pick.instant:.2f} s: {pick.reason}"
                )
        for failed in selection.failures:
            print(f"{failed.path}: {failed.error}")


if __name__ == "__main__":
    main(sys.argv[1:])
