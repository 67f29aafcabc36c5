"""A small open-vocabulary model that really listens: a query is a point on a map of two tones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

RATE = 32_000
CELL = RATE // 25
LOW, HIGH = 500.0, 4_000.0
"""Hz of the two tones it can tell apart."""

EMBEDDINGS = {"a low hum": (1.0, 0.0), "a high whistle": (0.0, 1.0)}


def write_model(path: Path) -> Path:
    """Takes `sound` and `queries` as DASM's adapter wants them; answers every 40 ms.

    How strong each tone is in a cell, weighed by the query, less 0.5, through a sigmoid.
    """
    times = np.arange(CELL) / RATE
    waves = [wave(2 * np.pi * tone * times) for tone in (LOW, HIGH) for wave in (np.cos, np.sin)]
    kernel = (np.stack(waves)[:, None] * 2 / CELL).astype(np.float32)
    constants = {
        "kernel": kernel,
        "channel": np.array([1]),
        "pairs": np.array([0, 2, 2, 250]),
        "side": np.array([2]),
        "half": np.float32(0.5),
        "sharpness": np.float32(20.0),
    }
    nodes = [
        helper.make_node("Unsqueeze", ["sound", "channel"], ["mono"]),
        helper.make_node("Conv", ["mono", "kernel"], ["waves"], strides=[CELL]),
        helper.make_node("Reshape", ["waves", "pairs"], ["paired"]),
        helper.make_node("ReduceL2", ["paired", "side"], ["strength"], keepdims=0),
        helper.make_node("MatMul", ["queries", "strength"], ["heard"]),
        helper.make_node("Sub", ["heard", "half"], ["more"]),
        helper.make_node("Mul", ["more", "sharpness"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["posteriors"]),
    ]
    value, floats = helper.make_tensor_value_info, TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "tones",
        [value("sound", floats, ["chunks", 10 * RATE]), value("queries", floats, ["n", 2])],
        [value("posteriors", floats, ["chunks", "n", 250])],
        [numpy_helper.from_array(np.asarray(held), name) for name, held in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    save(model, path)
    return path


def write_queries(path: Path, *queries: str) -> Path:
    """A text file of some of `EMBEDDINGS`, and their embeddings beside it."""
    path.write_text("# what to listen for\n" + "\n".join(queries) + "\n", encoding="utf-8")
    np.save(path.with_suffix(".npy"), np.array([EMBEDDINGS[each] for each in queries], np.float32))
    return path


def tones(seconds: float, *, low: float, high: float) -> np.ndarray:
    """Silence but for one second of each tone, at 16 kHz, beginning at `low` and at `high`."""
    times = np.arange(round(seconds * 16_000)) / 16_000
    sound = np.zeros_like(times)
    for start, tone in ((low, LOW), (high, HIGH)):
        inside = (times >= start) & (times < start + 1)
        sound[inside] = 0.8 * np.sin(2 * np.pi * tone * times[inside])
    return sound.astype(np.float32)
