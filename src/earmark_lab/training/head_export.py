"""Exports trained heads and contexts as one ONNX graph, and compares its scores with PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional

from earmark.errors import ModelMismatch
from earmark.gate.gate import OnnxScorer
from earmark.timeline import CLOCK_RATE, HOP, FloatArray, Track
from earmark_lab.training.head import (
    AROUND,
    FARTHEST,
    LEAST_VARIANCE,
    SHARPER,
    VARIETY,
    Context,
    Front,
    Head,
    Normalised,
    Objective,
    TalkDetector,
    Tower,
    chance_of_work,
    in_whole_seconds,
)

TOLERANCE = 1e-4


OPSET, IR_VERSION = 18, 9
"""Old enough for every ONNX Runtime that earmark supports."""


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Heads whose scores are averaged, times the probability of work by `contexts`.

    With a detector the score falls to near 0 for talk alone. With `loudness` it is highest in the
    middle of a sound, not at its edge. Without contexts neither is used.
    """

    heads: Sequence[Head]
    contexts: Sequence[Context]
    """All with the same `usual` and `spread`; may be empty."""
    objective: Objective
    loudness: float = 0.0
    detector: TalkDetector | None = None

    @property
    def context(self) -> int:
        """Steps on each side that a score depends on, in whole seconds."""
        reach = [self.heads[0].context + AROUND, *(context.context for context in self.contexts)]
        longest = max(*reach, self.detector.context if self.detector else 0)
        return math.ceil(longest / CLOCK_RATE) * CLOCK_RATE

    def __call__(self, features: Tensor) -> Tensor:
        """From `(batch, steps, channels)` to `(batch, steps)`."""
        steps = features.shape[1]
        features = in_whole_seconds(features)
        local = torch.stack([self.objective.score(head(features)) for head in self.heads]).mean(0)
        if not self.contexts:
            return local[:, :steps]
        if self.loudness:
            level = features[:, :, : self.contexts[0].channels].mean(2)
            local = _mean_around(local) * torch.exp(self.loudness * _mean_around(level))
        if self.detector:
            local = local * self.detector.without_talk(features)
        return (local * chance_of_work(self.contexts, features))[:, :steps]


def _mean_around(values: Tensor) -> Tensor:
    width = 2 * AROUND + 1
    around = functional.avg_pool1d(values.unsqueeze(1), width, 1, AROUND, count_include_pad=False)
    return around.squeeze(1)


def export(panel: Panel) -> bytes:
    """An ONNX graph from `features` to `scores`, for whole seconds of steps.

    Heads are joined to one grouped convolution a layer: they cost little more than one wide head.
    """
    graph, heads = _Graph(), panel.heads
    towers, enters = [head.tower for head in heads], [head.settled_enter() for head in heads]
    logits = _write_towers(graph, _write_front(graph, heads[0].front), towers, enters)
    scores = _write_activation(graph, logits, panel.objective.activation)
    scores = graph.add("ReduceMean", scores, [1], keepdims=1)
    if not panel.contexts:
        graph.add("Squeeze", scores, [1], output="scores")
        return graph.serialise(heads[0].channels)
    if panel.loudness:
        scores = _write_loudness(graph, scores, panel.loudness, panel.contexts[0].channels)
    if panel.detector:
        scores = graph.add("Mul", scores, _write_detector(graph, panel.detector))
    scores = graph.add("Squeeze", scores, [1])
    graph.add("Mul", scores, _write_chance(graph, panel.contexts), output="scores")
    return graph.serialise(heads[0].channels)


def extend(weights: bytes, contexts: Sequence[Context]) -> bytes:
    model = onnx.load_model_from_string(weights)
    before = f"scores{len(model.graph.node)}"
    for node in model.graph.node:
        node.output[:] = [before if name == "scores" else name for name in node.output]
    graph = _Graph(f"site{len(model.graph.node)}_")
    graph.add("Mul", before, _write_chance(graph, contexts), output="scores")
    model.graph.node.extend(graph.nodes)
    model.graph.initializer.extend(graph.values)
    return _checked(model)


