"""Which rule finds most actions for the same number of calls, on recordings with known actions?

    python examples/compare_rules.py [--spans spans.csv --media videos/]

Without spans the example makes three short scenes, whose actions it knows.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

import earmark_lab
from earmark_lab.demo import make_scene


def film(folder: Path) -> Path:
    """Make three scenes in `folder`, and return the file with their actions."""
    spans = folder / "spans.csv"
    with spans.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["recording", "start", "end", "label"])
        for seed in range(3):
            scene = make_scene(folder / f"scene-{seed}.mp4", seed=seed, duration=60.0)
            for action in scene.actions:
                writer.writerow([scene.path.stem, action.start, action.end, action.label])
    return spans


def main() -> None:
    """Print the share of actions touched, by rule and budget."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=Path)
    parser.add_argument("--media", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spans = options.spans or film(Path(folder))
        result = earmark_lab.evaluate(
            spans,
            media=str(options.media or folder),
            rules=["uniform", "separated", "coverage"],
            budgets=[0.1, 0.25, 0.5],
        )
        print(result.report.tables[0].to_markdown())


if __name__ == "__main__":
    main()
