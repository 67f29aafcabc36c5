"""What a researcher needs beside earmark: annotations, metrics, experiments, training, encoders.

annotations/  readers of annotation files
metrics/      pure functions from references and picks to counts, and tests of significance
experiments/  rules and frontlines compared on annotated recordings; captions, cost, occupancy
reproduce/    the paper's tables and figures beside what runs here
training/     fits a gate, exports it, checks that the export is equal; adapts one to a site
encoders/     published audio networks as frontlines
demo          a scene with known actions
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from earmark_lab.experiments.coverage_evaluation import evaluate
    from earmark_lab.training.gate_training import train

_HOMES = {
    "evaluate": "earmark_lab.experiments.coverage_evaluation",
    "train": "earmark_lab.training.gate_training",
}

__all__ = ["evaluate", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'earmark_lab' has no attribute {name!r}")
    if name == "train":
        from earmark.models import require

        require("torch", what="training")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
