"""The captioning experiments, with any server: naming accuracy by variant and its cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from earmark.errors import EarmarkError
from earmark.evidence.sound_names import sound_namer
from earmark.media import Frame
from earmark_lab.experiments import captions
from earmark_lab.experiments.caption_comparison import (
    CaptionTools,
    CaptionVariant,
    VariantScore,
    captions_table,
    compare,
    list_variants,
)
from earmark_lab.experiments.captions import Stimulus
from earmark_lab.experiments.occupancy_and_cost import CostModel, composition_table
from earmark_lab.experiments.operating_points import find_episodes
from earmark_lab.experiments.paper import RULE, primary_of
from earmark_lab.experiments.report import Cells, Table, p_value
from earmark_lab.experiments.score_sources import score_recordings
from earmark_lab.reproduce.coverage import load_results
from earmark_lab.reproduce.episodes import deployed_rule
from earmark_lab.reproduce.inputs import CLASSES, VALIDATION, PaperInputs
from earmark_lab.reproduce.reproduction import Comparison, Made

TOKEN_COUNTS = (64, 128, 256, 512, 1024, 2048)
"""The paper says six, but not which."""

PRINTED: Mapping[str, tuple[float | None, float | None]] = {
    "full frame": (37.3, None), "hand crop": (33.7, 0.099), "sounds told": (None, 0.453),
    "deployed frame": (35.0, 0.27),
}  # fmt: skip
"""Nouns named in per cent and McNemar's p against the full frame, by variant."""

RECORDINGS = 3
SCARCE = 0.02
"""Share of the cost of a full scan that compression alone cannot go below."""


def make_captions(inputs: PaperInputs) -> Iterator[Made]:
    tools, plan = inputs.caption_tools, inputs.plan
    assert isinstance(tools, CaptionTools) and plan.epic is not None
    nouns, verbs = (captions.Vocabulary.from_epic(plan.epic / name) for name in CLASSES)
    names = primary_of(inputs.split.judged)[:RECORDINGS]
    recordings = {name: inputs.recording(name) for name in names}
    usable = [
        stimulus
        for stimulus in captions.read_stimuli(plan.epic / VALIDATION, nouns=nouns, verbs=verbs)
        if stimulus.recording in recordings
        and stimulus.span.end <= recordings[stimulus.recording].duration
    ]
    stimuli = captions.draw_stimuli(usable, plan.stimuli, seed=plan.caption_seed)
    tools = replace(tools, instants=deployed_instants(inputs, stimuli))
    absent = unavailable_variants(tools)
    variants = list_variants(
        [*(word for word in ("hands", "sounds") if word not in absent), *TOKEN_COUNTS]
    )
    variants.append(CaptionVariant("deployed frame", is_deployed=True))
    scores = compare(stimuli, recordings, variants, tools, nouns=nouns, verbs=verbs)
    ran = f"{tools.captioner.model}; {plan.sound}; seed {plan.caption_seed}"
    yield from _naming_rows(scores, ran)
    yield captions_table(scores)
    retained_stimuli = find_retained(inputs, stimuli)
    yield (retained := retained_table(scores, retained_stimuli))
    gaps = [abs(float(row[-1])) for row in retained.rows if not math.isnan(float(row[-1]))]
    n = f"{len(gaps)} allowances, {len(retained_stimuli)} actions kept"
    quantity = "all against gate-retained, largest difference, points"
    yield Comparison(quantity, 0.4, max(gaps, default=None), n, ran=ran)
    results = load_results(inputs)
    covers = results.means(results.system(RULE))
    naming = {s.variant.tokens: 100 * s.nouns.accuracy for s in scores if _is_full(s)}
    yield (composed := composition_table(CostModel(), covers, naming))
    # The best pair of calls and tokens at a scarce budget.
    named = [float(row[3]) for row in composed.rows if float(row[0]) <= 100 * SCARCE]
    n, best = f"{len(named)} pairs of calls and tokens", max(named, default=None)
    note = "the paper says returned, and not whether touched or named"
    quantity = f"actions named at {100 * SCARCE:g} % of the cost, calls and tokens together, %"
    yield Comparison(quantity, 11.5, best, n, ran=ran, remarks=note)
    for word, why in absent.items():
        (variant,) = list_variants([word])[1:]
        yield Comparison.missing(f"{variant.name}: nouns named, %", PRINTED[variant.name][0], why)


def unavailable_variants(tools: CaptionTools) -> dict[str, str]:
    blank, absent = Frame(0.0, np.zeros((64, 64, 3), np.uint8)), {}
    attempts: dict[str, Callable[[], object]] = {
        "hands": lambda: tools.crop(blank),
        "sounds": lambda: sound_namer(True, None),
    }
    for word, attempt in attempts.items():
        try:
            attempt()
        except EarmarkError as error:
            absent[word] = str(error)
    return absent


def _is_full(score: VariantScore) -> bool:
    variant = score.variant
    return not (variant.crops_hands or variant.mentions_sounds or variant.is_deployed)


def _naming_rows(scores: Sequence[VariantScore], ran: str) -> Iterator[Comparison]:
    for score in scores:
        paper, p = PRINTED.get(score.variant.name, (None, None))
        note = f"p {p_value(score.noun_p)}" + (f", there {p:g}" if p is not None else "")
        note += "; there from 38.1 at the midpoint" if score.variant.is_deployed else ""
        for what, counts, there, remarks in (
            ("nouns", score.nouns, paper, note),
            ("verbs", score.verbs, None, f"p {p_value(score.verb_p)}"),
        ):
            quantity, n = f"{score.variant.name}: {what} named, %", f"{counts.asked} stimuli"
            accuracy = 100 * counts.accuracy
            yield Comparison(quantity, there, accuracy, n, ran=ran, remarks=remarks)


def deployed_instants(inputs: PaperInputs, stimuli: Sequence[Stimulus]) -> dict[Stimulus, float]:
    """Of the best window that touches the action."""
    source = inputs.scores()
    line, instants = source.frontlines[0], {}
    cases = {name: source.tasks()[line, name]() for name in {s.recording for s in stimuli}}
    for stimulus in stimuli:
        windows = cases[stimulus.recording].windows
        touching = [w for w in range(len(windows)) if stimulus.span.overlaps(windows.span(w))]
        if touching:
            best = max(touching, key=lambda window: (windows.scores[window], -window))
            instants[stimulus] = float(windows.instants[best])
    return instants


def find_retained(inputs: PaperInputs, stimuli: Sequence[Stimulus]) -> set[Stimulus]:
    source, rule = inputs.scores(), deployed_rule(inputs)
    recordings = score_recordings(
        source, source.frontlines[0], {stimulus.recording for stimulus in stimuli}
    )
    episodes = {scored.recording: find_episodes(scored, rule) for scored in recordings}
    return {s for s in stimuli if any(s.span.overlaps(span) for span in episodes[s.recording])}


def retained_table(scores: Sequence[VariantScore], retained: set[Stimulus]) -> Table:
    rows: list[Cells] = []
    for score in filter(_is_full, scores):
        own = captions.NamingCounts.of(
            [named for s, named in score.noun_named.items() if s in retained]
        )
        every = score.nouns
        gap = 100 * (own.accuracy - every.accuracy)
        cells = (100 * every.accuracy, every.asked, 100 * own.accuracy, own.asked, gap)
        rows.append((score.variant.tokens, *cells))
    columns = ("tokens", "all, %", "n", "gate-retained, %", "n kept", "difference")
    return Table("Naming on all and on gate-retained actions", columns, rows)
