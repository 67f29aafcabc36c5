"""Caption the windows of a recording most worth a call.

    python examples/caption_windows.py [--server http://127.0.0.1:8000/v1] [RECORDING ...]

Without a server the job is done all the same and the captions are marked as not asked; the same
run with one goes on from there. Without recordings a small scene is filmed first.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import earmark
from earmark.media.demo_scene import make_scene


def main() -> None:
    """Caption, print what became of each pick, and do it again to show that nothing is asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", nargs="*")
    parser.add_argument("--server", help="address of an OpenAI-compatible server")
    parser.add_argument("--model", help="its name there, where there are several")
    parser.add_argument("--run", type=Path, help="the run's folder; the same one again resumes it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scene = Path(folder) / "scene.mp4"
        recordings = options.recordings or [make_scene(scene, duration=60.0).path]
        plan = earmark.make_plan(
            recordings,
            budget="20%",
            server=options.server,
            model=options.model,
            max_calls=100,
        )
        run = options.run or Path(folder) / "run"
        done = earmark.caption(plan=plan, run=run)
        print(done)
        with done.open() as kept:
            for recording in kept.recordings():
                for row in kept.picks(recording.id):
                    said = row.kept.answer.text if row.kept else row.failure or row.status
                    tags = ", ".join(row.tags)
                    print(f"  {row.span.start:7.1f}–{row.span.end:.1f} s: {said} [{tags}]")
        again = earmark.caption(plan=plan, run=run)
        print(f"run again, {again.tally.attempts} calls are made")


if __name__ == "__main__":
    main()
