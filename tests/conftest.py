"""Fixtures every test may ask for."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# What a terminal, a CI service or a user has set says nothing about the code. Done here and not
# in a fixture: Typer and Rich read some of it when they are imported.
for name in (
    "COLUMNS",
    "FORCE_COLOR",
    "GITHUB_ACTIONS",
    "LINES",
    "NO_COLOR",
    "PY_COLORS",
    "EARMARK_CACHE",
    "EARMARK_CHECKPOINTS",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
):
    os.environ.pop(name, None)
for name in ("no_proxy", "NO_PROXY"):
    os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1", "localhost"]))

# A machine that is busy is slow, which says nothing about the code; and a test that passed here
# meets the same examples elsewhere. `--hypothesis-profile=default` looks for new ones.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

OPTIONAL = {
    "PIL", "ai_edge_litert", "cv2", "fastapi", "gguf", "jsonschema", "matplotlib", "mcp", "moto",
    "onnx", "onnxscript", "opentimelineio", "paho", "pandas", "pyarrow", "ray", "s3fs",
    "schemathesis", "selenium", "skimage", "tokenizers", "torch", "transformers", "uvicorn",
    "xllamacpp", "yaml",
}  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Skip a file or a folder of tests that imports an optional library which is not here."""
    report = yield
    error = report.call.excinfo.value if report.failed else None
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__ or getattr(error, "cause", None)  # of a test; of a conftest.py
    name = (error.name or "").partition(".")[0] if error else ""
    if name in OPTIONAL:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {name} is not installed")
    return report


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real annotations beside the checkout; skips the test where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no annotations at {folder.name}/ beside the checkout")
    return folder


@pytest.fixture
def named_by_yamnet(monkeypatch: pytest.MonkeyPatch) -> None:
    """For made sounds that were shaped until YAMNet knew them; mn04 comes first if it is here."""
    from earmark.evidence.picture_evidence import REQUIREMENTS

    yamnet = [each for each in REQUIREMENTS["heard"] if each.models == ("yamnet",)]
    monkeypatch.setitem(REQUIREMENTS, "heard", tuple(yamnet))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of six megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=6m", "earmark", str(folder)],
        capture_output=True,
        check=False,
    )
    if not made or made.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
