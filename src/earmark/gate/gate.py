"""A gate: a trained head with its card and its calibration, in one file.

A gate file is a ZIP archive of three members: `head.onnx` (features to scores), `gate.json` (the
card and the calibration) and `misses.npz` (the share of actions that each threshold missed on each
development recording). Checksums of the archive and of the weights detect damage.
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
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.errors import ModelMismatch
from earmark.features import ENCODERS
from earmark.features.encoder import Encoder
from earmark.features.encoder_spec import option_types, with_machine_options
from earmark.gate.forecast_error import ForecastError
from earmark.gate.frontline import Frontline
from earmark.gate.rates import Fit, FittedRates
from earmark.gate.survival import Survival
from earmark.media.atomic_file import replacing
from earmark.models.onnx_session import shared_session
from earmark.timeline import CLOCK_RATE, HOP, FloatArray, Track

if TYPE_CHECKING:
    from earmark.gate.episodes import Episodes
    from earmark.gate.recall_promise import Promise

LAYOUT = 3
"""Version of the file layout; increased when its meaning changes."""

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
"""Exceptions that reading a damaged archive, or a file that is no archive, may raise."""

BLOCKS = 4
"""Least length of a block that is scored at once, in contexts; longer blocks score less twice."""

DEFAULT = "default.gate"
"""File name of the gate that comes with earmark, in this package."""


@dataclass(frozen=True, slots=True)
class Honesty:
    """Forecast and actual coverage at one budget, on development recordings."""

    budget: float
    """Share of the windows."""
    forecast: float
    """Expected share of the actions touched, over all recordings."""
    actual: float
    """Share of the actions that were touched."""


@dataclass(frozen=True, slots=True)
class Card:
    """Origin of a gate: the features it reads, its training data and settings, its licence."""

    encoder: str
    """Name of the encoder whose features it reads."""
    encoder_options: dict[str, float]
    """The encoder's options; the gate must be given features made with the same options."""
    channels: int
    clock_rate: int
    """Steps a second of features and scores."""
    context: int
    """Steps on each side that a score depends on."""
    objective: str
    heads: int
    """Number of trained heads that are averaged."""
    seeds: tuple[int, ...]
    data: str
    """Description of the data it was trained and calibrated on."""
    data_hash: str
    """SHA-256 over the recordings and spans it was trained on."""
    licence: str
    """Terms of the data it was trained on."""
    commit: str
    """Commit of the project at training."""
    recordings: int
    actions: int
    hours: float
    settings: dict[str, Any]
    """Every setting of the training."""
    honesty: tuple[Honesty, ...] = ()
    """Forecast and actual coverage on recordings that the scoring heads were not trained on."""

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Card:
        """The card from its dictionary, as `asdict` makes it."""
        missing = {each.name for each in fields(cls)} - set(kept)
        if missing:
            raise ModelMismatch(f"the gate's card says nothing of {', '.join(sorted(missing))}")
        honesty = tuple(Honesty(**row) for row in kept["honesty"])
        return cls(**{**kept, "seeds": tuple(kept["seeds"]), "honesty": honesty})


