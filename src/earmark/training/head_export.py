"""From trained heads to one ONNX graph, proved equal before it is believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from earmark.errors import ModelMismatch
from earmark.gate.onnx_scorer import OnnxScorer
from earmark.timeline import FloatArray, Track
from earmark.training.head import AROUND, LEAST_VARIANCE, Front, Head
from earmark.training.objectives import Objective

TOLERANCE = 1e-4
"""Largest difference between a score of PyTorch and one of ONNX Runtime."""


OPSET, IR_VERSION = 18, 9
"""Of the file; old enough for every ONNX Runtime that earmark runs with."""


class Panel(nn.Module):
    """Heads of one shape that listen together: the mean of their scores.

    The heads share what they read of the features, and lie side by side in one grouped
    convolution a layer, so that listening costs little more than one wide head.
    """

    def __init__(self, heads: Sequence[Head], objective: Objective) -> None:
        super().__init__()
        self.front = heads[0].front
        self.enter = _beside([head.settled_enter() for head in heads], shared_input=True)
        self.blocks = nn.ModuleList(
            _beside(list(layers), shared_input=False)
            for layers in zip(*(head.blocks for head in heads), strict=True)
        )
        self.leave = _beside([head.leave for head in heads], shared_input=False)
        self.channels = heads[0].channels
        self.context = heads[0].context
        self.objective = objective

    def forward(self, features: Tensor) -> Tensor:
        """Scores `(batch, steps)` of features `(batch, steps, channels)`."""
        hidden = torch.relu(self.enter(self.front(features)))
        for block in self.blocks:
            hidden = hidden + torch.relu(block(hidden))
        return self.objective.score(self.leave(hidden)).mean(1)


def _beside(layers: Sequence[nn.Conv1d], *, shared_input: bool) -> nn.Conv1d:
    """Convolutions of one shape as groups of a single one."""
    one = layers[0]
    groups = 1 if shared_input else len(layers)
    joined = nn.Conv1d(
        one.in_channels * groups,
        one.out_channels * len(layers),
        one.kernel_size[0],
        padding=one.dilation[0] * (one.kernel_size[0] // 2),
        dilation=one.dilation[0],
        groups=groups,
    )
    with torch.no_grad():
        joined.weight.copy_(torch.cat([layer.weight for layer in layers]))
        assert joined.bias is not None
        joined.bias.copy_(torch.cat([layer.bias for layer in layers if layer.bias is not None]))
    return joined


def export(panel: Panel) -> bytes:
    """The panel as an ONNX graph from `features` to `scores`, for any number of steps.

    Written node by node: it is a dozen operators, and `prove` compares it with the panel.
    """
    graph = _Graph()
    hidden = _write_front(graph, panel.front)
    hidden = graph.add("Relu", graph.convolve(hidden, panel.enter))
    for block in panel.blocks:
        assert isinstance(block, nn.Conv1d)
        hidden = graph.add("Add", hidden, graph.add("Relu", graph.convolve(hidden, block)))
    logits = graph.convolve(hidden, panel.leave)
    scores = graph.add(ACTIVATIONS[panel.objective.activation], logits)
    graph.add("ReduceMean", scores, graph.constant([1]), keepdims=0, output="scores")
    return graph.serialise(panel.channels)


ACTIVATIONS = {"logistic": "Sigmoid", "softplus": "Softplus"}
"""ONNX operators by the name an objective gives what turns its logits into scores."""


def _write_front(graph: _Graph, front: Front) -> str:
    """The nodes of `Front.forward`; gives the name of what comes out, (1, channels, steps)."""
    if not front.bands:
        return graph.add("Transpose", "features", perm=[0, 2, 1])
    grouped = graph.add("Reshape", "features", graph.constant([0, 0, front.bands, -1]))
    levels = graph.add("ReduceMean", grouped, graph.constant([3]), keepdims=0)
    levels = graph.add("Transpose", levels, perm=[0, 2, 1])
    later = graph.add("Pad", levels, graph.constant([0, 0, 1, 0, 0, 0]))
    before = graph.add(
        "Slice", later, *(graph.constant([value]) for value in (0, -1, 2))
    )  # from, to, along
    rises = graph.add("Relu", graph.add("Sub", levels, before))
    mean = graph.average(levels, AROUND)
    square = graph.average(graph.add("Mul", levels, levels), AROUND)
    variance = graph.add("Sub", square, graph.add("Mul", mean, mean))
    spread = graph.add("Sqrt", graph.add("Max", variance, graph.constant(LEAST_VARIANCE)))
    return graph.add("Concat", levels, rises, spread, axis=1)


class _Graph:
    """An ONNX graph in the making."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._values: list[Any] = []

    def add(self, operator: str, *inputs: str, output: str = "", **options: Any) -> str:
        """A node; gives the name of its output."""
        name = output or f"{operator.lower()}{len(self._nodes)}"
        self._nodes.append(onnx.helper.make_node(operator, inputs, [name], **options))
        return name

    def constant(self, value: Any) -> str:
        """A value written into the file: whole numbers as int64, others as float32."""
        array = value if isinstance(value, np.ndarray) else np.array(value)
        kind = np.int64 if array.dtype.kind == "i" else np.float32
        name = f"value{len(self._values)}"
        self._values.append(onnx.numpy_helper.from_array(array.astype(kind), name))
        return name

    def convolve(self, value: str, layer: nn.Conv1d) -> str:
        """A convolution that keeps the number of steps."""
        assert layer.bias is not None
        weights = (layer.weight.detach().numpy(), layer.bias.detach().numpy())
        side = layer.dilation[0] * (layer.kernel_size[0] // 2)
        return self.add(
            "Conv",
            value,
            *(self.constant(each) for each in weights),
            dilations=list(layer.dilation),
            group=layer.groups,
            kernel_shape=list(layer.kernel_size),
            pads=[side, side],
        )

    def average(self, value: str, side: int) -> str:
        """The mean over `side` steps on both sides, those beyond the ends counting as zeros."""
        return self.add(
            "AveragePool",
            value,
            kernel_shape=[2 * side + 1],
            pads=[side, side],
            count_include_pad=1,
        )

    def serialise(self, channels: int) -> bytes:
        """The file."""
        kind = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            self._nodes,
            "gate",
            [onnx.helper.make_tensor_value_info("features", kind, [1, "steps", channels])],
            [onnx.helper.make_tensor_value_info("scores", kind, [1, "steps"])],
            self._values,
        )
        model = onnx.helper.make_model(
            graph,
            producer_name="earmark",
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        onnx.checker.check_model(model)
        data: bytes = model.SerializeToString()
        return data


def prove(panel: Panel, scorer: OnnxScorer, features: Sequence[FloatArray]) -> float:
    """The largest difference between PyTorch over whole recordings and ONNX Runtime in pieces.

    Raises:
        ModelMismatch: it exceeds `TOLERANCE`.
    """
    worst = 0.0
    for rows in features:
        with torch.no_grad():
            wanted = panel(torch.from_numpy(rows)[None])[0].numpy()
        for piece in (len(rows), 137):
            tracks = [
                Track(rows[start : start + piece], start=start / 25)
                for start in range(0, len(rows), piece)
            ]
            got = np.concatenate([track.values for track in scorer(tracks)])
            worst = max(worst, float(np.abs(got - wanted).max(initial=0.0)))
    if not worst <= TOLERANCE:
        raise ModelMismatch(
            f"the exported gate differs from the trained one by {worst:.2g}, more than "
            f"{TOLERANCE:g}: the export is wrong"
        )
    return worst
