"""What heads trained here come to: the objective, the transfer over encoders, the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations

import numpy as np

from earmark.errors import EarmarkError
from earmark.evaluation.benchmark import BUDGETS, Case, run_case
from earmark.evaluation.metrics.coverage_counts import CoverageCounts, EpisodeCounts, count_kept
from earmark.evaluation.metrics.significance import welch
from earmark.evaluation.paper.operating_points import EpisodeShape
from earmark.evaluation.paper.published_numbers import TRANSFER
from earmark.evaluation.tables.table import Cells, Table, p_value, percent
from earmark.gate.episodes import CLOSED_GAP, SHORTEST
from earmark.gate.gate import Gate
from earmark.grid import Grid
from earmark.models.catalogue import Layout
from earmark.reporting.text_format import counted
from earmark.reproduction.comparison import Comparison, Made, not_run, over_seeds, spread_of
from earmark.reproduction.material import Material as Given
from earmark.reproduction.paper_frontline import what_ran
from earmark.reproduction.published_quantities import ENCODER, RULE
from earmark.reproduction.trained_heads import settings_for, train_gates
from earmark.selection.rules.separated import MinimumSeparation
from earmark.timeline import HOP, Track
from earmark.training.dataset import Material
from earmark.training.settings import PAPER


def score_gate(gate: Gate, judged: Material) -> dict[str, Track]:
    """The scores of the judged recordings."""
    return {
        name: Track(np.concatenate([t.values for t in gate.scorer([Track(heard.features)])]))
        for name, heard in judged.items()
    }


def gate_coverage(gate: Gate, judged: Material) -> dict[float, float]:
    """Pooled coverage of the paper's rule with the gate's own delta, in per cent by budget."""
    total = dict.fromkeys(BUDGETS, CoverageCounts())
    for name, track in score_gate(gate, judged).items():
        windows = Grid().score(
            track, judged[name].duration, rates=gate.rates, survival=gate.survival
        )
        case = Case(name, "gate", windows, judged[name].actions, gate.separation)
        for row in run_case(case, [RULE], BUDGETS).rows:
            total[row.budget] += row.counts
    return {budget: 100 * counts.coverage for budget, counts in total.items()}


def gate_episodes(gate: Gate, judged: Material, *, recall: float) -> EpisodeCounts:
    """What the gate's episodes at its development recall keep and reach."""
    rule, total = gate.episodes(recall=recall), EpisodeCounts()
    for name, track in score_gate(gate, judged).items():
        heard = judged[name]
        total += count_kept(heard.actions, rule(track), heard.duration, window=4.0)
    return total


def make_objective(given: Given) -> Made:
    """Span against frame: features, head, crops, order and seeds alike, only the loss differs."""
    encoder = given.plan.encoders[0]
    reached = {}
    for objective in ("span", "frame"):
        gates, judged = train_gates(given, encoder, objective)
        reached[objective] = [gate_coverage(gate, judged) for gate in gates]
    settings = settings_for(given, encoder, "span")
    ran = f"{what_ran(given, encoder)}; {settings.steps} steps"
    rows = []
    for budget in BUDGETS:
        span, frame = ([each[budget] for each in reached[name]] for name in ("span", "frame"))
        found = welch(span, frame)
        pairs = (np.array(span) - np.array(frame)).tolist()
        told = f"span {spread_of(span)}; frame {spread_of(frame)}; Welch p {p_value(found.p)}"
        quantity = f"{percent(budget)}: span minus frame, points"
        n = f"{counted(len(span), 'seed')}, {len(judged)} recordings"
        told += " (interval: seed range)"
        rows.append(over_seeds(quantity, "4.0 to 10.8", pairs, n=n, ran=ran, remarks=told))
    return Made(rows)


