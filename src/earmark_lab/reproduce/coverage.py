"""The selection results: every rule on scored recordings; Ego4D is read through EgoSound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from earmark.errors import EarmarkError
from earmark.grid import Grid
from earmark.media import open_recording
from earmark.selection import Budget
from earmark_lab.annotations.actions import Annotations, find_media
from earmark_lab.annotations.readers import detect, read_annotations
from earmark_lab.experiments import benchmark, figures
from earmark_lab.experiments import paper as published
from earmark_lab.experiments.benchmark import PHASES, BenchmarkDesign, BenchmarkRow, whole_calls
from earmark_lab.experiments.coverage_tables import (
    BenchmarkResults,
    System,
    coverage_table,
    occupancies,
    paired_table,
)
from earmark_lab.experiments.operating_points import count_setting
from earmark_lab.experiments.paper import RECORDINGS, RULE, SWEEP_BUDGETS, primary_of
from earmark_lab.experiments.report import Cells, Drawing, Table, p_value, percent
from earmark_lab.experiments.score_sources import (
    FittedScores,
    MediaScores,
    ScoreSource,
    score_recordings,
)
from earmark_lab.metrics.counts import CoverageCounts
from earmark_lab.metrics.statistics import correlate
from earmark_lab.reproduce.episodes import deployed_rule, make_trial
from earmark_lab.reproduce.inputs import NEEDS, PaperInputs
from earmark_lab.reproduce.printed import PRINTED, QUARTER, SPENT_BY, coverage_name, pair_name
from earmark_lab.reproduce.reproduction import Comparison, Made
from earmark_lab.training.dataset import participant

CROSSES: figures.Crosses = {
    "coverage": {
        RULE: ((25, 46.8), (50, 70.2)), "uniform": ((25, 40.9),), "bolt": ((50, 74.2),),
        "flow": ((25, 42.7),), "energy": ((25, 39.3),), "flux": ((25, 40.9),),
    },
    "saved": {RULE: ((5, 20.0), (25, 14.0)), "flow": ((5, 24.0), (25, 4.0))},
}  # fmt: skip
"""What the paper says of its figure: per cent of calls, and coverage or calls saved in per cent."""

SHOWN_RULES = ("uniform", "strata", "rank", RULE, "aks", "bolt", "coverage")


def run_rules(
    inputs: PaperInputs, source: ScoreSource, design: BenchmarkDesign, name: str, **settings: Any
) -> list[BenchmarkRow]:
    settings |= {"annotations": source.evaluated.fingerprint, **source.settings()}
    if isinstance(source, FittedScores):
        settings["fitted"] = source.annotations.fingerprint
    folder = inputs.results_folder(name, settings)
    return benchmark.run(source.tasks(), design, folder=folder, progress=inputs.progress).rows


def coverage_rows(inputs: PaperInputs, *, window: float = 4.0) -> list[BenchmarkRow]:
    source = inputs.scores(window)
    swept = ("uniform", "rank", RULE)
    rules = tuple(rule for rule in benchmark.COMPARED if window == 4.0 or rule in swept)
    budgets = benchmark.BUDGETS if window == 4.0 else tuple(sorted(SWEEP_BUDGETS))
    design = BenchmarkDesign(
        rules=rules, budgets=budgets, window=window, subject=RULE, rounding=inputs.plan.rounding
    )
    names = list(source.evaluated.recordings)
    return run_rules(
        inputs,
        source,
        design,
        "coverage",
        window=window,
        rules=rules,
        recordings=names,
        rounding=design.rounding,
    )


def load_results(inputs: PaperInputs, *, window: float = 4.0) -> BenchmarkResults:
    return BenchmarkResults.of_rows(coverage_rows(inputs, window=window))


def paired_rows(
    results: BenchmarkResults, printed: published.PaperPairs, *, ran: str, what: str = "recordings"
) -> Iterator[Comparison]:
    for budget, against in printed.items():
        for rule, theirs in against.items():
            if (results.system(rule), budget) not in results.counts:
                continue
            pair = results.pair(results.system(RULE), results.system(rule), budget)
            values = (pair.mean, f"{pair.recordings} {what}", pair.low, pair.high, ran)
            remarks = (
                f"W/L/T {theirs.record} there, {pair.record} here; median {theirs.median:+g} "
                f"there, {pair.median:+.1f} here; p {theirs.p} there, {p_value(pair.p)} here"
            )
            yield Comparison(pair_name(budget, rule), theirs.gain, *values, remarks)


def make_paired(inputs: PaperInputs) -> Iterator[Made]:
    results, ran = load_results(inputs), inputs.describe_scores()
    yield from paired_rows(results, published.PAIRED, ran=ran)
    yield from _seen_participant_rows(inputs, results, ran)
    yield coverage_table(results)
    yield paired_table(results, results.system(RULE))


def _seen_participant_rows(
    inputs: PaperInputs, results: BenchmarkResults, ran: str
) -> Iterator[Comparison]:
    people = {participant(name) for name in inputs.split.training if inputs.media}
    points = results.gains(results.system(RULE), 0.25, baseline=results.system("uniform"))
    gains = dict(zip(results.recordings, points, strict=True))
    second = {row.recording for row in published.REPLICATION}
    for paper, is_seen in ((6.0, False), (5.6, True)):
        people_are = "seen" if is_seen else "unseen"
        quantity = f"25 %: gain over uniform, {people_are} participants, points"
        own = [n for n in gains if (participant(n) in people) == is_seen]
        own = [n for n in own if n in second] or own
        if people and own:
            n, own_gains = f"{len(own)} recordings", [gains[name] for name in own]
            yield Comparison.mean(quantity, paper, own_gains, n=n, ran=ran)
        else:
            why = "no recording of such a participant is judged"
            yield Comparison.missing(quantity, paper, why)


def make_coverage(inputs: PaperInputs) -> Iterator[Made]:
    found_rows, ran = coverage_rows(inputs), inputs.describe_scores()
    results, printed = BenchmarkResults.of_rows(found_rows), PRINTED["coverage"]
    sets = {
        name.removeprefix("paper-").replace("paper", "pooled"): [
            recording for recording in names if recording in results.recordings
        ]
        for name, names in RECORDINGS.items()
    }
    sets = sets if any(sets.values()) else {"stand-ins": results.recordings}
    rows: list[Cells] = []
    for set_name, names in sets.items():
        chosen = results.only(names)
        for rule, budget in product(SHOWN_RULES if names else (), results.budgets):
            counts = chosen.by_recording(chosen.system(rule), budget).values()
            total = sum(counts, CoverageCounts())
            quantity = coverage_name(set_name, rule, budget)
            n = f"{total.actions} actions of {len(counts)} recordings"
            paper = printed.get(quantity)
            yield Comparison.coverage(quantity, paper, counts, n=n, ran=ran)
            shares = (100 * total.coverage, 100 * total.strict_coverage)
            rows.append((set_name, rule, percent(budget), *shares, total.calls, total.windows))
    yield from _spending_rows(inputs, results.only(primary_of(results.recordings)), ran)
    columns = ("set", "rule", "calls", "coverage %", "strict %", "calls made", "windows")
    note = "Strict: the instant that is shown lies inside the action."
    yield Table("Coverage and strict coverage, pooled", columns, rows, note)
    yield _plane(found_rows, results.system(RULE), results.system("uniform"))


def _spending_rows(
    inputs: PaperInputs, results: BenchmarkResults, ran: str
) -> Iterator[Comparison]:
    """What the text says of the rules on the primary set."""
    printed, ours = PRINTED["coverage"], results.system(RULE)
    n, half = f"{results.with_actions} recordings", results.pooled(ours, 0.5)
    quantity = f"primary: calls that {RULE} spends at half"
    sizes = [counts.windows for counts in results.by_recording(ours, 0.5).values()]
    remarks = f"of {sum(whole_calls(0.5, size, inputs.plan.rounding) for size in sizes)}"
    yield Comparison(quantity, printed[quantity], half.calls, n, ran=ran, remarks=remarks)
    for rule, budget in (("aks", 0.335), *(("bolt", share) for share in results.budgets[:-1])):
        quantity = f"primary, {RULE} minus {rule} at {percent(budget)}, pooled, points"
        pairs = [results.by_recording(system, budget) for system in (ours, results.system(rule))]
        more = [pairs[0][name].covered - pairs[1][name].covered for name in pairs[0]]
        actions = [counts.actions for counts in pairs[0].values()]
        yield Comparison.pooled(quantity, printed.get(quantity), more, actions, n=n, ran=ran)


def _plane(rows: Sequence[BenchmarkRow], subject: System, even: System) -> Drawing:
    names = primary_of(dict.fromkeys(row.recording for row in rows))
    drawn = [row for row in rows if row.frontline == subject[0] or row.rule == "rank"]
    results = BenchmarkResults.of_rows(row for row in drawn if row.rule not in ("facility", PHASES))
    results = results.only(names)
    is_primary = set(names) <= set(RECORDINGS["paper-primary"])
    who = "the paper's primary set" if is_primary else "the recordings that are judged"
    caption = (
        f"Coverage against calls on {who}: every rule on the gate's scores, the other frontlines "
        "ranked, as in the paper. Crosses are the paper's own numbers."
    )
    return Drawing(
        "plane", caption, partial(figures.plane, results, subject, even, crosses=CROSSES)
    )


def make_savings(inputs: PaperInputs) -> Iterator[Comparison]:
    """On the primary set, as the paper's numbers are."""
    results = load_results(inputs)
    results = results.only(primary_of(results.recordings))
    line, even = results.frontlines[0], results.system("uniform")
    flows = [name for name in results.frontlines if name.partition(":")[0] == "flow"]
    systems = [((line, RULE), "the gate"), *(((flow, "rank"), "flow") for flow in flows)]
    n = f"{results.with_actions} recordings"
    for system, name in systems:
        ran = inputs.describe_scores(system[0])
        remarks = "; the paper: 9 to 20 % below half, negative above" if system[0] == line else ""
        remarks += ", and 17 % at 5 % where it compares with flow" if system[0] == line else ""
        for budget in results.budgets:
            saved = 100 * results.saved(system, budget, baseline=even)
            low, high = results.saved_interval(system, budget, baseline=even)
            ends = (100 * low, 100 * high)
            quantity = f"{percent(budget)}: calls saved by {system[1]} of {name}, %"
            note = (
                f"{100 * results.pooled(system, budget).cost:.1f} % of the windows asked{remarks}"
            )
            paper = PRINTED["savings"].get(quantity)
            yield Comparison(quantity, paper, saved, n, *ends, ran, note)


