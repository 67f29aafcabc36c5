"""The exported gate equals the trained one, on any length, whole or in pieces."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

from earmark.errors import ModelMismatch
from earmark.gate.onnx_scorer import OnnxScorer
from earmark.training.head import Head
from earmark.training.head_export import Panel, export, prove
from earmark.training.objectives import OBJECTIVES
from earmark.training.optimisation import score


def heads(count: int, bands: int) -> list[Head]:
    torch.manual_seed(5)
    return [Head(16, width=8, bands=bands, dropout=0.5).eval() for _ in range(count)]


def features(steps: int) -> np.ndarray:
    return np.random.default_rng(steps).standard_normal((steps, 16)).astype(np.float32)


def scorer(panel: Panel) -> OnnxScorer:
    graph = export(panel)
    return OnnxScorer(hashlib.sha256(graph).hexdigest(), "log-mel", 16, panel.context, graph)


@pytest.mark.parametrize("bands", [0, 4])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("count", [1, 3])
def test_torch_and_onnx_agree(bands: int, objective: str, count: int) -> None:
    panel = Panel(heads(count, bands), OBJECTIVES[objective]).eval()
    lengths = (1, 2, 30, 138, 1700)
    assert prove(panel, scorer(panel), [features(steps) for steps in lengths]) <= 1e-4


@pytest.mark.parametrize("bands", [0, 4])
def test_a_panel_is_the_mean_of_its_heads(bands: int) -> None:
    chosen, objective = heads(3, bands), OBJECTIVES["rate"]
    rows = features(90)
    wanted = np.mean([score(head, objective, rows) for head in chosen], axis=0)
    with torch.no_grad():
        got = Panel(chosen, objective).eval()(torch.from_numpy(rows)[None])[0].numpy()
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_a_wrong_export_is_not_believed() -> None:
    panel = Panel(heads(2, 4), OBJECTIVES["rate"]).eval()
    other = Panel([Head(16, width=8, bands=4).eval()], OBJECTIVES["rate"]).eval()
    with pytest.raises(ModelMismatch, match="the export is wrong"):
        prove(panel, scorer(other), [features(60)])
