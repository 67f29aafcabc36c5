"""Write the graph of EfficientAT's mn04 without weights, which earmark fills from the checkpoint.

    python scripts/mn04_graph.py                       # src/earmark/features/mn04.onnx

It is made from the network in `earmark_lab.encoders.convolutional`. Every weight is marked as
stored elsewhere, by its name in the checkpoint; batch norms are folded into the convolution before
them, whose bias is named like its weight.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper
from torch import nn

from earmark_lab.encoders.convolutional import ClipMobileNet

TARGET = Path(__file__).parents[1] / "src" / "earmark" / "features" / "mn04.onnx"
OPSET, IR_VERSION = 18, 9
"""Old enough for every ONNX Runtime that earmark supports."""

BANDS, SPECTRA = 128, 320


class GraphWriter:
    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, output: str | None = None, **options: object) -> str:
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **options))
        return name

    def constant(self, name: str, values: list[int]) -> str:
        self.weights.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def weight(self, name: str, shape: tuple[int, ...]) -> str:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="checkpoint")
        self.weights.append(tensor)
        return name

    def linear(self, rows: str, name: str, layer: nn.Module, **options: object) -> str:
        assert isinstance(layer, nn.Linear)
        weight = self.weight(f"{name}.weight", tuple(layer.weight.shape))
        bias = self.weight(f"{name}.bias", tuple(layer.bias.shape))
        return self.add("Gemm", rows, weight, bias, transB=1, **options)

    def convolution(self, maps: str, name: str, layers: nn.Sequential) -> str:
        inner = layers[0]
        assert isinstance(inner, nn.Conv2d)
        weight = self.weight(f"{name}.0.weight", tuple(inner.weight.shape))
        bias = self.weight(f"{name}.0.bias", (inner.out_channels,))
        options = {
            "strides": inner.stride,
            "pads": 2 * inner.padding,
            "group": inner.groups,
            "kernel_shape": inner.kernel_size,
        }
        maps = self.add("Conv", maps, weight, bias, **options)
        kinds = {nn.ReLU: "Relu", nn.Hardswish: "HardSwish"}
        return self.add(kinds[type(layers[2])], maps) if len(layers) > 2 else maps

    def squeeze_excite(self, maps: str, name: str, layers: nn.ModuleDict) -> str:
        rows = self.add("ReduceMean", maps, "area", keepdims=0)
        for layer, activation in (("fc1", "Relu"), ("fc2", "Sigmoid")):
            rows = self.add(activation, self.linear(rows, f"{name}.{layer}", layers[layer]))
        return self.add("Mul", maps, self.add("Unsqueeze", rows, "area"))

    def residual(self, maps: str, name: str, block: nn.Module) -> str:
        inner = maps
        for number, layers in block.block.named_children():
            where = f"{name}.block.{number}"
            if isinstance(layers, nn.Sequential):
                inner = self.convolution(inner, where, layers)
            else:
                where += ".conc_se_layers.0"
                inner = self.squeeze_excite(inner, where, layers.conc_se_layers[0])
        return self.add("Add", inner, maps) if block._has_shortcut else inner


def make_graph() -> onnx.ModelProto:
    network, graph = ClipMobileNet(), GraphWriter()
    graph.constant("area", [2, 3])
    maps = graph.add("Unsqueeze", "spectra", graph.constant("channel", [1]))
    for number, layers in network.features.named_children():
        name = f"features.{number}"
        convolves = isinstance(layers, nn.Sequential)
        maps = (graph.convolution if convolves else graph.residual)(maps, name, layers)
    rows = graph.add("ReduceMean", maps, "area", keepdims=0, output="embedding")
    first, last = network.classifier["2"], network.classifier["5"]
    hidden = graph.add("HardSwish", graph.linear(rows, "classifier.2", first))
    graph.linear(hidden, "classifier.5", last, output="logits")
    shapes = {
        "spectra": ("patches", BANDS, SPECTRA),
        "embedding": ("patches", first.in_features),
        "logits": ("patches", last.out_features),
    }
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    inner = helper.make_graph(graph.nodes, "mn04", values[:1], values[1:], graph.weights)
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(inner, opset_imports=[opset], ir_version=IR_VERSION)


if __name__ == "__main__":
    TARGET.write_bytes(make_graph().SerializeToString())
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes, no weights")
