"""Caption the windows of a recording most worth a call.

    python examples/caption_windows.py [--model http://127.0.0.1:8000/v1] [RECORDING ...]

Without a model the picks are marked as not asked; the same run with a model continues from there.
Without recordings the example makes a short scene.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import earmark
from earmark_lab.demo import make_scene


def main() -> None:
    """Caption, print each pick, and caption again to show that no answer is asked for twice."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", nargs="*")
    parser.add_argument("--model", help="http://HOST/v1#NAME, gguf:FILE or hf:NAME")
    parser.add_argument("--run", type=Path, help="folder of the run; an existing run is continued")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scene = Path(folder) / "scene.mp4"
        recordings = options.recordings or [make_scene(scene, duration=60.0).path]
        settings = earmark.Settings.read(
            {"budget": "20%", "model": options.model, "max_calls": 100}
        )
        run = options.run or Path(folder) / "run"
        done = earmark.caption(recordings, run=run, settings=settings)
        print(done)
        with done.open() as opened:
            for recording in opened.recordings():
                for pick in opened.picks(recording.id):
                    caption = pick.caption or pick.failure or pick.status
                    tags = ", ".join(pick.tags)
                    print(f"  {pick.start:7.1f}–{pick.end:.1f} s: {caption} [{tags}]")
        again = earmark.caption(recordings, run=run, settings=settings)
        print(f"the second time {again.tally.attempts} calls are made")


if __name__ == "__main__":
    main()
