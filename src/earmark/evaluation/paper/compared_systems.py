"""Every system that can be compared: the paper's in its order, then earmark's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from earmark.features.encoder_files import encoder_files, options_in
from earmark.gate.frontline_registry import FRONTLINES
from earmark.models import EXTRAS, MODELS, ModelStore
from earmark.selection import RULES

READY = "ready"


@dataclass(frozen=True, slots=True)
class System:
    """One system: by what it ranks windows, what it reads for that, what it needs and costs."""

    name: str
    """As `--frontline` or `--rule` takes it."""
    kind: Literal["frontline", "rule"]
    """A frontline scores moments, a rule spends scores."""
    scores: str
    """What it is, and by what it ranks."""
    reads: str
    paper: str = ""
    """As the paper calls this very system; empty for those it has not."""
    stands_for: str = ""
    """The paper's system in whose place it stands: its weights are unpublished or unlicensed."""
    seconds_per_hour: float | None = None
    """Seconds of processor time for an hour of recording, see experiments/LOG.md; None where there
    was nothing to measure."""
    extra: str = ""
    """What to install to use it: `pip install 'earmark[…]'`."""

    def state(self, store: ModelStore, folder: Path | None = None) -> str:
        """`ready`, or the first thing it needs and how to get it.

        Checkpoints may lie in `store` or in `folder`; a published model that was exported needs
        neither its checkpoint nor its extra.
        """
        needed = encoder_files(self.name) if self.kind == "frontline" else {}
        located = options_in(folder, self.name) if folder else {}
        if needed and MODELS[self.name].architecture is not None:
            exported = store.path(self.name).with_suffix(".onnx")
            if located.get("weights", "").endswith(".onnx") or exported.is_file():
                return READY
        if self.extra and find_spec(EXTRAS[self.extra]) is None:
            return f"needs an extra: pip install 'earmark[{self.extra}]'"
        for name in () if located else needed.values():
            if store.state(name) != "here":
                way = f"get {name}" if MODELS[name].origins else f"add {name} FILE"
                return f"needs a checkpoint: earmark models {way}"
        return READY


def _network(name: str, *, paper: str = "", stands_for: str = "") -> System:
    """The frontline that a model of the catalogue is."""
    model = MODELS[name]
    return System(
        name,
        "frontline",
        model.title,
        _SOUND,
        paper=paper,
        stands_for=stands_for,
        seconds_per_hour=model.seconds_per_hour,
        extra=model.extra,
    )


def _encoder(
    name: str, scores: str, cost: float, *, paper: str = "", reads: str = "sound", extra: str = ""
) -> System:
    """A frontline that needs no weights."""
    return System(name, "frontline", scores, reads, paper=paper, seconds_per_hour=cost, extra=extra)


def _rule(name: str, scores: str, *, paper: str = "", reads: str = "scores") -> System:
    return System(name, "rule", scores, reads, paper=paper, seconds_per_hour=0.0)


_SOUND = "sound"
_VIDEO = "all video"

_KNOWN = (
    _rule("full", "every window", paper="Full scan", reads="nothing"),
    _rule("uniform", "evenly spaced windows", paper="Uniform", reads="nothing"),
    _rule("random", "matched length statistics", paper="Random spans", reads="nothing"),
    _encoder("energy", "frame RMS", 4.1, paper="Short-term energy"),
    _encoder("flux", "onset strength", 5.0, paper="Spectral flux"),
    _network("panns", paper="PANNs / CNN14"),
    _network("beats", paper="BEATs"),
    _network("fpasst", paper="fPaSST"),
    _network("atst-frame", paper="ATST-Frame"),
    _network("dasm", stands_for="DASM"),
    _network("slowfast", stands_for="BEATs–SlowFast"),
    _encoder(
        "frame-difference", "pixel change", 645, paper="Frame differencing", reads=_VIDEO
    ),
    _encoder(
        "flow", "Farnebäck magnitude", 942,
        paper="Optical flow, raw", reads=_VIDEO, extra="vision",
    ),
    _encoder(
        "flow-compensated", "Farnebäck magnitude less the median", 945,
        paper="Optical flow, ego-comp.", reads=_VIDEO, extra="vision",
    ),
    _rule("rank", "top windows by score", paper="Rank-only"),
    _rule("aks", "recursive split", paper="AKS"),
    _rule("bolt", "inverse transform sampling", paper="BOLT"),
    System(
        "gate", "frontline", "a `where` head over 64 log-mel channels, 20 heads averaged", _SOUND,
        stands_for="Ours, the gate", seconds_per_hour=5.6,
    ),
    _rule("separated", "minimum separation", paper="Ours, the rule"),
    _encoder("variance", "restlessness of the level", 4.0),
    _encoder("log-mel", "log-mel against its recent past", 4.7),
    _network("yamnet"),
    _network("frame-mn06"),
    _network("frame-mn10"),
    _encoder("packets", "compressed-domain motion", 0.1, reads="index"),
    _rule("coverage", "exact expected coverage"),
    _rule("facility", "facility location"),
    _rule("strata", "one window in each of equal stretches", reads="nothing"),
)  # fmt: skip


def systems() -> Iterator[System]:
    """Every system there is: the paper's, earmark's own, and what other packages declare."""
    yield from _KNOWN
    known = {system.name for system in _KNOWN}
    for name in FRONTLINES:
        if name not in known:
            yield System(name, "frontline", "of another package", "")
    for name in RULES:
        if name not in known:
            yield System(name, "rule", "of another package", "scores")
