"""A gate: a trained head with its card and its calibration, in one ZIP file.

Members: `head.onnx` (features to scores), `gate.json` (the card and the calibration) and
`misses.npz` (the share of actions that each threshold missed on each development recording).
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from earmark.errors import ModelMismatch
from earmark.features.encoder import Encoder, option_types, split_name, with_machine_options
from earmark.gate.episodes import Misses, OperatingPoints
from earmark.gate.forecast_error import ForecastError
from earmark.gate.frontline import AUTO, FRONTLINES, GATE, OPEN, SUFFIX, Frontline
from earmark.gate.lengths import LengthModel
from earmark.gate.rates import Fit, FittedRates, Hedge, HedgedRates, LevelRates
from earmark.media.atomic_file import replacing
from earmark.models.sessions import shared_session
from earmark.timeline import CLOCK_RATE, HOP, FloatArray, Track

LAYOUT = 4
"""Increased when the meaning of the file changes."""

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,  # a flipped bit may ask for another compression, or for encryption
    RuntimeError,
    TypeError,
    ValueError,
)

BLOCKS = 4
"""Least length of a block, in contexts; longer blocks score less twice."""

DEFAULT, OPEN_WEIGHTS = "default.gate", "open.gate"


@dataclass(frozen=True, slots=True)
class Honesty:
    budget: float
    """Share of the windows."""
    forecast: float
    actual: float


@dataclass(frozen=True, slots=True)
class Card:
    encoder: str
    encoder_options: dict[str, float]
    """The gate must be given features made with the same options."""
    channels: int
    clock_rate: int
    context: int
    """Steps on each side that a score depends on."""
    objective: str
    heads: int
    seeds: tuple[int, ...]
    data: str
    data_hash: str
    """SHA-256 over the recordings and spans it was trained on."""
    licence: str
    commit: str
    recordings: int
    actions: int
    hours: float
    settings: dict[str, Any]
    honesty: tuple[Honesty, ...] = ()
    """On recordings that the scoring heads were not trained on."""

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Card:
        missing = {each.name for each in fields(cls)} - set(kept)
        if missing:
            raise ModelMismatch(f"the gate's card lacks {', '.join(sorted(missing))}")
        honesty = tuple(Honesty(**row) for row in kept["honesty"])
        return cls(**{**kept, "seeds": tuple(kept["seeds"]), "honesty": honesty})


@dataclass(frozen=True, slots=True)
class OnnxScorer:
    """A head as an ONNX graph from `features` (1, steps, channels) to `scores`.

    The graph reads whole seconds; an incomplete last second is filled by repeating its last row.
    """

    digest: str
    """SHA-256 of the weights."""
    encoder: str
    channels: int
    context: int
    """Steps on each side that a score depends on; whole seconds."""
    weights: bytes = field(repr=False, compare=False)

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        """The scores do not depend on where the features are cut.

        rows     ...[context|  scored now  |context]
        next                         [context|  scored next  |context]...
        """
        shared_session(self.weights)  # opened while the first sound is decoded
        kept = np.zeros((0, self.channels), dtype=np.float32)
        before, start = 0, 0.0  # leading rows of `kept` scored already; time of the first unscored
        for count, track in enumerate(features):
            start = track.start if count == 0 else start
            kept = np.concatenate([kept, self._rows(track)])
            ready = len(kept) - before - self.context
            ready -= ready % CLOCK_RATE
            if ready >= BLOCKS * max(self.context, CLOCK_RATE):
                yield Track(self._score(kept)[before : before + ready], start=start)
                start += ready * HOP
                drop = max(0, before + ready - self.context)
                kept, before = kept[drop:], before + ready - drop
        if len(kept) > before:
            yield Track(self._score(kept)[before:], start=start)

    def score_whole(self, features: FloatArray) -> FloatArray:
        return np.concatenate([track.values for track in self([Track(features)])])

    def _score(self, rows: FloatArray) -> FloatArray:
        whole = np.pad(rows, ((0, -len(rows) % CLOCK_RATE), (0, 0)), mode="edge")
        scores: FloatArray = shared_session(self.weights).run(None, {"features": whole[None]})[0][0]
        return scores[: len(rows)]

    def _rows(self, track: Track) -> FloatArray:
        """`(steps, channels)` float32, checked for shape and values."""
        rows = track.values if track.values.ndim == 2 else track.values[:, None]
        width = rows.shape[1]
        if width != self.channels or abs(track.hop - HOP) > 1e-9:
            raise ModelMismatch(
                f"this gate needs the {self.channels} channels of {self.encoder} every {HOP:g} s "
                f"and got {width} every {track.hop:g} s; give it the encoder it was trained with"
            )
        if not np.isfinite(rows).all():
            bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise ModelMismatch(
                f"the features at {track.time_of(bad):.2f} s are not finite numbers, so they "
                f"cannot be scored; check the encoder ({self.encoder})"
            )
        return rows.astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    card: Card
    weights: bytes
    rates: FittedRates
    hedge: Hedge | None
    """None if only the head's scores count."""
    lengths: LengthModel
    points: OperatingPoints
    misses: Misses
    error: ForecastError
    separation: int
    """Best distance between calls for the rule `separated`, in windows."""

    @classmethod
    def load(cls, path: Path) -> Gate:
        """Raises `ModelMismatch` if the file is damaged, no gate, or of another layout."""
        try:
            return cls.from_bytes(path.read_bytes(), name=path.name)
        except OSError as error:
            raise ModelMismatch(f"cannot read the gate {path}: {error.strerror}") from error

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str) -> Gate:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                kept = json.loads(archive.read("gate.json"))
                weights = archive.read("head.onnx")
                missed = np.load(io.BytesIO(archive.read("misses.npz")), allow_pickle=False)
                misses = Misses(missed["thresholds"], missed["shares"])
            if kept["layout"] != LAYOUT:
                raise ModelMismatch(
                    f"{name} is a gate of layout {kept['layout']}, this version reads {LAYOUT}; "
                    f"train it again, or use the version of earmark that made it"
                )
            if kept["weights"] != hashlib.sha256(weights).hexdigest():
                raise ModelMismatch(f"{name} is damaged: its weights do not match its checksum")
            rates, hedge = kept["rates"], kept["hedge"]
            return cls(
                card=Card.from_json(kept["card"]),
                weights=weights,
                rates=FittedRates(_fits(rates["fits"]), rates["half"]),
                hedge=hedge and Hedge(LevelRates(_fits(hedge["level"]["fits"])), hedge["share"]),
                lengths=LengthModel.from_json(kept["lengths"]),
                points=OperatingPoints.from_json(kept["points"]),
                misses=misses,
                error=ForecastError.from_json(kept["error"]),
                separation=kept["separation"],
            )
        except DAMAGE as error:
            raise ModelMismatch(
                f"{name} is not a gate file, or is damaged ({error}); fetch or train it again"
            ) from error

    def save(self, path: Path) -> None:
        """The same gate gives the same bytes."""
        kept = {
            "layout": LAYOUT,
            "weights": self.scorer.digest,
            "card": asdict(self.card),
            "rates": asdict(self.rates),
            "hedge": asdict(self.hedge) if self.hedge else None,
            "lengths": asdict(self.lengths),
            "points": asdict(self.points),
            "error": asdict(self.error),
            "separation": self.separation,
        }
        missed = io.BytesIO()
        np.savez(missed, thresholds=self.misses.thresholds, shares=self.misses.shares)
        members = {
            "gate.json": json.dumps(kept, indent=1, allow_nan=False).encode(),
            "misses.npz": missed.getvalue(),
            "head.onnx": self.weights,
        }
        with replacing(path) as scratch, zipfile.ZipFile(scratch, "w") as archive:
            for name, data in members.items():
                # A `ZipInfo` has no current time, so the bytes are the same.
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)

    @property
    def scorer(self) -> OnnxScorer:
        digest, card = hashlib.sha256(self.weights).hexdigest(), self.card
        return OnnxScorer(digest, card.encoder, card.channels, card.context, self.weights)

    def encoder(self, places: Mapping[str, str] | None = None) -> Encoder:
        """`places` are the paths of the encoder's files."""
        card = self.card
        kind = FRONTLINES.get(card.encoder)
        is_known = kind is not None and set(card.encoder_options) <= set(option_types(kind))
        made = kind(**card.encoder_options) if is_known else None
        if made is None or isinstance(made, Frontline):
            raise ModelMismatch(
                f"this gate needs the encoder {card.encoder} with "
                f"{', '.join(card.encoder_options) or 'no options'}; there are "
                f"{', '.join(FRONTLINES)}"
            )
        if places:
            made = with_machine_options(made, places)
        if made.channels != card.channels or card.clock_rate != CLOCK_RATE:
            raise ModelMismatch(
                f"this gate needs {card.channels} channels at {card.clock_rate} Hz and "
                f"{card.encoder} gives {made.channels} at {CLOCK_RATE} Hz"
            )
        return made

    def frontline(
        self, *, name: str = "gate", places: Mapping[str, str] | None = None
    ) -> Frontline:
        """With context channels, scores say where work begins: the loudest instant is shown."""
        return Frontline(
            name,
            self.encoder(places),
            scorer=self.scorer,
            rates=HedgedRates(self.rates, self.hedge) if self.hedge else self.rates,
            lengths=self.lengths,
            error=self.error if self.error.misses else None,
            separation=self.separation,
            shows_loudest=bool(self.card.settings.get("context_channels")),
        )


def _fits(kept: Iterable[dict[str, Any]]) -> tuple[Fit, ...]:
    return tuple(Fit(**{**fit, "weights": tuple(fit["weights"])}) for fit in kept)


@cache
def packaged_gate(name: str) -> Gate:
    data = resources.files("earmark.gate").joinpath(name).read_bytes()
    return Gate.from_bytes(data, name=name)


def default_gate() -> Gate:
    return packaged_gate(DEFAULT)


def open_frontline() -> Frontline:
    return packaged_gate(OPEN_WEIGHTS).frontline(name=OPEN)


def default_frontline() -> Frontline:
    return default_gate().frontline()


def gate_of(frontline: str) -> Gate | None:
    name, _ = split_name(frontline)
    if name in (AUTO, GATE, OPEN):
        return packaged_gate(OPEN_WEIGHTS if name == OPEN else DEFAULT)
    return Gate.load(Path(name)) if name.endswith(SUFFIX) else None
