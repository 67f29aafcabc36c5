"""The inputs of a reproduction: annotations, sound, video, weights, a vision model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from earmark.errors import AnnotationError, EarmarkError
from earmark.evaluation.annotations.actions import Annotations
from earmark.evaluation.annotations.media_match import find_media
from earmark.evaluation.annotations.readers import read_annotations
from earmark.evaluation.annotations.table_readers import read_durations
from earmark.evaluation.benchmark import CaseProgress
from earmark.evaluation.paper.published_numbers import RECORDINGS
from earmark.media import Recording, Source, open_recording
from earmark.training.dataset import fold, hold_out

VALIDATION = "EPIC_100_validation.csv"
DURATIONS = "EPIC_100_video_info.csv"
TRAINING = ("EPIC_100_train.csv", "EK100_trainsplit_actions_from_UDA.csv")
EVENTS = ("EPIC_Sounds_validation.csv", "sound_events_not_categorised.csv")
LABELLED = ("EPIC_Sounds_train.csv", EVENTS[0])
CLASSES = ("EPIC_100_noun_classes.csv", "EPIC_100_verb_classes.csv")

Value = TypeVar("Value")

NEEDS: Mapping[str, str] = {
    "epic": f"EPIC-KITCHENS-100 annotations: --epic DIR with {VALIDATION} and {DURATIONS}",
    "events": f"EPIC-SOUNDS annotations: {EVENTS[0]} in --epic DIR",
    "scores": f"sound to listen to (--epic or --audio DIR), or {EVENTS[0]} in --epic DIR",
    "audio": "the recordings' sound, files named P01_14.*: --audio DIR, or in --epic DIR",
    "video": "the recordings' video, files named P01_14.*: --audio DIR, or in --epic DIR",
    "ego4d": "EgoSound: --ego4d DIR with its annotations and the clips",
    "vlm": "a vision model to ask: --vlm URL or --gguf FILE",
    "train": "PyTorch: pip install 'earmark[train]'",
}
"""The inputs a table may need, and how to provide each."""


@dataclass(frozen=True, slots=True)
class ReproductionPlan:
    """Every setting of a reproduction; saved with its results."""

    epic: Path | None = None
    """A folder with the annotations of EPIC-KITCHENS-100 and optionally its media."""
    ego4d: Path | None = None
    """A folder with the annotations and clips of EgoSound's part of Ego4D."""
    audio: tuple[Path, ...] = ()
    """More folders of media for `epic`."""
    audio_is: str = "EPIC-KITCHENS-100 sound"
    """What the media are, for example `composites`; shown in every row that uses them."""
    occupancy: Mapping[str, Path] = field(default_factory=dict)
    """Folders of frame-wise sound-event annotations by the name of the data set."""
    frontlines: tuple[str, ...] = ("auto", "energy", "flux")
    """Frontlines to compare; the first stands for the paper's gate."""
    encoders: tuple[str, ...] = ("log-mel",)
    """Encoders to train heads over (the paper has five); `objective` uses the first."""
    recall: float = 0.93
    """Development recall of the transfer table and of the deployed operating point."""
    seeds: int = 5
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the paper's training settings, such as `steps`."""
    stimuli: int = 200
    caption_seed: int = 0
    window: float = 4.0

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return plain


@dataclass(frozen=True, slots=True)
class RecordingSplit:
    """Recordings to evaluate, to choose on and to train on; participants do not overlap."""

    judged: tuple[str, ...]
    development: tuple[str, ...]
    training: tuple[str, ...]
    description: str
    """One line for a reader of the results."""


