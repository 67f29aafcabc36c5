from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from earmark.features.encoder import encoder_files, weights_options
from earmark.gate.frontline import FRONTLINES
from earmark.gate.gate import default_gate
from earmark.models import EXTRAS, MODELS, PRETRAINED, ModelStore
from earmark.models.catalogue import install_command
from earmark.selection import RULES

READY = "ready"


@dataclass(frozen=True, slots=True)
class ComparedSystem:
    name: str
    """The value of `--frontline` or `--rule`."""
    scores: str
    seconds_per_hour: float | None = None
    """Of processor time, see experiments/frontline-cost.md; None if not measured."""
    kind: Literal["frontline", "rule"] = "frontline"
    reads: str = "sound"
    paper: str = ""
    """Its name there; empty if it is not in the paper."""
    stands_for: str = ""
    """The paper's system it replaces, whose weights are unpublished or unlicensed."""
    extra: str = ""
    """As in `pip install 'earmark[…]'`."""

    def state(self, store: ModelStore, folder: Path | None = None) -> str:
        """`ready`, or the first missing requirement and how to get it."""
        needed = encoder_files(self.name) if self.kind == "frontline" else {}
        located = weights_options(folder, self.name) if folder else {}
        if needed and self.name in PRETRAINED:
            exported = store.path(self.name).with_suffix(".onnx")
            if located.get("weights", "").endswith(".onnx") or exported.is_file():
                return READY
        if self.extra and find_spec(EXTRAS[self.extra]) is None:
            return f"needs an extra: {install_command(self.extra)}"
        for name in () if located else needed.values():
            if store.state(name) != "here":
                way = f"get {name}" if MODELS[name].origins else f"add {name} FILE"
                return f"needs a checkpoint: earmark models {way}"
        return READY


def _network(name: str, **known: str) -> ComparedSystem:
    model = MODELS[name]
    return ComparedSystem(name, model.title, model.seconds_per_hour, extra=model.extra, **known)  # type: ignore[arg-type]


_line = partial(ComparedSystem, kind="frontline")
_rule = partial(ComparedSystem, seconds_per_hour=0.0, kind="rule", reads="scores")
_VIDEO = "all video"

_KNOWN = (
    _rule("full", "every window", paper="Full scan", reads="nothing"),
    _rule("uniform", "evenly spaced windows", paper="Uniform", reads="nothing"),
    _rule("random", "the lengths of ranking's picks, at random places", paper="Random spans"),
    _line("energy", "frame RMS, rated by what is usual around it", 4.1, paper="Short-term energy"),
    _line("flux", "onset strength", 5.0, paper="Spectral flux"),
    _network("panns", paper="PANNs / CNN14"),
    _network("beats", paper="BEATs"),
    _network("fpasst", paper="fPaSST"),
    _network("atst-frame", paper="ATST-Frame"),
    _network("dasm", stands_for="DASM"),
    _network("slowfast", stands_for="BEATs–SlowFast"),
    _line("frame-difference", "pixel change", 645, paper="Frame differencing", reads=_VIDEO),
    _line(
        "flow", "Farnebäck magnitude", 942,
        paper="Optical flow, raw", reads=_VIDEO, extra="vision",
    ),
    _line(
        "flow-compensated", "Farnebäck magnitude less the median", 945,
        paper="Optical flow, ego-comp.", reads=_VIDEO, extra="vision",
    ),
    _rule("rank", "top windows by score", paper="Rank-only"),
    _rule("aks", "recursive split", paper="AKS"),
    _rule("bolt", "inverse transform sampling", paper="BOLT"),
    _line("gate", "earmark's own", stands_for="Ours, the gate"),
    _rule("separated", "minimum separation", paper="Ours, the rule"),
    _line("variance", "restlessness of the level", 4.0),
    _line("log-mel", "log-mel against its recent past", 4.7),
    _line("floor-mel", "log-mel against its noise floor and its recent past"),
    _network("yamnet"),
    _network("frame-mn06"),
    _network("frame-mn10"),
    _line("packets", "compressed-domain motion", 0.1, reads="index"),
    _rule("coverage", "exact expected coverage"),
    _rule("facility", "facility location"),
    _rule("strata", "one window in each of equal stretches", reads="nothing"),
)  # fmt: skip


def systems() -> Iterator[ComparedSystem]:
    card = default_gate().card
    gate = f"a `{card.objective}` head over {card.encoder}, {card.heads} heads averaged"
    for system in _KNOWN:
        yield replace(system, scores=gate) if system.name == "gate" else system
    known = {system.name for system in _KNOWN}
    of_another = "of another package"
    yield from (_line(name, of_another, reads="") for name in FRONTLINES if name not in known)
    for name in RULES:
        if name not in known:
            yield _rule(name, of_another, seconds_per_hour=None)


def list_systems(store: ModelStore, folder: Path | None = None) -> list[dict[str, Any]]:
    rows = []
    for system in systems():
        state, _, cure = system.state(store, folder).partition(": ")
        rows.append(
            {
                "name": system.name,
                "kind": system.kind,
                "paper": system.paper or None,
                "stands_for": system.stands_for or None,
                "scores": system.scores,
                "reads": system.reads,
                "seconds_per_hour": system.seconds_per_hour,
                "state": state,
                "cure": cure or None,
            }
        )
    return rows
