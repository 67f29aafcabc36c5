"""Prints what answers are worth, with the model played from annotations: rounds, enough, audit.

    python scripts/answers_table.py DATA RUNS experiments/answers/table.md

DATA holds `epic/`, `goalstep/`, `captaincook4d/`, `egoexolearn/`, `factory10k/`, `resound/` and
`shift/`; RUNS is what `make_default_gate.py --splits 0 1 2` left. A composite is heard by the gate
of the split that holds its person out, with rates and lengths of the other people of that part; of
the other recordings nothing is heard, and rates and lengths come from the development half. Only
the other half is judged. Every part of the tables is kept in RUNS, and a stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import composites
from answer_bench import (
    BenchMaterial,
    audit_table,
    bounds_table,
    enough_table,
    is_development,
    rounds_table,
)
from make_default_gate import gather_all, held_out

from earmark.gate.gate import Gate
from earmark.media.atomic_file import replacing
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.experiments.benchmark import Case
from earmark_lab.experiments.coverage_evaluation import EvaluationPlan, open_score_source
from earmark_lab.experiments.report import Table
from earmark_lab.training.calibration import crossed_cases

SHARES = (0.05, 0.1, 0.15, 0.25)
DENSE = (0.05, 0.1, 0.15, 0.25, 0.335, 0.5)


def main() -> None:
    """Every table over every material that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="*", help="names of materials; all if none is given")
    options = parser.parse_args()
    found = {
        name: Opener(options.data, options.runs, name, budgets, choices)
        for name, budgets, choices in materials(options.data)
        if not options.only or name in options.only
    }
    text = ""
    for table in (rounds_table, bounds_table, enough_table, audit_table):
        text += whole(table, found, options.runs / "answers").to_markdown() + "\n"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(options.out) as scratch:
        scratch.write_text(text, encoding="utf-8")


def materials(data: Path) -> Iterator[tuple[str, tuple[float, ...], dict[str, Any]]]:
    """The name, budgets and files of each kind of recording; composites have no files here."""
    steps = data / "goalstep" / "goalstep_valid.json"
    yield "sparse composites", (0.02, *SHARES, 0.5), {}
    yield "EK-100 composites", DENSE, {}
    yield "GoalStep substeps", SHARES, {"spans": steps, "spans_format": "goalstep-substeps"}
    yield "GoalStep steps", SHARES, {"spans": steps, "spans_format": "goalstep"}
    epic = {
        "spans": data / "epic" / "EPIC_100_validation.csv",
        "durations": data / "epic" / "EPIC_100_video_info.csv",
    }
    yield "EK-100 without sound", DENSE, epic
    for name in ("captaincook4d", "egoexolearn", "factory10k"):
        yield name, SHARES, {"spans": data / name, "spans_format": name}


class Opener:
    """The judged half of the recordings of one kind, read when they are first wanted."""

    def __init__(self, *choices: Any) -> None:
        self.choices = choices
        self.found: BenchMaterial | None = None

    def __call__(self) -> BenchMaterial:
        """The recordings with an action."""
        data, runs, name, budgets, choices = self.choices
        if self.found is None:
            cases = unheard(**choices) if choices else heard(data, runs, name)
            self.found = BenchMaterial(name, [case for case in cases if case.actions], budgets)
        return self.found


def unheard(**choices: Any) -> list[Case]:
    """Recordings of which nothing is heard."""
    marked = read_annotations(choices["spans"], format=choices.get("spans_format"))
    judged = [each for each in marked.recordings if not is_development(each)]
    plan = EvaluationPlan(recordings=judged, answers="perfect", allow_missing=True, **choices)
    return [task() for task in open_score_source(plan)[0].tasks().values()]


def heard(data: Path, runs: Path, name: str) -> list[Case]:
    """The composites of one kind."""
    is_sparse = name.startswith("sparse")
    return [
        case
        for case in all_composites(data, runs)
        if case.recording.endswith(composites.SPARSE) == is_sparse
    ]


@cache
def all_composites(data: Path, runs: Path) -> list[Case]:
    """Every judged composite, scored and rated by what has not met its person."""
    material = gather_all(data, runs)
    found: list[Case] = []
    for split, names in enumerate(held_out(sorted(material))):
        gate = Gate.load(runs / f"split-{split}" / "gate.gate")
        part = {name: material[name] for name in names}
        scores = {name: gate.scorer.score_whole(part[name].features) for name in names}
        found += crossed_cases(scores, part, gate.hedge)
    return [case for case in found if not is_development(case.recording)]


def whole(table: Any, openers: dict[str, Opener], kept: Path) -> Table:
    """The table over all materials, each part of it made once and kept."""
    rows: list[tuple[Any, ...]] = []
    shape = table([])
    for name, opener in openers.items():
        path = kept / table.__name__ / f"{name}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            made = table([opener()])
            with replacing(path) as scratch:
                scratch.write_text(json.dumps(made.rows), encoding="utf-8")
            print(made.to_markdown(), flush=True)
        rows += map(tuple, json.loads(path.read_text(encoding="utf-8")))
    return replace(shape, rows=rows)


if __name__ == "__main__":
    main()