@dataclass(eq=False)
class PaperInputs:
    """The available inputs, opened on first use."""

    plan: ReproductionPlan
    folder: Path
    """Of the results; it also keeps slow intermediate results."""
    caption_tools: Any = None
    """`CaptionTools`; None without a model to ask."""
    cache: Path | None = None
    """The folder of cached scores."""
    progress: CaseProgress = lambda *_: None
    """Called with the steps done, the steps in all, and what is being done."""
    computed: dict[str, Any] = field(default_factory=dict, repr=False)
    """Results that several tables share, by name."""

    def lacks(self, need: str) -> bool:
        """Whether the input `need`, a key of `NEEDS`, is missing."""
        present: dict[str, Callable[[], object]] = {
            "epic": lambda: self.validation,
            "events": lambda: self.events,
            "scores": lambda: self.events or self.media,
            "audio": lambda: self.media,
            "video": lambda: self.media and self.recording(self.split.judged[0]).has_video,
            "ego4d": lambda: self.plan.ego4d,
            "vlm": lambda: self.caption_tools,
            "train": lambda: find_spec("torch") and find_spec("onnx"),
        }
        return not present[need]()

    @cached_property
    def durations(self) -> dict[str, float]:
        """Seconds by recording."""
        files = self._files(DURATIONS)
        return read_durations(files[0]) if files else {}

    @cached_property
    def validation(self) -> Annotations | None:
        """The validation actions."""
        return self._read(self._files(VALIDATION))

    @cached_property
    def training_actions(self) -> Annotations | None:
        """The training actions."""
        return self._read(self._files(*TRAINING)[:1])

    @cached_property
    def events(self) -> Annotations | None:
        """Sound events of the validation recordings, uncategorised ones included if present."""
        return self._read(self._files(*EVENTS)) if self._files(EVENTS[0]) else None

    @cached_property
    def sound_classes(self) -> Annotations | None:
        """Sound events with a class, of the training and validation split where present."""
        return self._read(self._files(*LABELLED))

    def _files(self, *names: str) -> list[Path]:
        """The annotation files among `names` that exist."""
        paths = [self.plan.epic / name for name in names] if self.plan.epic else []
        return [path for path in paths if path.is_file()]

    def _read(self, files: Sequence[Path]) -> Annotations | None:
        return read_annotations(files, durations=self.durations) if files else None

    @cached_property
    def media(self) -> dict[str, Source]:
        """Media of annotated EPIC-KITCHENS recordings, by name."""
        found: dict[str, Source] = {}
        for place in (self.plan.epic, *self.plan.audio):
            try:
                found |= find_media([place]) if place else {}
            except EarmarkError:
                if place in self.plan.audio:
                    raise
        if not found:
            return {}
        marked = [each.recordings for each in (self.validation, self.training_actions) if each]
        return {name: each for name, each in found.items() if any(name in one for one in marked)}

    def recording(self, name: str) -> Recording:
        """An opened recording."""
        return self.compute_once(f"recording {name}", lambda: open_recording(self.media[name]))

    @property
    def all_actions(self) -> Annotations:
        """The actions of every annotated recording, of both splits."""
        first, second = self.validation, self.training_actions
        assert first is not None
        if second is None:
            return first
        marks = second.recordings | first.recordings
        return Annotations(marks, second.durations | first.durations)

    @cached_property
    def split(self) -> RecordingSplit:
        """The paper's recordings are evaluated if their sound is here, else held-out people."""
        heard = sorted(self.media)
        judged = [name for name in RECORDINGS["paper"] if name in self.media]
        others = [name for name in heard if name not in RECORDINGS["paper"]]
        description = f"{len(judged)} of the paper's 24 recordings"
        if judged and self.training_actions is not None:
            own = [name for name in others if name in self.training_actions.recordings]
            others = own or others
        elif not judged:
            others, judged = hold_out(heard)
            description = f"{len(judged)} recordings held out by participant, none of the paper's"
        try:
            development = fold(others, folds=3)[0]
        except AnnotationError:
            development = others[::3]
        training = [name for name in others if name not in set(development)]
        description += f"; chosen on {len(development)}, trained on {len(training)} others"
        return RecordingSplit(tuple(judged), tuple(development), tuple(training), description)

    def training_identity(self) -> dict[str, Any]:
        """The sound and annotations that a training depends on, to identify its results."""
        names = (*self.split.training, *self.split.development)
        sound = {name: self.recording(name).key for name in names}
        return {"sound": sound, "marks": self.all_actions.only(names).fingerprint}

    def describe_training(self, encoder: str) -> str:
        """Head, loss, settings, encoder and data of a training, as text."""
        own = "the paper's head, loss and settings"
        other = ", ".join(f"{name} {value}" for name, value in self.plan.settings.items())
        changed = f" but {other}" if other else ""
        return f"{own}{changed} over {encoder}; {self.plan.audio_is}; {self.split.description}"

    def compute_once(self, name: str, make: Callable[[], Value]) -> Value:
        """The result of `make`, which is called only the first time for each `name`."""
        if name not in self.computed:
            self.computed[name] = make()
        found: Value = self.computed[name]
        return found

    def results_folder(self, name: str, settings: Mapping[str, Any]) -> Path:
        """The folder of slow results by name and settings, from which a run resumes."""
        text = json.dumps(settings, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.folder / "kept" / f"{name}-{digest}"

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of the plan, the annotation files and the names of the media."""
        digest = hashlib.sha256(json.dumps(self.plan.to_json(), sort_keys=True).encode())
        digest.update("\n".join(sorted(self.media)).encode())
        for path in self._files(VALIDATION, *TRAINING, *EVENTS):
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]
