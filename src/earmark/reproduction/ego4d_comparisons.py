"""Ego4D by way of EgoSound: its filter, its paired table, and a stored operating point on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from earmark.errors import EarmarkError
from earmark.evaluation.annotations.actions import Annotations
from earmark.evaluation.annotations.media_match import find_media
from earmark.evaluation.annotations.readers import SUFFIXES, detect, read_annotations
from earmark.evaluation.benchmark import BUDGETS, BenchmarkDesign, run
from earmark.evaluation.benchmark_results import BenchmarkResults
from earmark.evaluation.paper.operating_points import count_setting
from earmark.evaluation.paper.published_numbers import EGO4D_PAIRED
from earmark.evaluation.score_sources import MediaScores, scored
from earmark.evaluation.tables import figures
from earmark.evaluation.tables.coverage_tables import coverage_table
from earmark.gate.frontline_registry import gate_of
from earmark.grid import Grid
from earmark.media import open_recording
from earmark.reproduction.comparison import Comparison, Made, not_run
from earmark.reproduction.coverage_comparisons import describe_frontline, paired_rows
from earmark.reproduction.material import Material
from earmark.reproduction.paper_frontline import locate
from earmark.reproduction.published_quantities import RULE, paired
from earmark.selection import Budget

RULES = ("uniform", "strata", "rank", RULE, "aks", "bolt", "coverage")


def annotation_files(folder: Path) -> list[Path]:
    """The EgoSound files in `folder`, told by looking inside."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES & {".json", ".jsonl"}:
            try:
                if detect(path) == "egosound":
                    found.append(path)
            except EarmarkError:
                continue
    return found


def has_enough_windows(duration: float, *, window: float) -> bool:
    """Whether every budget of the sweep comes to a call at least."""
    windows = Grid(window).count(duration)
    return all(Budget(share=budget).calls(windows) >= 1 for budget in BUDGETS)


def make_ego4d(material: Material) -> Made:
    """The clips, the filter, the paired table and the operating point, as far as there is sound."""
    assert material.plan.ego4d is not None
    folder, window = material.plan.ego4d, material.plan.window
    files = annotation_files(folder)
    if not files:
        why = f"no EgoSound questions in {folder.name} (JSON with question and timestamp)"
        return Made([not_run("clips", 260, why)])
    try:
        sources = find_media([folder])
    except EarmarkError:
        sources = {}
    read = read_annotations(files, format="egosound")
    opened = {n: open_recording(each) for n, each in sources.items() if n in read.recordings}
    lengths = {name: each.duration for name, each in opened.items()}
    marked = read_annotations(files, format="egosound", durations=lengths)
    usable = [  # the paper's 247 of 260
        name
        for name, moments in marked.recordings.items()
        if moments and has_enough_windows(marked.durations[name], window=window)
    ]
    rows = _size_rows(marked, usable, bool(opened))
    chosen = [name for name in usable if name in opened]
    if not chosen:
        why = "bring the clips, files named as the questions name them, in --ego4d DIR"
        rows += [not_run(name, gain, why) for name, gain in paired(EGO4D_PAIRED)]
        return Made(rows)
    line = material.plan.frontlines[0]
    ran = f"{describe_frontline(material, line)}; EgoSound clips of Ego4D"
    own, gates = marked.only(chosen), {line: locate(material, line)}
    source = MediaScores(marked, own, opened, (line,), window, material.cache, gates)
    design = BenchmarkDesign(rules=RULES, subject=RULE, window=window)
    settings = {"clips": chosen, "annotations": own.fingerprint, **source.settings()}
    kept = material.room("ego4d", settings)
    done = run(source.tasks(), design, folder=kept, progress=material.progress)
    results = BenchmarkResults.of_rows(done.rows)
    rows += paired_rows(results, EGO4D_PAIRED, ran=ran, what="clips")
    rows += _point_rows(material, source, chosen, ran)
    subject, even = results.system(RULE), results.system("uniform")
    caption = "Ego4D, in calls: coverage of question-referenced moments, and calls saved."
    drawn = {"plane": (caption, lambda: figures.plane(results, subject, even))}
    return Made(rows, [replace(coverage_table(results), title="Coverage on Ego4D")], drawn)


def _size_rows(marked: Annotations, chosen: Sequence[str], is_heard: bool) -> list[Comparison]:
    """What there is and what the filter leaves."""
    unread = sum(marked.excluded.values())
    own = marked.only(chosen)
    ends = "" if is_heard else "lengths unknown without the clips: each ends with its last question"
    values = (
        ("clips", 260, len(marked.recordings)),
        ("hours", 7.45, marked.hours),
        ("annotations", 2346, marked.actions + unread),
        ("annotations without a readable timestamp", 7, unread),
        ("clips with readable moments and enough windows", 247, len(chosen)),
        ("their moments", 2234, own.actions),
        ("their hours", 7.4, own.hours),
    )
    return [Comparison(w, p, o, ran="EgoSound annotations", remarks=ends) for w, p, o in values]


def _point_rows(
    material: Material, source: MediaScores, names: Sequence[str], ran: str
) -> list[Comparison]:
    """The operating point that a gate was stored with, unchanged on the clips."""
    line = source.frontlines[0]
    gate = gate_of(locate(material, line))
    if gate is None:
        why = f"{line} has no stored operating point; give a .gate file first"
        return [not_run("moments retained, %", 80.0, why)]
    rule = gate.episodes(recall=material.plan.recall)
    (total,) = count_setting(scored(source, line, names), rule, window=material.plan.window)
    n, told = f"{len(names)} clips", f"stored for a dev recall of {100 * material.plan.recall:g} %"
    return [
        Comparison("moments retained, %", 80.0, 100 * total.recall, n, ran=ran, remarks=told),
        Comparison("of the stream, %", 44.5, 100 * total.retained, n, ran=ran, remarks=told),
    ]
