"""A small ONNX file that answers queries by how loud it is, as a stand-in for DASM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


def answer_model(path: Path, *, asks_for_queries: bool, sample_rate: str | None = None) -> Path:
    """Averages the sound down to ten rows; the first column of the embeddings scales it."""
    value, floats = helper.make_tensor_value_info, TensorProto.FLOAT
    constants = [
        numpy_helper.from_array(np.array([0, 1, 10, -1]), "cells"),
        numpy_helper.from_array(np.array([[0.5], [1.0]], np.float32), "own"),
        numpy_helper.from_array(np.array([3]), "last"),
    ]
    scale = "queries" if asks_for_queries else "own"
    nodes = [
        helper.make_node("Abs", ["sound"], ["loud"]),
        helper.make_node("Reshape", ["loud", "cells"], ["stacked"]),
        helper.make_node("ReduceMax", ["stacked", "last"], ["most"], keepdims=0),
        helper.make_node("Mul", ["most", scale], ["answer"]),
    ]
    inputs = [value("sound", floats, ["chunks", 320_000])]
    if asks_for_queries:
        inputs.append(value("queries", floats, ["n", 1]))
    constants[0] = numpy_helper.from_array(np.array([-1, 1, 10, 32_000]), "cells")
    outputs = [value("answer", floats, None)]
    graph = helper.make_graph(nodes, "answers", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    if sample_rate:
        helper.set_model_props(model, {"sample_rate": sample_rate})
    save(model, path)
    return path
