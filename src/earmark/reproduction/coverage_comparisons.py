"""The selection results: every rule on scored recordings, set by set, beside the paper's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from earmark.evaluation.benchmark import (
    BUDGETS,
    COMPARED,
    PHASES,
    BenchmarkDesign,
    BenchmarkRow,
    run,
)
from earmark.evaluation.benchmark_results import BenchmarkResults, System
from earmark.evaluation.experiment_report import Drawing
from earmark.evaluation.metrics.coverage_counts import CoverageCounts
from earmark.evaluation.metrics.significance import bootstrap_ratio, compare_paired, correlate
from earmark.evaluation.paper.occupancy_survey import SWEEP_BUDGETS, WINDOWS
from earmark.evaluation.paper.published_numbers import (
    AT_A_QUARTER,
    PAIRED,
    RECORDINGS,
    REPLICATION,
    PaperPair,
)
from earmark.evaluation.score_sources import MediaScores, SoundEventScores
from earmark.evaluation.sound_event_listener import split_for_fitting
from earmark.evaluation.tables import figures
from earmark.evaluation.tables.coverage_tables import coverage_table, occupancies, paired_table
from earmark.evaluation.tables.table import mean, p_value, percent
from earmark.gate.frontline_registry import frontline_named, gate_of
from earmark.reproduction.comparison import Comparison, Made
from earmark.reproduction.material import Material
from earmark.reproduction.paper_frontline import PAPER_HEAD, locate, what_ran
from earmark.reproduction.published_quantities import (
    PER_RECORDING,
    RULE,
    SEEN,
    WINDOW_ROWS,
    pair_name,
    primary_of,
    recording_name,
    seen_name,
    window_name,
)
from earmark.training.split import participant

HeardScores = MediaScores | SoundEventScores
"""Where scores come from here: sound, or annotated sound events."""

PRINTED_POINTS = (
    ("uniform", 25.0, 40.9),
    ("ours", 25.0, 46.8),
    ("ours", 50.0, 70.2),
    ("BOLT", 50.0, 74.2),
    *((name, 25.0, AT_A_QUARTER[name]) for name in ("flow", "energy", "flux")),
)
"""Points of the paper's plane that its text gives: calls and coverage in per cent."""

PRINTED_SAVINGS = (
    ("ours", 5.0, 20.0),
    ("ours beside flow", 5.0, 17.0),
    ("ours beside flow", 25.0, 14.0),
    ("flow", 5.0, 24.0),
    ("flow", 25.0, 4.0),
)
"""Calls saved that its text gives, of the same form; it has two numbers for its own rule at 5 %."""


def open_scores(material: Material, *, window: float = 4.0) -> tuple[HeardScores, str]:
    """What scores the recordings that are judged, and a line that says what really ran."""
    return material.once(f"scores {window:g}", lambda: _open_scores(material, window))


def _open_scores(material: Material, window: float) -> tuple[HeardScores, str]:
    plan, marked = material.plan, material.marked
    if material.media:
        names = (*material.split.judged, *material.split.development)
        opened = {name: material.recording(name) for name in names}
        own = marked.only(material.split.judged)
        lengths = {**marked.durations, **{n: each.duration for n, each in opened.items()}}
        everything = replace(marked, durations=lengths)
        own = everything.only(own.recordings)
        files = {line: locate(material, line) for line in plan.frontlines}
        source = MediaScores(
            everything, own, opened, plan.frontlines, window, material.cache, files
        )
        return source, describe_listening(material, plan.frontlines[0])
    assert material.events is not None and material.epic is not None
    split = split_for_fitting(material.epic, RECORDINGS["paper"])
    heard = SoundEventScores(material.epic, material.events, split, window)
    return heard, f"annotated sound events in place of a gate, {split.words}; no audio"


def describe_frontline(material: Material, name: str) -> str:
    """What listens: the head, its encoder, its weights and what taught it, as they really are."""
    file = locate(material, name)
    line, gate = frontline_named(file), gate_of(file)
    if gate is None:
        return f"{name}: {line.encoder!r}, {type(line.scorer).__name__}"
    head = f"{name}: trained head {gate.scorer.digest[:8]} over {line.encoder!r}"
    if name == PAPER_HEAD:
        return f"{head}, {what_ran(material, material.plan.encoders[0])}"
    taught, kind = gate.card.data, material.plan.audio_is
    met = f"; has met {kind} in training, so not held out" if kind in taught else ""
    return f"{head}, trained on {taught.partition(':')[0]}{met}"


