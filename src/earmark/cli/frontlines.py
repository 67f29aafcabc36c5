"""`earmark frontlines`: every system of the paper's comparison, and what it takes to run it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from earmark.cli.checkpoints import files_at, place
from earmark.cli.console import Format, emit_json, out
from earmark.cli.models import Folder, shelf_at
from earmark.features.pretrained import PUBLISHED
from earmark.models import ModelStore, checkpoint_named

READY = "ready"

EXTRAS = {"yamnet": "ai_edge_litert", "vision": "cv2", "encoders": "torch"}
"""The library each extra brings."""


@dataclass(frozen=True, slots=True)
class System:
    """One system: by what it ranks windows, what it reads for that, what it needs and costs."""

    name: str
    """As `--frontline` or `--rule` takes it."""
    kind: str
    """`frontline`, which scores moments, or `rule`, which spends scores."""
    title: str
    """As the paper calls it; empty for those it has not."""
    scores: str
    reads: str
    cost: float | None = None
    """Seconds of processor time for an hour of recording, see experiments/LOG.md: those that need
    a checkpoint with random weights of the same size; None where there was nothing to measure."""
    extra: str = ""
    checkpoints: tuple[str, ...] = ()
    """Their names in `earmark models`."""

    def state(self, shelf: ModelStore, folder: Path | None = None) -> str:
        """`ready`, or the first thing it needs and how to get it.

        Checkpoints may lie on `shelf` or in `folder`; a published model that was exported needs
        neither its checkpoint nor its extra.
        """
        located = files_at(self.name, folder) if folder else {}
        exported = shelf.path(self.name).with_suffix(".onnx") if self.name in PUBLISHED else None
        if located.get("weights", "").endswith(".onnx") or (exported and exported.is_file()):
            return READY
        if self.extra and find_spec(EXTRAS[self.extra]) is None:
            return f"needs an extra: pip install 'earmark[{self.extra}]'"
        for name in () if located else self.checkpoints:
            if shelf.state(name) != "here":
                way = f"get {name}" if checkpoint_named(name).origins else f"add {name} FILE"
                return f"needs a checkpoint: earmark models {way}"
        return READY


_SOUND = "sound"
_VIDEO = "all video"
_SCORES = "scores"
_STRONG = "AudioSet-Strong frames, 447 classes"

SYSTEMS = (
    System("full", "rule", "Full scan", "every window", "nothing", 0.0),
    System("uniform", "rule", "Uniform", "evenly spaced windows", "nothing", 0.0),
    System("random", "rule", "Random spans", "matched length statistics", "nothing", 0.0),
    System("energy", "frontline", "Short-term energy", "frame RMS", _SOUND, 4.1),
    System("flux", "frontline", "Spectral flux", "onset strength", _SOUND, 5.0),
    System(
        "panns", "frontline", "PANNs / CNN14", "AudioSet posteriors, 527 classes", _SOUND, 353,
        extra="encoders", checkpoints=("panns",),
    ),
    System(
        "beats", "frontline", "BEATs", _STRONG, _SOUND, 667,
        extra="encoders", checkpoints=("beats",),
    ),
    System(
        "fpasst", "frontline", "fPaSST", _STRONG, _SOUND, 340,
        extra="encoders", checkpoints=("fpasst",),
    ),
    System(
        "atst-frame", "frontline", "ATST-Frame", _STRONG, _SOUND, 333,
        extra="encoders", checkpoints=("atst-frame",),
    ),
    System(
        "dasm", "frontline", "DASM", "open-vocabulary queries", _SOUND,
        checkpoints=("dasm", "dasm-queries"),
    ),
    System(
        "slowfast", "frontline", "BEATs–SlowFast", "44 in-domain sound classes", _SOUND, 1640,
        extra="encoders", checkpoints=("slowfast",),
    ),
    System("frame-difference", "frontline", "Frame differencing", "pixel change", _VIDEO, 645),
    System(
        "flow", "frontline", "Optical flow, raw", "Farnebäck magnitude", _VIDEO, 942, extra="vision"
    ),
    System(
        "flow-compensated", "frontline", "Optical flow, ego-comp.",
        "Farnebäck magnitude less the median", _VIDEO, 945, extra="vision",
    ),
    System("rank", "rule", "Rank-only", "top windows by score", _SCORES, 0.0),
    System("aks", "rule", "AKS", "recursive split", _SCORES, 0.0),
    System("bolt", "rule", "BOLT", "inverse transform sampling", _SCORES, 0.0),
    System("gate", "frontline", "Ours, the gate", "a trained head on log-mel", _SOUND, 5.6),
    System("separated", "rule", "Ours, the rule", "minimum separation", _SCORES, 0.0),
    System("variance", "frontline", "", "restlessness of the level", _SOUND, 4.0),
    System("log-mel", "frontline", "", "log-mel against its recent past", _SOUND, 4.7),
    System(
        "yamnet", "frontline", "", "AudioSet posteriors, 521 classes", _SOUND, 24.7,
        extra="yamnet", checkpoints=("yamnet",),
    ),
    System(
        "frame-mn06", "frontline", "", _STRONG, _SOUND, 17.4,
        extra="encoders", checkpoints=("frame-mn06",),
    ),
    System(
        "frame-mn10", "frontline", "", _STRONG, _SOUND, 35.6,
        extra="encoders", checkpoints=("frame-mn10",),
    ),
    System("packets", "frontline", "", "compressed-domain motion", "index", 0.1),
    System("coverage", "rule", "", "exact expected coverage", _SCORES, 0.0),
    System("facility", "rule", "", "facility location", _SCORES, 0.0),
    System("strata", "rule", "", "one window in each of equal stretches", "nothing", 0.0),
)  # fmt: skip
"""The paper's table of compared systems in its order, then those that are earmark's own."""


def frontlines(
    format: Annotated[Format, typer.Option(help="How to print the systems.")] = Format.table,
    models: Folder = None,
) -> None:
    """List every system of the comparison: what it reads and costs, and whether it is ready.

    For example:

      earmark frontlines

      earmark frontlines --format json

      EARMARK_CHECKPOINTS=/data/checkpoints earmark frontlines
    """
    shelf, folder = shelf_at(models), place()
    states = {system: system.state(shelf, folder) for system in SYSTEMS}
    if format is Format.json:
        emit_json([as_row(system, state) for system, state in states.items()])
        return
    table = Table(box=None, pad_edge=False)
    for name in ("name", "in the paper", "reads", "s/hour", "state"):
        table.add_column(name, no_wrap=True, justify="right" if name == "s/hour" else "left")
    for system, told in states.items():
        cost = "–" if system.cost is None else f"{system.cost:g}"
        state, _, _ = told.partition(": ")
        table.add_row(system.name, system.title or "–", system.reads, cost, state)
    out.print(table)
    out.print("\nSeconds of processor time for an hour of recording.")
    wanting = {system.name: told.partition(": ")[2] for system, told in states.items()}
    if any(wanting.values()):
        out.print("To make the others ready:")
    for name, cure in wanting.items():
        if cure:
            out.print(f"  {name}: {cure}")


def as_row(system: System, state: str) -> dict[str, Any]:
    """One system as plain values; null where the paper has no name or the cost is not known."""
    return {
        "name": system.name,
        "kind": system.kind,
        "paper": system.title or None,
        "scores": system.scores,
        "reads": system.reads,
        "seconds_per_hour": system.cost,
        "state": state.partition(":")[0],
        "cure": state.partition(": ")[2] or None,
    }
