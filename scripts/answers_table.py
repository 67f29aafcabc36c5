"""Prints what answers are worth, with the model played from annotations: rounds, enough, audit.

    python scripts/answers_table.py DATA experiments/answers/table.md

DATA holds `epic/`, `goalstep/`, `captaincook4d/`, `egoexolearn/`, `factory10k/`, `resound/` and
`shift/`. Composites are listened to with the gate that comes with earmark; of the others nothing is
heard, and rates and lengths come from the development half. Only the other half is judged.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from earmark.evaluation.annotations.readers import read_annotations
from earmark.evaluation.answer_bench import (
    BenchMaterial,
    audit_table,
    enough_table,
    is_development,
    rounds_table,
)
from earmark.evaluation.coverage_evaluation import EvaluationPlan, open_source
from earmark.media.atomic_file import replacing

SHARES = (0.05, 0.1, 0.15, 0.25)
DENSE = (0.05, 0.1, 0.15, 0.25, 0.335, 0.5)


def main() -> None:
    """Every table over every material that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", help="names of materials; all if none is given")
    parser.add_argument("--cache", type=Path, help="where what was heard is kept")
    options = parser.parse_args()
    found = [
        opened(name, budgets, cache=options.cache, **choices)
        for name, budgets, choices in materials(options.data)
        if not options.only or name in options.only
    ]
    text = ""
    for table in (rounds_table, enough_table, audit_table):
        text += table(found).to_markdown() + "\n"
        print(text, flush=True)
    with replacing(options.out) as scratch:
        scratch.write_text(text, encoding="utf-8")


def materials(data: Path) -> Iterator[tuple[str, tuple[float, ...], dict[str, Any]]]:
    """The name, budgets and files of each kind of recording."""
    steps = data / "goalstep" / "goalstep_valid.json"
    yield "GoalStep substeps", SHARES, {"spans": steps, "spans_format": "goalstep-substeps"}
    yield "GoalStep steps", SHARES, {"spans": steps, "spans_format": "goalstep"}
    heard = {"spans": data / "shift" / "actions.csv", "media": data / "shift"}
    yield "sparse composites", (0.02, *SHARES, 0.5), heard
    epic = {
        "spans": data / "epic" / "EPIC_100_validation.csv",
        "durations": data / "epic" / "EPIC_100_video_info.csv",
    }
    yield "EK-100 composites", DENSE, {**epic, "media": data / "resound"}
    yield "EK-100, unheard", DENSE, epic
    for name in ("captaincook4d", "egoexolearn", "factory10k"):
        yield name, SHARES, {"spans": data / name, "spans_format": name}


def opened(name: str, budgets: tuple[float, ...], **choices: Any) -> BenchMaterial:
    """The judged half of the recordings, as the benchmark takes them."""
    marked = read_annotations(choices["spans"], format=choices.get("spans_format"))
    judged = [each for each in marked.recordings if not is_development(each)]
    plan = EvaluationPlan(recordings=judged, answers="perfect", allow_missing=True, **choices)
    tasks = open_source(plan)[0].tasks()
    cases = [task() for task in tasks.values()]
    print(f"{name}: {len(cases)} recordings", flush=True)
    return BenchMaterial(name, [case for case in cases if case.actions], budgets)


if __name__ == "__main__":
    main()