def make_correlation(inputs: PaperInputs) -> Iterator[Made]:
    results, ran = load_results(inputs), inputs.describe_scores()
    occupancy = occupancies(inputs.scores().evaluated, results, window=4.0)
    subject, even = results.system(RULE), results.system("uniform")
    there = "there p 0.003, one left out -0.64 to -0.45; "
    for budget, pearson, spearman, words in ((0.05, -0.59, -0.59, there), (0.5, 0.0, None, "")):
        correlation = correlate(results.gains(subject, budget, baseline=even), occupancy)
        n, calls = f"{correlation.recordings} recordings", percent(budget)
        remarks = f"{words}here p {p_value(correlation.pearson_p)}, "
        remarks += f"one left out {correlation.low:.2f} to {correlation.high:.2f}"
        straight = (f"{calls}: Pearson", pearson, correlation.pearson, n)
        yield Comparison(*straight, ran=ran, remarks=remarks)
        yield Comparison(f"{calls}: Spearman", spearman, correlation.spearman, n, ran=ran)


def make_recordings(inputs: PaperInputs) -> Iterator[Comparison]:
    results, ran = load_results(inputs), inputs.describe_scores()
    points = results.points(results.system(RULE), 0.25)
    printed = {row.recording: row.ours for row in published.PRIMARY + published.REPLICATION}
    for name, value in zip(results.recordings, points, strict=True):
        quantity = f"{name}: {RULE} at 25 %, %"
        yield Comparison(quantity, printed.get(name), value, "1 recording", ran=ran)
    is_paper = set(results.recordings) == set(RECORDINGS["paper"])
    size, paper = len(points), 54.6 if is_paper else None
    yield Comparison.mean(f"mean of {size}", paper, points, n=f"{size} recordings", ran=ran)


