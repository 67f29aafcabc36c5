"""The exported gate equals the trained one, on any length, whole or in pieces."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch

from earmark import Track
from earmark.errors import ModelMismatch
from earmark.gate.gate import OnnxScorer
from earmark_lab.training.head import (
    OBJECTIVES,
    SHARPER,
    STATISTICS,
    Context,
    Head,
    TalkDetector,
    in_seconds,
)
from earmark_lab.training.head_export import Panel, export, prove
from earmark_lab.training.optimisation import score


def heads(count: int, bands: int) -> list[Head]:
    torch.manual_seed(5)
    return [Head(16, width=8, bands=bands, dropout=0.5).eval() for _ in range(count)]


def contexts(count: int) -> list[Context]:
    torch.manual_seed(6)
    made = [Context(8, width=8, dropout=0.5).eval() for _ in range(count)]
    for context in made:
        context.settle([torch.linspace(-1, 3, 20 * STATISTICS * 8).reshape(20, -1)])
    return made


def detector() -> TalkDetector:
    torch.manual_seed(7)
    made = TalkDetector(16, width=8, dropout=0.5).eval()
    made.settle([torch.linspace(-1, 2, 20 * 16).reshape(20, -1)])
    return made


def features(steps: int) -> np.ndarray:
    return np.random.default_rng(steps).standard_normal((steps, 16)).astype(np.float32)


def scorer(panel: Panel) -> OnnxScorer:
    graph = export(panel)
    return OnnxScorer(hashlib.sha256(graph).hexdigest(), "log-mel", 16, panel.context, graph)


@pytest.mark.parametrize("bands", [0, 4])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("count", [1, 3])
def test_torch_and_onnx_agree(bands: int, objective: str, count: int) -> None:
    loudness = 0.3 if count > 1 else 0.0
    wide, detects = contexts(count), detector() if count > 1 else None
    panel = Panel(heads(count, bands), wide, OBJECTIVES[objective], loudness, detects)
    lengths = (1, 2, 30, 138, 1700, 9001)
    assert prove(panel, scorer(panel), [features(steps) for steps in lengths]) <= 1e-4


def test_a_detector_takes_talk_from_the_score() -> None:
    detects, rows = detector(), torch.from_numpy(features(2000))[None]
    plain = Panel(heads(1, 4), contexts(1), OBJECTIVES["where"])
    with torch.no_grad():
        left = replace(plain, detector=detects)(rows) / plain(rows)
        assert torch.allclose(left, torch.sigmoid(-SHARPER * detects(rows)), atol=1e-5)
    assert left.std() > 0.01


@pytest.mark.parametrize("bands", [0, 4])
def test_a_panel_is_the_mean_of_its_heads_by_the_mean_of_its_contexts(bands: int) -> None:
    chosen, wide, objective = heads(3, bands), contexts(3), OBJECTIVES["rate"]
    rows = features(100)
    local = np.mean([score(head, objective, rows) for head in chosen], axis=0)
    with torch.no_grad():
        seconds = in_seconds(torch.from_numpy(rows)[None], 8)
        chance = np.mean([torch.sigmoid(each(seconds))[0].numpy() for each in wide], axis=0)
        got = Panel(chosen, wide, objective)(torch.from_numpy(rows)[None])[0].numpy()
    assert len(chance) == 4
    np.testing.assert_allclose(got, local * chance.repeat(25), atol=1e-5)


def test_a_wrong_export_is_not_believed() -> None:
    panel = Panel(heads(2, 4), contexts(2), OBJECTIVES["rate"])
    lone = [Head(16, width=8, bands=4).eval()]
    other = Panel(lone, contexts(1), OBJECTIVES["rate"])
    with pytest.raises(ModelMismatch, match="the export is wrong"):
        prove(panel, scorer(other), [features(60)])


@pytest.mark.parametrize("count", [1, 3])
def test_heads_without_a_context_are_their_mean_score(count: int) -> None:
    chosen, objective = heads(count, 0), OBJECTIVES["span"]
    panel = Panel(chosen, [], objective)
    assert prove(panel, scorer(panel), [features(steps) for steps in (1, 30, 138, 1700)]) <= 1e-4
    rows = features(100)
    local = np.mean([score(head, objective, rows) for head in chosen], axis=0)
    with torch.no_grad():
        got = panel(torch.from_numpy(rows)[None])[0].numpy()
    np.testing.assert_allclose(got, local, atol=1e-5)


def test_a_sure_head_still_tells_quiet_moments_apart():
    """ONNX Runtime's own logistic is exactly 0 where a logit is below -18."""
    (head,) = heads(1, bands=0)
    with torch.no_grad():
        head.tower.leave.bias.fill_(-40.0)
    heard = features(50)
    panel = Panel([head], [], OBJECTIVES["span"])
    found = np.concatenate([track.values for track in scorer(panel)([Track(heard)])])
    with torch.inference_mode():
        wanted = panel(torch.from_numpy(heard)[None])[0].numpy()
    assert 0 < wanted.max() < 1e-12
    np.testing.assert_allclose(np.log(found), np.log(wanted), atol=1e-3)