def make_transfer(given: Given) -> Made:
    """The same span-level head over every encoder whose weights are here, and Welch over pairs."""
    found: dict[str, list[EpisodeCounts]] = {}
    absent: dict[str, str] = {}
    for encoder in dict.fromkeys((*given.plan.encoders, *TRANSFER)):
        if encoder in TRANSFER and encoder not in given.plan.encoders:
            absent[encoder] = f"bring its weights, and --encoders {encoder}"
            continue
        try:
            gates, judged = train_gates(given, encoder, "span")
        except EarmarkError as error:
            absent[encoder] = str(error)
            continue
        found[encoder] = [gate_episodes(each, judged, recall=given.plan.recall) for each in gates]
    if any(" " in name for name in absent):
        absent["BEATs-SlowFast (its own head)"] = (
            "its weights are unpublished; the table `ablation` trains such a head"
        )
    rows = [
        row
        for encoder in (*found, *absent)
        for row in _transfer_rows(given, encoder, found.get(encoder, []), absent.get(encoder, ""))
    ]
    return Made(rows, [pairs_table(found)] if len(found) > 1 else [])


def _transfer_rows(
    given: Given, encoder: str, kept: Sequence[EpisodeCounts], absent: str
) -> list[Comparison]:
    printed = TRANSFER.get(encoder)
    rows = []
    for place, what in enumerate(("recall", "reduction")):
        paper = printed[2 * place] if printed else None
        quantity = ENCODER.format(encoder, what)
        if absent:
            rows.append(not_run(quantity, paper, absent))
            continue
        values = [100 * getattr(each, what) for each in kept]
        there = f"there ± {printed[2 * place + 1]:g}; " if printed else ""
        told = f"{there}here {spread_of(values)} (interval: seed range)"
        rows.append(over_seeds(quantity, paper, values, ran=what_ran(given, encoder), remarks=told))
    return rows


def pairs_table(found: dict[str, list[EpisodeCounts]]) -> Table:
    """Welch's test of the reduction between every two encoders."""
    rows: list[Cells] = []
    for one, other in combinations(found, 2):
        values = [[100 * each.reduction for each in found[name]] for name in (one, other)]
        gap = welch(*values)
        rows.append((f"{one} against {other}", gap.mean, gap.t, p_value(gap.p)))
    columns = ("encoders", "difference, points", "t", "p")
    return Table("Transfer: every pair, Welch", columns, rows, "The paper: no p below 0.14.")


def make_settings(given: Given) -> Made:
    """The table of constants: the paper's, and those of `earmark train --recipe paper`."""
    printed = {
        "tau": 4.0, "learning_rate": 3e-4, "weight_decay": 1e-4, "steps": 3000, "batch": 16,
    }  # fmt: skip
    own = {**asdict(PAPER), **given.plan.settings}
    rows = [
        Comparison(name, f"{paper:g}", f"{own[name]:g}", ran="earmark train --recipe paper")
        for name, paper in printed.items()
    ]
    told = "447 inputs, width 192; width 128 gives the 0.2 M of the paper's table"
    size = 447 * 192 + 192 + 3 * (192 * 192 * 3 + 192) + 192 + 1
    rows.append(Comparison("parameters, millions", 0.41, size / 1e6, ran="the head", remarks=told))
    for name in ("crop", "dropout", "cooling", "width"):
        ran = "earmark train --recipe paper"
        rows.append(
            Comparison(name, None, f"{own[name]:g}", ran=ran, remarks="the paper is silent")
        )
    own_delta = "or as stored with the gate, chosen on development"
    fixed = (
        ("call window, s", 4.0, Grid().length, ""),
        ("gate frame rate, Hz", 25.0, 1 / HOP, ""),
        ("chunk, s", 10.0, Layout().chunk * HOP, "of BEATs, ATST-Frame and fPaSST"),
        ("hop, s", 5.0, Layout().hop * HOP, "of BEATs, ATST-Frame and fPaSST"),
        ("median filter, frames", 1.0, float(EpisodeShape().median), "or as development chooses"),
        ("minimum span, s", 0.15, SHORTEST, ""),
        ("maximum closed gap, s", 0.6, CLOSED_GAP, ""),
        ("separation, windows", 2.0, float(MinimumSeparation().separation), own_delta),
    )
    rows += [Comparison(what, p, o, ran="earmark's own", remarks=t) for what, p, o, t in fixed]
    return Made(rows)