def make_window_gains(inputs: PaperInputs) -> Iterator[Comparison]:
    """The paper's numbers are of its primary set."""
    ran = inputs.describe_scores()
    for window, printed in published.WINDOW_GAINS.items():
        results = load_results(inputs, window=window)
        names = primary_of(results.recordings)
        for budget, paper in zip(SWEEP_BUDGETS, printed, strict=True):
            ranked, even = (
                results.by_recording(results.system(rule), budget) for rule in ("rank", "uniform")
            )
            more = [ranked[name].covered - even[name].covered for name in names]
            actions = [even[name].actions for name in names]
            quantity = f"{window:g} s, {percent(budget)}: rank minus uniform, points"
            n = f"{len(names)} recordings"
            yield Comparison.pooled(quantity, paper, more, actions, n=n, ran=ran)


def make_frontlines(inputs: PaperInputs) -> Iterator[Comparison]:
    """Spent by ranking, as in the paper's plane, and by one threshold, as in its Table I."""
    results = load_results(inputs)
    lines = dict.fromkeys(("uniform", "gate"), results.frontlines[0])
    lines |= {line: line for line in results.frontlines[1:]}
    for name in {**published.AT_A_QUARTER, **lines}:
        paper, rule = published.AT_A_QUARTER.get(name), SPENT_BY.get(name, "rank")
        quantity = QUARTER.format(name, rule)
        if name not in lines:
            yield Comparison.missing(quantity, paper, f"add {name} to --frontlines")
            continue
        by_recording = results.by_recording((lines[name], rule), 0.25)
        counts = [by_recording[recording] for recording in primary_of(results.recordings)]
        ran = "nothing is heard" if rule == "uniform" else inputs.describe_scores(lines[name])
        yield Comparison.coverage(quantity, paper, counts, ran=ran)
        if rule == "rank":
            spent = make_trial(inputs, lines[name]).spend_threshold(0.25)
            asked = 100 * sum(spent, CoverageCounts()).cost
            remarks = f"chosen to ask 25 % in development; here {asked:.1f} %"
            label = QUARTER.format(name, "thresholded")
            yield Comparison.coverage(label, None, spent, ran=ran, remarks=remarks)
    ran = inputs.describe_scores(results.frontlines[0])
    for rule in ("rank", "aks", "bolt", "facility", "random", "coverage"):
        by_recording = results.by_recording(results.system(rule), 0.25)
        counts = [by_recording[recording] for recording in primary_of(results.recordings)]
        yield Comparison.coverage(QUARTER.format("gate", rule), None, counts, ran=ran)