def _checked(model: onnx.ModelProto) -> bytes:
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _write_chance(graph: _Graph, contexts: Sequence[Context]) -> str:
    towers = [context.tower for context in contexts]
    enters = [tower.enter for tower in towers]
    logits = _write_towers(graph, _write_seconds(graph, contexts[0]), towers, enters)
    chance = graph.add("ReduceMean", graph.add("Sigmoid", logits), [1], keepdims=0)
    chance = graph.add("Tile", graph.add("Unsqueeze", chance, [2]), [1, 1, CLOCK_RATE])
    return graph.add("Reshape", chance, [0, -1])


def _write_detector(graph: _Graph, detector: TalkDetector) -> str:
    read, tower = graph.normalise("features", detector), detector.tower
    logits = _write_towers(graph, read, [tower], [tower.enter])
    return _write_activation(graph, graph.add("Mul", logits, -SHARPER), "logistic")


def _write_loudness(graph: _Graph, scores: str, loudness: float, channels: int) -> str:
    read = graph.add("Slice", "features", [0], [channels], [2])
    level = graph.add("ReduceMean", read, [2], keepdims=1)
    level = graph.average(graph.add("Transpose", level, perm=[0, 2, 1]), AROUND, padded=False)
    weight = graph.add("Exp", graph.add("Mul", level, loudness))
    return graph.add("Mul", graph.average(scores, AROUND, padded=False), weight)


def _write_towers(
    graph: _Graph, read: str, towers: Sequence[Tower], enters: Sequence[nn.Conv1d]
) -> str:
    hidden = graph.add("Relu", graph.convolve(read, enters, groups=1))
    for blocks in zip(*(tower.blocks for tower in towers), strict=True):
        convolved = graph.convolve(hidden, blocks, groups=len(towers))
        hidden = graph.add("Add", hidden, graph.add("Relu", convolved))
    return graph.convolve(hidden, [tower.leave for tower in towers], groups=len(towers))


def _write_seconds(graph: _Graph, context: Context) -> str:
    channels = context.channels
    read = graph.add("Slice", "features", [0], [channels], [2])
    cells = graph.add("Reshape", read, [0, -1, CLOCK_RATE, channels])
    mean = graph.add("ReduceMean", cells, [2], keepdims=1)
    off = graph.add("Sub", cells, mean)
    variance = graph.add("ReduceMean", graph.add("Mul", off, off), [2], keepdims=0)
    spread = graph.add("Sqrt", graph.add("Max", variance, LEAST_VARIANCE))
    largest = graph.add("ReduceMax", cells, [2], keepdims=0)
    later = graph.add("Slice", cells, [1], [CLOCK_RATE], [2])
    earlier = graph.add("Slice", cells, [0], [CLOCK_RATE - 1], [2])
    moves = graph.add("Sub", later, earlier)
    rise = graph.add("ReduceMax", graph.add("Relu", moves), [2], keepdims=0)
    shared = graph.add("ReduceMean", moves, [3], keepdims=1)
    alone = graph.add("Abs", graph.add("Sub", moves, shared))
    apart = graph.add("ReduceMean", alone, [2], keepdims=0)
    mean = graph.add("Squeeze", mean, [2])
    rows = graph.add("Concat", mean, spread, largest, rise, apart, axis=2)
    rows = graph.normalise(rows, context)
    varied = [graph.deviation(rows, side, padded=False) for side in VARIETY]
    return graph.add("Concat", rows, *varied, axis=1)


def _write_activation(graph: _Graph, logits: str, name: str) -> str:
    """The logistic is written out: ONNX Runtime's `Sigmoid` is exactly 0 below about -18."""
    if name == "softplus":
        return graph.add("Softplus", logits)
    one = graph.constant(1.0)
    return graph.add("Div", one, graph.add("Add", one, graph.add("Exp", graph.add("Neg", logits))))