@dataclass(frozen=True, slots=True)
class OnnxScorer:
    """A scorer whose head is an ONNX graph from `features` (1, steps, channels) to `scores`.

    The graph reads whole seconds, counted from the first row; an incomplete last second is filled
    by repeating its last row.
    """

    digest: str
    """SHA-256 of the weights, which identifies the scorer."""
    encoder: str
    """Name of the encoder whose features it was trained on, for messages."""
    channels: int
    context: int
    """Steps on each side that a score depends on; whole seconds."""
    weights: bytes = field(repr=False, compare=False)

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        """The scores of `features`, in order.

        Every block is scored together with `context` steps on both sides of it, so the scores do
        not depend on where the features are cut:

            rows     ...[context|  scored now  |context]
            next                         [context|  scored next  |context]...

        Raises:
            ModelMismatch: the features do not fit the head, or some are not finite.
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
        """The scores of one whole recording, `(steps,)`."""
        return np.concatenate([track.values for track in self([Track(features)])])

    def _score(self, rows: FloatArray) -> FloatArray:
        """The scores of `rows`, `(steps, channels)`, without further context."""
        whole = np.pad(rows, ((0, -len(rows) % CLOCK_RATE), (0, 0)), mode="edge")
        scores: FloatArray = shared_session(self.weights).run(None, {"features": whole[None]})[0][0]
        return scores[: len(rows)]

    def _rows(self, track: Track) -> FloatArray:
        """The features of `track` as `(steps, channels)` float32, checked for shape and values."""
        rows = track.values if track.values.ndim == 2 else track.values[:, None]
        width = rows.shape[1]
        if width != self.channels or abs(track.hop - HOP) > 1e-9:
            raise ModelMismatch(
                f"this gate wants the {self.channels} channels of {self.encoder} every {HOP:g} s "
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
    """A trained head with its calibration: scores each moment from the sound alone."""

    card: Card
    weights: bytes
    """The head as an ONNX graph."""
    rates: FittedRates
    survival: Survival
    points: Mapping[str, Any]
    """Thresholds that turn scores into episodes: see `earmark.gate.episodes`."""
    misses: Mapping[str, FloatArray]
    """Actions that those episodes miss: see `earmark.gate.recall_promise.Misses`."""
    error: ForecastError
    """Errors of its forecasts on recordings it was not trained on."""
    separation: int
    """Best distance between calls for the rule `separated`, in windows; by development data."""

    @classmethod
    def load(cls, path: Path) -> Gate:
        """The gate in the file at `path`.

        Raises:
            ModelMismatch: the file is unreadable, damaged, no gate, or of another layout.
        """
        try:
            return cls.from_bytes(path.read_bytes(), name=path.name)
        except OSError as error:
            raise ModelMismatch(f"cannot read the gate {path}: {error.strerror}") from error

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str) -> Gate:
        """The gate from the contents of its file; `name` is for messages."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                kept = json.loads(archive.read("gate.json"))
                weights = archive.read("head.onnx")
                missed = np.load(io.BytesIO(archive.read("misses.npz")), allow_pickle=False)
                misses = {name: missed[name] for name in ("thresholds", "shares")}
            if kept["layout"] != LAYOUT:
                raise ModelMismatch(
                    f"{name} is a gate of layout {kept['layout']}, this version reads {LAYOUT}; "
                    f"train it anew, or use the version of earmark that made it"
                )
            if kept["weights"] != hashlib.sha256(weights).hexdigest():
                raise ModelMismatch(f"{name} is damaged: its weights are not the ones it names")
            _check_points(**kept["points"])
            rates = kept["rates"]
            fits = (Fit(**{**fit, "weights": tuple(fit["weights"])}) for fit in rates["fits"])
            return cls(
                card=Card.from_json(kept["card"]),
                weights=weights,
                rates=FittedRates(tuple(fits), rates["half"]),
                survival=Survival(*(tuple(kept["survival"][each]) for each in ("times", "shares"))),
                points=kept["points"],
                misses=misses,
                error=ForecastError.from_json(kept["error"]),
                separation=kept["separation"],
            )
        except DAMAGE as error:
            raise ModelMismatch(
                f"{name} is no gate file, or a damaged one ({error}); fetch or train it anew"
            ) from error

    def save(self, path: Path) -> None:
        """Write the gate to `path`; the same gate gives the same bytes."""
        kept = {
            "layout": LAYOUT,
            "weights": self.scorer.digest,
            "card": asdict(self.card),
            "rates": asdict(self.rates),
            "survival": asdict(self.survival),
            "points": self.points,
            "error": asdict(self.error),
            "separation": self.separation,
        }
        missed = io.BytesIO()
        np.savez(missed, thresholds=self.misses["thresholds"], shares=self.misses["shares"])
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
        """The head as a scorer of consecutive tracks of features."""
        digest, card = hashlib.sha256(self.weights).hexdigest(), self.card
        return OnnxScorer(digest, card.encoder, card.channels, card.context, self.weights)

    def encoder(self, places: Mapping[str, str] | None = None) -> Encoder:
        """The encoder the gate was trained with; `places` are the paths of the encoder's files.

        Raises:
            ModelMismatch: this version lacks the encoder, or its channels or clock rate differ.
            ValueError: an option that is not in `earmark.features.encoder_spec.MACHINE_OPTIONS`.
        """
        card = self.card
        kind = ENCODERS.get(card.encoder)
        if kind is None or not set(card.encoder_options) <= set(option_types(kind)):
            raise ModelMismatch(
                f"this gate wants the encoder {card.encoder} with "
                f"{', '.join(card.encoder_options) or 'no options'}; there are "
                f"{', '.join(ENCODERS)}"
            )
        made: Encoder = kind(**card.encoder_options)
        if places:
            made = with_machine_options(made, places)
        if made.channels != card.channels or card.clock_rate != CLOCK_RATE:
            raise ModelMismatch(
                f"this gate wants {card.channels} channels at {card.clock_rate} Hz and "
                f"{card.encoder} gives {made.channels} at {CLOCK_RATE} Hz"
            )
        return made

    def frontline(
        self, *, name: str = "gate", places: Mapping[str, str] | None = None
    ) -> Frontline:
        """The frontline that listens with this gate; `places` as in `encoder`.

        With context channels the score tells where work begins, so a window shows its loudest
        instant; without, it shows the instant of the highest score, as the paper does.
        """
        return Frontline(
            name,
            self.encoder(places),
            scorer=self.scorer,
            rates=self.rates,
            survival=self.survival,
            error=self.error if self.error.misses else None,
            separation=self.separation,
            shows_loudest=bool(self.card.settings.get("context_channels")),
        )

    def episodes(self, *, recall: float) -> Episodes:
        """The rule for episodes that reached `recall` on the development recordings."""
        from earmark.gate.episodes import OperatingPoints  # not needed for listening

        return OperatingPoints.of(self.points).at_recall(recall)

    def promise(self, *, recall: float, confidence: float = 0.95) -> Promise:
        """The operating point that guarantees `recall`, see `earmark.gate.recall_promise`."""
        from earmark.gate.recall_promise import Misses, promise

        return promise(Misses(**self.misses), recall=recall, confidence=confidence)


def _check_points(on: list[list[float]], off_share: float, median: int) -> None:
    """Raise `ValueError` for invalid operating points, at loading rather than at first use."""
    if not on or any(len(row) != 2 for row in on) or not np.isfinite(np.array(on, float)).all():
        raise ValueError("its operating points are no pairs of a recall and a threshold")
    if not 0 <= off_share <= 1 or median < 1 or median % 2 == 0:
        raise ValueError(f"its episodes close at {off_share} of where they open, median {median}")


@cache
def default_gate() -> Gate:
    """The gate that comes with earmark; read once."""
    data = resources.files("earmark.gate").joinpath(DEFAULT).read_bytes()
    return Gate.from_bytes(data, name=DEFAULT)