def describe_listening(material: Material, name: str) -> str:
    """What listens, and to what."""
    listens = describe_frontline(material, name)
    return listens if name == PAPER_HEAD else f"{listens}; {material.plan.audio_is}"


def coverage_rows(material: Material, *, window: float = 4.0) -> tuple[list[BenchmarkRow], str]:
    """Every rule at every budget on every judged recording; kept, and resumed."""
    source, ran = open_scores(material, window=window)
    rules = tuple(rule for rule in COMPARED if window == 4.0 or rule in ("uniform", "rank", RULE))
    budgets = BUDGETS if window == 4.0 else tuple(sorted(SWEEP_BUDGETS))
    design = BenchmarkDesign(rules=rules, budgets=budgets, window=window, subject=RULE)
    settings = {
        "window": window,
        "rules": rules,
        "recordings": list(source.evaluated.recordings),
        "annotations": source.evaluated.fingerprint,
        **source.settings(),
    }
    folder = material.room("coverage", settings)
    done = run(source.tasks(), design, folder=folder, progress=material.progress)
    return done.rows, ran


def judged_results(material: Material) -> tuple[BenchmarkResults, str]:
    """The rows, ready to be asked; `EarmarkError` is left to the caller."""
    rows, ran = coverage_rows(material)
    return BenchmarkResults.of_rows(rows), ran


def sets_of(results: BenchmarkResults) -> dict[str, list[str]]:
    """The recordings of each set that are here; all of them under one name where none is."""
    found = {
        name.removeprefix("paper-").replace("paper", "pooled"): [
            each for each in names if each in results.recordings
        ]
        for name, names in RECORDINGS.items()
    }
    known = {name: names for name, names in found.items() if names}
    return known or {"stand-ins": list(results.recordings)}


def paired_rows(
    results: BenchmarkResults,
    printed: Mapping[float, Mapping[str, PaperPair]],
    *,
    ran: str,
    what: str = "recordings",
) -> list[Comparison]:
    """The paper's paired table beside ours: its rule minus each other one, at each budget."""
    line = results.frontlines[0]
    rows = []
    for budget, against in printed.items():
        for rule, theirs in against.items():
            if budget not in results.budgets or (line, rule) not in results.systems:
                continue
            pair = compare_paired(
                results.points((line, RULE), budget), results.points((line, rule), budget)
            )
            rows.append(
                Comparison(
                    pair_name(budget, rule),
                    theirs.gain,
                    pair.mean,
                    f"{pair.recordings} {what}",
                    pair.low,
                    pair.high,
                    ran,
                    f"W/L/T {theirs.record} there, {pair.record} here; median {theirs.median:+g} "
                    f"there, {pair.median:+.1f} here; p {theirs.p} there, {p_value(pair.p)} here",
                )
            )
    return rows


def make_paired(material: Material) -> Made:
    """The paired comparison on EPIC-KITCHENS-100 at every budget, and seen and unseen people."""
    results, ran = judged_results(material)
    rows = paired_rows(results, PAIRED, ran=ran)
    rows += _seen_rows(material, results, ran)
    own = [coverage_table(results), paired_table(results, (results.frontlines[0], RULE))]
    return Made(rows, own)


def _seen_rows(material: Material, results: BenchmarkResults, ran: str) -> list[Comparison]:
    """The gain over even spacing at a quarter on participants who are, and are not, trained on."""
    trained = material.split.training if material.media else ()
    people = {participant(name) for name in trained}
    line, rows = results.frontlines[0], []
    gains = dict(
        zip(
            results.recordings,
            results.gains((line, RULE), 0.25, baseline=(line, "uniform")),
            strict=True,
        )
    )
    second = [row.recording for row in REPLICATION]
    printed = dict(SEEN)
    for word, is_seen in (("unseen", False), ("seen", True)):
        own = [n for n in gains if (participant(n) in people) == is_seen]
        own = [n for n in own if n in second] or own
        quantity, paper = seen_name(word), printed[seen_name(word)]
        if not people or not own:
            why = "not run: no recording of such a participant is judged"
            rows.append(Comparison(quantity, paper, ran=why))
            continue
        found = [gains[name] for name in own]
        low, high = bootstrap_ratio(found, [1.0] * len(found))
        n = f"{len(own)} recordings"
        rows.append(Comparison(quantity, paper, mean(found), n, low, high, ran))
    return rows


