"""Training objective: the same head over the same features, trained on spans and on frames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from earmark.errors import EarmarkError
from earmark.gate.lengths import LengthModel
from earmark.gate.rates import RankRates
from earmark.grid import Grid
from earmark.media.atomic_file import write_whole
from earmark.text_format import counted
from earmark_lab.experiments import figures
from earmark_lab.experiments.benchmark import (
    BUDGETS,
    PHASES,
    BenchmarkRow,
    Case,
    Rounding,
    read_rows,
    rows_to_csv,
    run_case,
)
from earmark_lab.experiments.coverage_tables import BenchmarkResults, paired_table, pooled_table
from earmark_lab.experiments.paper import RULE, primary_of
from earmark_lab.experiments.report import Drawing, mean, p_value, percent
from earmark_lab.experiments.score_sources import AnnotatedScores
from earmark_lab.metrics.counts import CoverageCounts
from earmark_lab.metrics.statistics import welch
from earmark_lab.reproduce.inputs import PaperInputs, encoder_label
from earmark_lab.reproduce.printed import PRINTED
from earmark_lab.reproduce.reproduction import Comparison, Made, mean_std
from earmark_lab.reproduce.trainings import (
    fit_seeds,
    gates_folder,
    gather_actions,
    score_features,
    settings_for,
)
from earmark_lab.training.optimisation import score

JUDGED_RULES = ("uniform", PHASES, "rank", "aks", "bolt", RULE)


def judge_seeds(inputs: PaperInputs, encoder: str, objective: str) -> list[list[BenchmarkRow]]:
    """Of every rule on every judged recording, one list a seed; the frontline is the objective."""
    settings, names = settings_for(inputs, encoder, objective), primary_of(inputs.split.judged)
    judged = {name: inputs.recording(name).key for name in names}
    marks, rounding = inputs.all_actions.only(names).fingerprint, inputs.plan.rounding
    identity = {"judged": judged, "marks": marks, "rules": JUDGED_RULES, "rounding": rounding}
    folder = gates_folder(inputs, encoder, settings)
    kept = inputs.results_folder(f"judged-{objective}", identity | {"heads": folder.name})
    files = [kept / f"seed-{seed}.csv" for seed in settings.all_seeds]
    if not all(path.is_file() for path in files):
        material = gather_actions(inputs, encoder)
        words = f"{objective} over {encoder_label(encoder)}"
        heads = fit_seeds(inputs, material, settings, folder=folder, words=words).heads
        kept.mkdir(parents=True, exist_ok=True)
        for path, head in zip(files, heads.values(), strict=True):
            scored = score_features(material, names, partial(score, head, settings.loss))
            write_whole(path, rows_to_csv(_judge(scored, objective, rounding)))
    return [read_rows(path) for path in files]


def _judge(
    recordings: Iterable[AnnotatedScores], objective: str, rounding: Rounding
) -> Iterator[BenchmarkRow]:
    lengths = LengthModel().usual
    for scored in recordings:
        windows = Grid().score(scored.track, scored.duration, rates=RankRates(), lengths=lengths)
        case = Case(scored.recording, objective, windows, scored.actions)
        yield from run_case(case, JUDGED_RULES, BUDGETS, rounding=rounding)


def average_seeds(seeds: Sequence[Sequence[BenchmarkRow]]) -> list[BenchmarkRow]:
    """Each recording once: what is covered, on average over the seeds."""
    same: dict[tuple[str, str, str, float], list[BenchmarkRow]] = {}
    for row in chain.from_iterable(seeds):
        same.setdefault((row.recording, row.frontline, row.rule, row.budget), []).append(row)
    return [
        replace(
            rows[0],
            calls=round(mean(row.calls for row in rows)),
            covered=mean(row.covered for row in rows),
            strict=mean(row.strict for row in rows),
        )
        for rows in same.values()
    ]


def make_objective(inputs: PaperInputs) -> Iterator[Made]:
    """Same features, head, crops, order, seeds and rule; another loss."""
    for encoder in inputs.plan.encoders:
        try:
            seeds = {name: judge_seeds(inputs, encoder, name) for name in ("span", "frame")}
        except EarmarkError as error:
            yield Comparison.missing(_over(inputs, encoder, "span minus frame"), None, str(error))
            continue
        yield from _objective_rows(inputs, encoder, seeds)
        rows = [*average_seeds(seeds["span"]), *average_seeds(seeds["frame"])]
        is_shown = {("frame", RULE), *(("span", rule) for rule in JUDGED_RULES)}
        results = BenchmarkResults.of_rows(r for r in rows if (r.frontline, r.rule) in is_shown)
        table = paired_table(results, ("span", RULE))
        words = f"over {encoder_label(encoder)}, {counted(inputs.plan.seeds, 'seed')} averaged"
        yield replace(table, title=f"{table.title}, {words}")
        yield replace(pooled_table(results), title=f"Pooled coverage {words}")


def _over(inputs: PaperInputs, encoder: str, quantity: str) -> str:
    """The first encoder has the paper's rows."""
    is_first = encoder == inputs.plan.encoders[0]
    return quantity if is_first else f"over {encoder_label(encoder)}, {quantity}"


def _objective_rows(
    inputs: PaperInputs, encoder: str, seeds: Mapping[str, Sequence[Sequence[BenchmarkRow]]]
) -> Iterator[Made]:
    printed, rule_of = PRINTED["objective"], {"span": RULE, "frame": RULE, "uniform": "uniform"}
    reached = {name: [_pooled(rows, rule_of[name]) for rows in own] for name, own in seeds.items()}
    reached["uniform"] = [_pooled(seeds["span"][0], "uniform")]
    settings = settings_for(inputs, encoder, "span")
    ran = f"{inputs.describe_training(encoder)}; {settings.steps} steps; {RULE}"
    judged = primary_of(inputs.split.judged)
    n = f"{counted(len(seeds['span']), 'seed')}, {counted(len(judged), 'recording')}"
    row = partial(Comparison.over_seeds, n=n, ran=ran)
    for budget in BUDGETS:
        values = {name: [seed[budget] for seed in own] for name, own in reached.items()}
        span, frame = values["span"], values["frame"]
        gaps = (np.array(span) - np.array(frame)).tolist()
        remarks = f"Welch p {p_value(welch(span, frame).p)} (interval: seed range)"
        quantity = f"{percent(budget)}: span minus frame, points"
        yield row(_over(inputs, encoder, quantity), printed[quantity], gaps, remarks=remarks)
        for name, own in values.items():
            quantity = f"{percent(budget)}: {name}, %"
            paper, label = printed.get(quantity), _over(inputs, encoder, quantity)
            yield row(label, paper, own, remarks=mean_std(own))
        if budget == 0.25:
            quantity = "25 %: span, deviation over seeds, points"
            spread = float(np.std(span, ddof=1)) if len(span) > 1 else None
            label = _over(inputs, encoder, quantity)
            yield Comparison(label, printed[quantity], spread, n, ran=ran)
    name = encoder_label(encoder)
    caption = f"Coverage by training objective over {name}, mean and range over seeds."
    drawing = re.sub(r"\W", "_", f"over_{name}")
    yield Drawing(drawing, caption, partial(figures.seed_curves, reached))


def _pooled(rows: Iterable[BenchmarkRow], rule: str) -> dict[float, float]:
    """Coverage of all actions together in per cent, by budget."""
    total = dict.fromkeys(BUDGETS, CoverageCounts())
    for row in rows:
        if row.rule == rule:
            total[row.budget] += row.counts
    return {budget: 100 * counts.coverage for budget, counts in total.items()}
