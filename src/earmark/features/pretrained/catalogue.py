"""The published models by name: what each is, the file it needs and how that file is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from earmark.errors import MissingExtra, ModelMismatch
from earmark.features.encoder import SAMPLE_RATE
from earmark.features.pretrained.chunks import CLIPS, TEN_SECONDS, Layout
from earmark.features.pretrained.vocabulary import class_names

EXTRA = "encoders"
"""The extra that brings PyTorch."""


@dataclass(frozen=True, slots=True)
class Published:
    """A model whose weights somebody else published."""

    title: str
    files: tuple[str, ...]
    """Names of the checkpoints as published; a file may be called otherwise."""
    network: str
    """Module and class, loaded when it is needed."""
    vocabulary: str
    width: int
    """Values in each row beneath the head."""
    licence: str
    """Of the weights, as published."""
    sample_rate: int = SAMPLE_RATE
    layout: Layout = TEN_SECONDS
    options: tuple[tuple[str, object], ...] = ()
    """Arguments of the class."""
    section: str | None = None
    """Where in the checkpoint the weights are; None for a checkpoint that is nothing else."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Beginnings of names in the file, and what they are here."""
    unused: tuple[str, ...] = ("weak_head.",)
    """Beginnings of names that may be in the file and are not needed."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the outputs."""
        return class_names(self.vocabulary)

    @property
    def needs(self) -> str:
        """What a user must bring."""
        return f"{' or '.join(self.files)} and the extra {EXTRA!r}, or an exported .onnx"


PUBLISHED: dict[str, Published] = {
    "beats": Published(
        title="BEATs with its AudioSet-Strong head",
        files=("BEATs_strong_1.pt",),
        network="earmark.features.pretrained.beats:Beats",
        vocabulary="audioset-strong",
        width=768,
        licence="MIT",
        renamed=(
            ("model.model.", "model.beats."),
            (
                "model.beats.encoder.pos_conv.0.weight_g",
                "model.beats.encoder.pos_conv.0.parametrizations.weight.original0",
            ),
            (
                "model.beats.encoder.pos_conv.0.weight_v",
                "model.beats.encoder.pos_conv.0.parametrizations.weight.original1",
            ),
        ),
    ),
    "atst-frame": Published(
        title="ATST-Frame with its AudioSet-Strong head",
        files=("ATST-F_strong_1.pt",),
        network="earmark.features.pretrained.atst:AtstFrame",
        vocabulary="audioset-strong",
        width=768,
        licence="MIT",
        unused=("weak_head.", "model.atst_mel."),
    ),
    "fpasst": Published(
        title="fPaSST with its AudioSet-Strong head",
        files=("fpasst_strong_1.pt",),
        network="earmark.features.pretrained.fpasst:FrequencyPasst",
        vocabulary="audioset-strong",
        width=768,
        licence="MIT",
        renamed=(("model.", "model.fpasst."),),
    ),
    "frame-mn06": Published(
        title="frame_mn06 with its AudioSet-Strong head",
        files=("frame_mn06_strong_1.pt",),
        network="earmark.features.pretrained.frame_mn:FrameMobileNet",
        vocabulary="audioset-strong",
        width=576,
        licence="MIT",
        options=(("width", 0.6),),
    ),
    "frame-mn10": Published(
        title="frame_mn10 with its AudioSet-Strong head",
        files=("frame_mn10_strong_1.pt",),
        network="earmark.features.pretrained.frame_mn:FrameMobileNet",
        vocabulary="audioset-strong",
        width=960,
        licence="MIT",
    ),
    "panns": Published(
        title="PANNs Cnn14_DecisionLevelMax",
        files=("Cnn14_DecisionLevelMax_mAP=0.385.pth", "Cnn14_DecisionLevelMax.pth"),
        network="earmark.features.pretrained.panns:Cnn14",
        vocabulary="audioset",
        width=2048,
        licence="CC BY 4.0",
        sample_rate=32_000,
        section="model",
        unused=("spectrogram_extractor.", "logmel_extractor."),
    ),
    "slowfast": Published(
        title="Auditory SlowFast with the EPIC-SOUNDS head",
        files=("SLOWFAST_EPIC_SOUNDS.pyth",),
        network="earmark.features.pretrained.slowfast:SlowFast",
        vocabulary="epic-sounds",
        width=2304,
        licence="CC BY-NC 4.0",
        sample_rate=24_000,
        layout=CLIPS,
        section="model_state",
        unused=(),
    ),
}
"""Every model that a checkpoint on disk turns into an encoder; `dasm` is a model of the user's."""


def published(name: str) -> Published:
    """The model called `name`; `ValueError` lists the names."""
    if name not in PUBLISHED:
        raise ValueError(f"no published model {name!r}; there are {', '.join(PUBLISHED)}")
    return PUBLISHED[name]


def find_checkpoint(name: str, place: Path) -> Path:
    """The file of weights at `place`, which may be the folder that holds it.

    A folder may hold an exported model instead; it goes first where PyTorch is not installed.

    Raises:
        ModelMismatch: There is none.
    """
    known = published(name)
    if place.is_file():
        return place
    exported = tuple(str(Path(file).with_suffix(".onnx")) for file in known.files)
    names = (*known.files, *exported) if find_spec("torch") else (*exported, *known.files)
    inside = [place / file for file in names if (place / file).is_file()]
    if not inside:
        where = f"in {place}" if place.is_dir() else f"at {place}"
        raise ModelMismatch(f"{name} needs its checkpoint {known.files[0]}; there is none {where}")
    return inside[0]


def require(library: str, *, what: str) -> None:
    """`MissingExtra` where `library`, which `what` needs, is not installed; does not import it."""
    if find_spec(library) is None:
        raise MissingExtra(f"{what} needs {library}: pip install 'earmark[{EXTRA}]'")
