"""Opens ONNX models; only here is ONNX Runtime used."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from earmark.errors import ModelMismatch


def open_session(model: Path | bytes, *, threads: int | None = 1) -> Any:
    """An ONNX Runtime session of a file or of its bytes; `ModelMismatch` if it is not a model.

    It runs on the CPU with `threads` threads; None for the library's default.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read once, when it is imported
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    name, source = (model.name, str(model)) if isinstance(model, Path) else ("the model", model)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own have no common parent but this
        reason = str(error).split("\n", 1)[0][:200]
        raise ModelMismatch(f"{name} is cut off or no ONNX model: {reason}") from error


shared_session = lru_cache(maxsize=16)(open_session)
"""`open_session` with a cache: one session per process for the same file or bytes."""