def make_sets_covered(material: Material) -> Made:
    """Coverage of the paper's rules on each set, pooled, where its text gives numbers."""
    found_rows, ran = coverage_rows(material)
    results = BenchmarkResults.of_rows(found_rows)
    line, rows = results.frontlines[0], []
    printed = {("primary", RULE, 0.25): 46.8, ("primary", "uniform", 0.25): 40.9}
    printed |= {("primary", RULE, 0.5): 70.2, ("primary", "bolt", 0.5): 74.2}
    printed |= {("replication", "uniform", 0.25): 53.5}
    for set_name, names in sets_of(results).items():
        for rule in ("uniform", "strata", "rank", RULE, "aks", "bolt", "coverage"):
            for budget in results.budgets:
                found = results.of((line, rule), budget)
                counts = [found[name] for name in names if name in found]
                total = sum(counts, CoverageCounts())
                low, high = bootstrap_ratio(
                    [each.covered for each in counts], [each.actions for each in counts]
                )
                rows.append(
                    Comparison(
                        f"{set_name}, {rule} at {percent(budget)}, pooled, %",
                        printed.get((set_name, rule, budget)),
                        100 * total.coverage,
                        f"{total.actions} actions of {len(counts)} recordings",
                        100 * low,
                        100 * high,
                        ran,
                        f"strict {100 * total.strict_coverage:.1f} %; {total.calls} calls",
                    )
                )
    return Made(rows, figures={"plane": _plane(found_rows, (line, RULE), (line, "uniform"))})


def _plane(rows: Sequence[BenchmarkRow], subject: System, even: System) -> Drawing:
    """The plane of the primary set, of which the paper prints points; of all where it is not."""
    names = primary_of(dict.fromkeys(row.recording for row in rows))
    own = [row for row in rows if row.recording in names]
    shown = [row for row in own if row.frontline == subject[0] or row.rule == "rank"]
    results = BenchmarkResults.of_rows(row for row in shown if row.rule not in ("facility", PHASES))
    is_primary = set(names) <= set(RECORDINGS["paper-primary"])
    who = "the paper's primary set" if is_primary else "the recordings that are judged"
    caption = (
        f"Coverage against calls on {who}: every rule on the gate's scores, the other frontlines "
        "ranked, as in the paper. Crosses are points of the paper, on its own recordings and gate."
    )
    return caption, lambda: figures.plane(
        results, subject, even, beside=PRINTED_POINTS, saved_beside=PRINTED_SAVINGS
    )


def make_savings(material: Material) -> Made:
    """Calls saved against even spacing at equal coverage."""
    results, ran = judged_results(material)
    line, rows = results.frontlines[0], []
    even = (line, "uniform")
    flows = [name for name in results.frontlines if name.partition(":")[0] == "flow"]
    systems = [((line, RULE), {0.05: 20.0, 0.25: 14.0})]
    systems += [((flow, "rank"), {0.05: 24.0, 0.25: 4.0}) for flow in flows]
    n = f"{results.counted} recordings"
    for system, printed in systems:
        heard = ran if system[0] == line else _heard(material, system[0])
        told = "; the paper: 9 to 20 % below half, negative above" if system[0] == line else ""
        for budget in results.budgets:
            found = 100 * results.saved(system, budget, baseline=even)
            low, high = results.saved_interval(system, budget, baseline=even)
            rows.append(
                Comparison(
                    f"{percent(budget)}: calls saved by {system[1]} of {system[0]}, %",
                    printed.get(budget), found, n, 100 * low, 100 * high, heard,
                    f"{100 * results.pooled(system, budget).cost:.1f} % of the windows asked{told}",
                )
            )  # fmt: skip
    return Made(rows)