def _write_front(graph: _Graph, front: Front) -> str:
    if not front.bands:
        return graph.add("Transpose", "features", perm=[0, 2, 1])
    grouped = graph.add("Reshape", "features", [0, 0, front.bands, -1])
    levels = graph.add("ReduceMean", grouped, [3], keepdims=0)
    levels = graph.add("Transpose", levels, perm=[0, 2, 1])
    later = graph.add("Pad", levels, [0, 0, 1, 0, 0, 0])
    before = graph.add("Slice", later, [0], [-1], [2])
    rises = graph.add("Relu", graph.add("Sub", levels, before))
    return graph.add("Concat", levels, rises, graph.deviation(levels, AROUND), axis=1)


class _Graph:
    def __init__(self, prefix: str = "") -> None:
        self.nodes: list[Any] = []
        self.values: list[Any] = []
        self._prefix = prefix

    def add(self, operator: str, *inputs: Any, output: str = "", **options: Any) -> str:
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        name = output or f"{self._prefix}{operator.lower()}{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(operator, names, [name], **options))
        return name

    def constant(self, value: Any) -> str:
        array = np.asarray(value)
        kind = np.int64 if array.dtype.kind == "i" else np.float32
        name = f"{self._prefix}value{len(self.values)}"
        self.values.append(onnx.numpy_helper.from_array(array.astype(kind), name))
        return name

    def convolve(self, value: str, layers: Sequence[Any], *, groups: int) -> str:
        """One convolution for `layers` side by side, which differ only in their weights."""
        (size,), (dilation,) = layers[0].kernel_size, layers[0].dilation
        side = dilation * (size // 2)
        return self.add(
            "Conv",
            value,
            torch.cat([layer.weight.detach() for layer in layers]),
            torch.cat([layer.bias.detach() for layer in layers]),
            dilations=[dilation],
            group=groups,
            kernel_shape=[size],
            pads=[side, side],
        )

    def normalise(self, value: str, network: Normalised) -> str:
        scaled = self.add("Div", self.add("Sub", value, network.usual), network.spread)
        return self.add("Transpose", self.add("Clip", scaled, -FARTHEST, FARTHEST), perm=[0, 2, 1])

    def average(self, value: str, side: int, *, padded: bool = True) -> str:
        """Over `side` steps on both sides; `padded` counts zeros beyond the ends."""
        return self.add(
            "AveragePool",
            value,
            kernel_shape=[2 * side + 1],
            pads=[side, side],
            count_include_pad=int(padded),
        )

    def deviation(self, value: str, side: int, *, padded: bool = True) -> str:
        mean = self.average(value, side, padded=padded)
        square = self.average(self.add("Mul", value, value), side, padded=padded)
        variance = self.add("Sub", square, self.add("Mul", mean, mean))
        return self.add("Sqrt", self.add("Max", variance, LEAST_VARIANCE))

    def serialise(self, channels: int) -> bytes:
        kind = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            self.nodes,
            "gate",
            [onnx.helper.make_tensor_value_info("features", kind, [1, "steps", channels])],
            [onnx.helper.make_tensor_value_info("scores", kind, [1, "steps"])],
            self.values,
        )
        model = onnx.helper.make_model(
            graph,
            producer_name="earmark",
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        return _checked(model)


def prove(
    panel: Callable[[Tensor], Tensor], scorer: OnnxScorer, features: Sequence[FloatArray]
) -> float:
    """The largest difference of PyTorch and ONNX Runtime; `ModelMismatch` above `TOLERANCE`."""
    worst = 0.0
    for rows in features:
        with torch.no_grad():
            expected = panel(torch.from_numpy(rows)[None])[0].numpy()
        for piece in (len(rows), 137):
            cuts = range(0, len(rows), piece)
            tracks = scorer(Track(rows[cut : cut + piece], start=cut * HOP) for cut in cuts)
            exported = np.concatenate([track.values for track in tracks])
            worst = max(worst, float(np.abs(exported - expected).max(initial=0.0)))
    if not worst <= TOLERANCE:
        raise ModelMismatch(
            f"the exported gate differs from the trained one by {worst:.2g}, more than "
            f"{TOLERANCE:g}: the export is wrong"
        )
    return worst
