"""The scores that rules and episodes are compared on: their source, and what it is in words."""

from __future__ import annotations

from dataclasses import replace

from earmark.errors import EarmarkError
from earmark.evaluation.paper.published_numbers import RECORDINGS
from earmark.evaluation.score_sources import (
    FittedScores,
    MediaScores,
    ScoreSource,
    split_for_fitting,
)
from earmark.gate.frontline_registry import frontline_named, gate_of
from earmark.reproduction.paper_inputs import NEEDS, PaperInputs

PAPER_HEAD = "paper"
"""The frontline trained by this reproduction: the paper's head, loss and settings over the first
of the plan's encoders, with the first seed."""


def resolve_frontline(inputs: PaperInputs, name: str) -> str:
    """The frontline itself; for `paper`, the path of the gate file, trained if needed."""
    if name != PAPER_HEAD:
        return name
    if absent := [NEEDS[need] for need in ("epic", "audio", "train") if inputs.lacks(need)]:
        raise EarmarkError(f"the frontline {name} is trained here: bring {'; '.join(absent)}")
    from earmark.reproduction.training_comparisons import paper_gate  # needs PyTorch

    return str(inputs.compute_once("paper head", lambda: paper_gate(inputs)))


def open_scores(inputs: PaperInputs, *, window: float = 4.0) -> ScoreSource:
    """The source of the scores of the evaluated recordings."""
    return inputs.compute_once(f"scores {window:g}", lambda: _open_scores(inputs, window))


def _open_scores(inputs: PaperInputs, window: float) -> ScoreSource:
    lines, marked, split = inputs.plan.frontlines, inputs.all_actions, inputs.split
    if inputs.media:
        opened = {name: inputs.recording(name) for name in (*split.judged, *split.development)}
        lengths = {name: recording.duration for name, recording in opened.items()}
        marked = replace(marked, durations={**marked.durations, **lengths})
        files = {line: resolve_frontline(inputs, line) for line in lines}
        heard = (opened, lines, window, inputs.cache, files)
        return MediaScores(marked, marked.only(split.judged), *heard)
    assert inputs.events is not None and inputs.validation is not None
    fitted = split_for_fitting(inputs.validation, RECORDINGS["paper"])
    return FittedScores(inputs.validation, inputs.events, fitted, window)


def describe_scores(inputs: PaperInputs, frontline: str | None = None) -> str:
    """One line on what scored the recordings: a frontline (the first) and its sound, or events.

    The frontline `paper` names the sound already, as what it was trained on.
    """
    name, source = frontline or inputs.plan.frontlines[0], open_scores(inputs)
    if isinstance(source, FittedScores):
        return f"annotated sound events in place of a gate, {source.split.description}; no audio"
    listens = describe_frontline(inputs, name)
    return listens if name == PAPER_HEAD else f"{listens}; {inputs.plan.audio_is}"


def describe_frontline(inputs: PaperInputs, name: str) -> str:
    """One line on a frontline: its head, encoder, weights and training data."""
    file = resolve_frontline(inputs, name)
    line, gate = frontline_named(file), gate_of(file)
    if gate is None:
        return f"{name}: {line.encoder!r}, {type(line.scorer).__name__}"
    head = f"{name}: trained head {gate.scorer.digest[:8]} over {line.encoder!r}"
    if name == PAPER_HEAD:
        return f"{head}, {inputs.describe_training(inputs.plan.encoders[0])}"
    taught, kind = gate.card.data, inputs.plan.audio_is
    met = f"; has met {kind} in training, so not held out" if kind in taught else ""
    return f"{head}, trained on {taught.partition(':')[0]}{met}"
