"""Reads the tensors of a PyTorch checkpoint without PyTorch; nothing in the file is executed.

A checkpoint is a ZIP: `data.pkl` describes the tensors, `data/0`, `data/1`, ... hold their values.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from earmark.errors import ModelMismatch
from earmark.timeline import FloatArray

_TYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


def read_weights(path: Path) -> dict[str, FloatArray]:
    """The tensors by name; `ModelMismatch` for anything but a flat dictionary of them."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(inside) as file:
                weights = _Unpickler(file, archive, PurePosixPath(inside).parent).load()
    except (*_DAMAGE, StopIteration) as error:
        raise ModelMismatch(
            f"{path.name} is damaged, or no PyTorch checkpoint of weights alone ({error})"
        ) from error
    if not isinstance(weights, dict) or not all(
        isinstance(value, np.ndarray) for value in weights.values()
    ):
        raise ModelMismatch(f"{path.name} holds other things than weights by name")
    return dict(weights)


_DAMAGE = (
    OSError,
    zipfile.BadZipFile,
    pickle.UnpicklingError,
    EOFError,
    KeyError,
    IndexError,
    ValueError,
    TypeError,
    AttributeError,
)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, archive: zipfile.ZipFile, folder: PurePosixPath) -> None:
        super().__init__(file)
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _make_tensor
        if module == "torch" and name in _TYPES:
            return _TYPES[name]
        raise pickle.UnpicklingError(f"it holds a {module}.{name}")

    def persistent_load(self, pid: Any) -> FloatArray:
        _, kind, key, _, count = pid
        values = np.frombuffer(self._archive.read(str(self._folder / "data" / key)), dtype=kind)
        if len(values) != count:
            raise ValueError(f"{len(values)} values instead of {count}")
        return values


def _make_tensor(
    storage: FloatArray, offset: int, size: Sequence[int], stride: Sequence[int], *_: Any
) -> FloatArray:
    expected = [int(np.prod(size[axis + 1 :])) for axis in range(len(size))]
    if any(n > 1 and own != full for n, own, full in zip(size, stride, expected, strict=True)):
        raise ValueError("a tensor is not stored row by row")
    return storage[offset : offset + int(np.prod(size))].reshape(size)