def annotation_files(folder: Path) -> list[Path]:
    files = []
    for path in sorted(folder.rglob("*")):
        with suppress(EarmarkError):
            if path.suffix in {".json", ".jsonl"} and detect(path) == "egosound":
                files.append(path)
    return files


def has_enough_windows(duration: float, *, window: float) -> bool:
    windows = Grid(window).count(duration)
    return all(Budget(share=budget).calls(windows) >= 1 for budget in benchmark.BUDGETS)


def make_ego4d(inputs: PaperInputs) -> Iterator[Made]:
    assert inputs.plan.ego4d is not None
    folder, window = inputs.plan.ego4d, inputs.plan.window
    files = annotation_files(folder)
    if not files:
        why = f"no EgoSound questions in {folder.name} (JSON with question and timestamp)"
        yield Comparison.missing("clips", 260, why)
        return
    sources = {}
    with suppress(EarmarkError):
        sources = find_media([folder])
    read = read_annotations(files, format="egosound")
    opened = {n: open_recording(each) for n, each in sources.items() if n in read.recordings}
    lengths = {name: each.duration for name, each in opened.items()}
    marked = read_annotations(files, format="egosound", durations=lengths)
    usable = [  # the paper's 247 of 260
        name
        for name, moments in marked.recordings.items()
        if moments and has_enough_windows(marked.durations[name], window=window)
    ]
    yield from _size_rows(inputs, marked, usable, bool(opened))
    chosen = [name for name in usable if name in opened]
    if not chosen:
        why = "bring the clips, files named as the questions name them, in --ego4d DIR"
        yield Comparison.missing("paired comparison", "in the paper", why)
        return
    line = inputs.plan.frontlines[0]
    ran = f"{inputs.describe_frontline(line)}; {inputs.plan.clips}"
    own, gates = marked.only(chosen), {line: inputs.resolve_frontline(line)}
    source = MediaScores(marked, own, opened, (line,), window, inputs.cache, gates)
    design = BenchmarkDesign(
        rules=SHOWN_RULES, subject=RULE, window=window, rounding=inputs.plan.rounding
    )
    rows = run_rules(inputs, source, design, "ego4d", clips=chosen, rounding=design.rounding)
    results = BenchmarkResults.of_rows(rows)
    yield from paired_rows(results, published.EGO4D_PAIRED, ran=ran, what="clips")
    yield from _point_rows(inputs, source, chosen, ran)
    yield replace(coverage_table(results), title=f"Coverage on {inputs.plan.clips}")
    name = inputs.plan.audio_is or "Ego4D"
    caption = f"{name}, in calls: coverage of question-referenced moments, and calls saved."
    draw = partial(figures.plane, results, results.system(RULE), results.system("uniform"))
    yield Drawing("plane", caption, draw)


def _size_rows(
    inputs: PaperInputs, marked: Annotations, chosen: Sequence[str], is_heard: bool
) -> list[Comparison]:
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
    ran = f"annotations of {inputs.plan.clips}"
    return [Comparison(w, p, o, ran=ran, remarks=ends) for w, p, o in values]


def _point_rows(
    inputs: PaperInputs, source: MediaScores, names: Sequence[str], ran: str
) -> list[Comparison]:
    """The operating point of `operating-points`, without adaptation."""
    if absent := [NEEDS[need] for need in ("epic", "audio") if inputs.lacks(need)]:
        why = f"bring {'; '.join(absent)} to choose the operating point on"
        return [Comparison.missing("moments retained, %", 80.0, why)]
    rule = deployed_rule(inputs)
    if rule is None:
        return [Comparison.missing("moments retained, %", 80.0, "no threshold reaches 93 %")]
    scored = score_recordings(source, source.frontlines[0], names)
    (total,) = count_setting(scored, rule, window=inputs.plan.window)
    chosen = f"chosen on {len(inputs.split.development)} development recordings"
    n, remarks = f"{len(names)} clips", f"a dev recall of 93 %, {chosen}"
    return [
        Comparison("moments retained, %", 80.0, 100 * total.recall, n, ran=ran, remarks=remarks),
        Comparison("of the stream, %", 44.5, 100 * total.retained, n, ran=ran, remarks=remarks),
    ]