def make_correlation(material: Material) -> Made:
    """Gain over even spacing against occupancy, where calls are scarce and where they are not."""
    results, ran = judged_results(material)
    source, _ = open_scores(material)
    occupancy = occupancies(source.evaluated, results, window=4.0)
    line = results.frontlines[0]
    rows = []
    there = "there p 0.003, one left out -0.64 to -0.45; "
    for budget, pearson, spearman, words in ((0.05, -0.59, -0.59, there), (0.5, 0.0, None, "")):
        gains = results.gains((line, RULE), budget, baseline=(line, "uniform"))
        found = correlate(gains, occupancy)
        n = f"{found.recordings} recordings"
        told = f"{words}here p {p_value(found.pearson_p)}, "
        told += f"one left out {found.low:.2f} to {found.high:.2f}"
        rows.append(
            Comparison(
                f"{percent(budget)}: Pearson", pearson, found.pearson, n, ran=ran, remarks=told
            )
        )
        rows.append(
            Comparison(f"{percent(budget)}: Spearman", spearman, found.spearman, n, ran=ran)
        )
    drawn = {
        "gain_against_occupancy": (
            "Gain of the paper's rule over even spacing against occupancy.",
            lambda: figures.gain_scatter(results, occupancy, (line, RULE), (line, "uniform")),
        )
    }
    return Made(rows, figures=drawn)


def make_recordings_heard(material: Material) -> Made:
    """The per-recording table's own column: the paper's rule at a quarter of the calls."""
    results, ran = judged_results(material)
    line = results.frontlines[0]
    found = dict(zip(results.recordings, results.points((line, RULE), 0.25), strict=True))
    printed = dict(PER_RECORDING)
    names = {name: recording_name(name) for name in found}
    rows = [
        Comparison(names[name], printed.get(names[name]), value, "1 recording", ran=ran)
        for name, value in found.items()
    ]
    average = mean(found.values())
    low, high = bootstrap_ratio(list(found.values()), [1.0] * len(found))
    is_paper = set(found) == set(RECORDINGS["paper"])
    n, paper = f"{len(found)} recordings", printed["mean of 24"] if is_paper else None
    rows.append(Comparison(f"mean of {len(found)}", paper, average, n, low, high, ran))
    return Made(rows)


def make_window_gains(material: Material) -> Made:
    """Ranking minus even spacing by window length; the paper's on its primary set."""
    printed, rows = dict(WINDOW_ROWS), []
    for window in WINDOWS:
        found, ran = coverage_rows(material, window=window)
        results = BenchmarkResults.of_rows(found)
        names = primary_of(results.recordings)
        line = results.frontlines[0]
        for budget in SWEEP_BUDGETS:
            ranked, even = (
                [results.of((line, rule), budget)[name] for name in names]
                for rule in ("rank", "uniform")
            )
            more = [a.covered - b.covered for a, b in zip(ranked, even, strict=True)]
            actions = [each.actions for each in even]
            low, high = bootstrap_ratio(more, actions)
            quantity = window_name(window, budget)
            rows.append(
                Comparison(
                    quantity, printed[quantity], 100 * sum(more) / sum(actions),
                    f"{len(names)} recordings", 100 * low, 100 * high, ran,
                )
            )  # fmt: skip
    return Made(rows)


def make_frontlines(material: Material) -> Made:
    """Every frontline at a quarter of the calls, spent by ranking as the paper's plane has it."""
    results, _ = judged_results(material)
    names, first = primary_of(results.recordings), results.frontlines[0]
    systems = {"uniform": (first, "uniform"), "gate": (first, RULE)}
    systems |= {line: (line, "rank") for line in results.frontlines[1:]}
    rows = []
    for name, paper in {**AT_A_QUARTER, **dict.fromkeys(systems)}.items():
        printed = AT_A_QUARTER.get(name, paper)
        if name not in systems:
            why = f"not run: add {name} to --frontlines"
            rows.append(Comparison(f"{name} at 25 %, pooled, %", printed, ran=why))
            continue
        system = systems[name]
        counts = [results.of(system, 0.25)[each] for each in names]
        total = sum(counts, CoverageCounts())
        low, high = bootstrap_ratio([c.covered for c in counts], [c.actions for c in counts])
        heard = "nothing is heard" if name == "uniform" else _heard(material, system[0])
        n = f"{total.actions} actions"
        rows.append(
            Comparison(
                f"{name} ({system[1]}) at 25 %, pooled, %", printed, 100 * total.coverage, n,
                100 * low, 100 * high, heard,
            )
        )  # fmt: skip
    return Made(rows)


def _heard(material: Material, frontline: str) -> str:
    if not material.media:
        return "annotated sound events in place of a frontline; no audio"
    return describe_listening(material, frontline)
