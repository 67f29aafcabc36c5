"""The direction of imports, what `import earmark` loads, and the public names."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import earmark
import earmark_lab

ROOT = Path(__file__).parents[1]
EXTRAS = {
    "ai_edge_litert", "cv2", "fastapi", "matplotlib", "mcp", "onnx", "opentimelineio", "pandas",
    "pyarrow", "ray", "s3fs", "tokenizers", "torch", "transformers", "uvicorn", "xllamacpp",
    "earmark_lab",
}  # fmt: skip


def test_imports_keep_their_direction():
    """The contracts stand in pyproject.toml; lazy imports count."""
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    lint = "from importlinter.cli import lint_imports_command as lint; lint()"
    done = subprocess.run(
        [sys.executable, "-c", lint, "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_earmark_loads_no_extra():
    code = "import earmark, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not EXTRAS & set(loaded)


@pytest.mark.parametrize("package", [earmark, earmark_lab])
def test_the_public_names_are_pinned(package):
    assert list(package.__all__) == sorted(package.__all__) == dir(package)
    if package is earmark_lab:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    assert all(getattr(package, name) is not None for name in package.__all__)


@pytest.mark.parametrize("verb", ["ask", "caption", "find", "plan", "select", "sounds"])
def test_the_verbs_are_functions_with_types_and_words(verb):
    function = getattr(earmark, verb)
    assert inspect.isfunction(function)
    assert function.__doc__
    assert get_type_hints(function)["return"] is not type(None)
