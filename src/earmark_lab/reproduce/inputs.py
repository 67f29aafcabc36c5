"""The inputs of a reproduction: annotations, sound, video, weights, a vision model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, get_args

from earmark.errors import AnnotationError, EarmarkError
from earmark.features.encoder import encoder_files, split_name
from earmark.gate.frontline import frontline_named
from earmark.gate.gate import gate_of
from earmark.media import Recording, Source, open_recording
from earmark.text_format import counted
from earmark_lab.annotations.actions import Annotations, find_media, list_few
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.annotations.table_readers import read_durations
from earmark_lab.experiments.benchmark import CaseProgress, Rounding
from earmark_lab.experiments.paper import RECORDINGS
from earmark_lab.experiments.score_sources import (
    FittedScores,
    MediaScores,
    ScoreSource,
    split_for_fitting,
)
from earmark_lab.training.dataset import fold, group, hold_out, participant

VALIDATION = "EPIC_100_validation.csv"
DURATIONS = "EPIC_100_video_info.csv"
TRAINING = ("EPIC_100_train.csv", "EK100_trainsplit_actions_from_UDA.csv")
EVENTS = ("EPIC_Sounds_validation.csv", "sound_events_not_categorised.csv")
LABELLED = ("EPIC_Sounds_train.csv", EVENTS[0])
CLASSES = ("EPIC_100_noun_classes.csv", "EPIC_100_verb_classes.csv")
PAPER_HEAD = "paper"
"""Trained here: the paper's head, loss and settings over the plan's first encoder and seed."""

Value = TypeVar("Value")

NEEDS: Mapping[str, str] = {
    "epic": f"EPIC-KITCHENS-100 annotations: --epic DIR with {VALIDATION} and {DURATIONS}",
    "marks": "annotated actions: those of EPIC-KITCHENS-100 (--epic DIR), or --marks FILE",
    "events": f"EPIC-SOUNDS annotations: {EVENTS[0]} in --epic DIR",
    "scores": f"sound to listen to (--epic or --audio DIR), or {EVENTS[0]} in --epic DIR",
    "audio": "the recordings' sound, files named P01_14.*: --audio DIR, or in --epic DIR",
    "video": "the recordings' video, files named P01_14.*: --audio DIR, or in --epic DIR",
    "ego4d": "EgoSound: --ego4d DIR with its annotations and the clips",
    "vlm": "a vision model to ask: --model http://HOST/v1#NAME or gguf:FILE",
    "train": "PyTorch: pip install 'earmark-lab[torch]'",
}


@dataclass(frozen=True, slots=True)
class ReproductionPlan:
    epic: Path | None = None
    ego4d: Path | None = None
    audio: tuple[Path, ...] = ()
    marks: tuple[Path, ...] = ()
    """Annotations of other recordings, which are judged in place of EPIC-KITCHENS-100: by heads
    that are trained on EPIC-KITCHENS-100 if it is given too, else on some of them."""
    audio_is: str = ""
    """Such as `composites`; shown in every row that uses the media. Empty if all of it is what its
    option names: EPIC-KITCHENS-100, and EgoSound's clips of Ego4D."""
    occupancy: Mapping[str, Path] = field(default_factory=dict)
    frontlines: tuple[str, ...] = ("auto", "energy", "flux")
    """The first stands for the paper's gate."""
    encoders: tuple[str, ...] = ("log-mel",)
    """The paper has five; `objective` uses the first."""
    recall: float = 0.93
    """Of the transfer table and of the deployed operating point."""
    seeds: int = 5
    settings: Mapping[str, Any] = field(default_factory=dict)
    stimuli: int = 200
    caption_seed: int = 0
    window: float = 4.0
    rounding: Rounding = "round"
    judged: tuple[str, ...] = ()
    """Recordings; empty for those of the paper, or for people that are held out."""
    training: tuple[str, ...] | int = ()
    """Recordings to train heads on, or how many; the others choose operating points. Empty for two
    thirds of those that are not judged."""

    def __post_init__(self) -> None:
        if self.rounding not in get_args(Rounding):
            raise ValueError(f"rounding is {' or '.join(get_args(Rounding))}, not {self.rounding}")

    @property
    def sound(self) -> str:
        own = ", ".join(path.parent.name or path.name for path in self.marks)
        return self.audio_is or (f"recordings of {own}" if own else "EPIC-KITCHENS-100 sound")

    @property
    def clips(self) -> str:
        return self.audio_is or "EgoSound clips of Ego4D"

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return plain


def encoder_label(encoder: str) -> str:
    """Without the files it is loaded from.

    >>> encoder_label("mn04:weights=/data/mn04.pt"), encoder_label("yamnet:reads=embedding")
    ('mn04', 'yamnet:reads=embedding')
    """
    name, options = split_name(encoder)
    files = {"store", *encoder_files(name)}
    return ":".join([name, *(f"{key}={options[key]}" for key in options if key not in files)])


@dataclass(frozen=True, slots=True)
class RecordingSplit:
    """Participants do not overlap."""

    judged: tuple[str, ...]
    development: tuple[str, ...]
    training: tuple[str, ...]
    description: str


@dataclass(eq=False)
class PaperInputs:
    plan: ReproductionPlan
    folder: Path
    caption_tools: Any = None
    cache: Path | None = None
    progress: CaseProgress = lambda *_: None
    """Called with the steps done, the steps in all, and what is being done."""
    computed: dict[str, Any] = field(default_factory=dict, repr=False)

    def lacks(self, need: str) -> bool:
        present: dict[str, Callable[[], object]] = {
            "epic": lambda: self.validation,
            "marks": lambda: self.marked,
            "events": lambda: self.events,
            "scores": lambda: self.media or (self.events and not self.plan.marks),
            "audio": lambda: self.media,
            "video": lambda: self.media and self.recording(self.split.judged[0]).has_video,
            "ego4d": lambda: self.plan.ego4d,
            "vlm": lambda: self.caption_tools,
            "train": lambda: find_spec("torch") and find_spec("onnx"),
        }
        return not present[need]()

    @cached_property
    def durations(self) -> dict[str, float]:
        files = self._files(DURATIONS)
        return read_durations(files[0]) if files else {}

    @cached_property
    def validation(self) -> Annotations | None:
        return self._read(self._files(VALIDATION))

    def paper_set(self, name: str) -> Annotations:
        """`paper`, `paper-primary` or `paper-replication`."""
        assert self.validation is not None
        return self.validation.only(RECORDINGS[name])

    @cached_property
    def marked(self) -> Annotations | None:
        return self._read(self.plan.marks) if self.plan.marks else self.validation

    @property
    def is_transferred(self) -> bool:
        """Trained on EPIC-KITCHENS-100, judged on the recordings of `marks`."""
        return bool(self.plan.marks and self.validation)

    @cached_property
    def training_actions(self) -> Annotations | None:
        read = self._read(self._files(*TRAINING)[:1])
        if read and self.validation and self.plan.marks:
            both = read.recordings | self.validation.recordings
            return Annotations(both, read.durations | self.validation.durations)
        return read or (self.validation if self.plan.marks else None)

    @cached_property
    def events(self) -> Annotations | None:
        return self._read(self._files(*EVENTS)) if self._files(EVENTS[0]) else None

    @cached_property
    def sound_classes(self) -> Annotations | None:
        return self._read(self._files(*LABELLED))

    def _files(self, *names: str) -> list[Path]:
        paths = [self.plan.epic / name for name in names] if self.plan.epic else []
        return [path for path in paths if path.is_file()]

    def _read(self, files: Sequence[Path]) -> Annotations | None:
        return read_annotations(files, durations=self.durations) if files else None

    @cached_property
    def media(self) -> dict[str, Source]:
        sources: dict[str, Source] = {}
        for folder in (self.plan.epic, *self.plan.audio):
            try:
                sources |= find_media([folder]) if folder else {}
            except EarmarkError:
                if folder in self.plan.audio:
                    raise
        if not sources:
            return {}
        annotated = {
            name
            for split in (self.marked, self.training_actions)
            for name in (split.recordings if split else ())
        }
        return {name: source for name, source in sources.items() if name in annotated}

    def recording(self, name: str) -> Recording:
        return self.compute_once(f"recording {name}", lambda: open_recording(self.media[name]))

    @property
    def all_actions(self) -> Annotations:
        first, second = self.marked, self.training_actions
        assert first is not None
        if second is None:
            return first
        marks = second.recordings | first.recordings
        return Annotations(marks, second.durations | first.durations)

    @cached_property
    def split(self) -> RecordingSplit:
        """The paper's recordings are evaluated if their sound is here, else held-out people."""
        names = sorted(self.media)
        judged = self._chosen(self.plan.judged)
        if not judged and self.is_transferred and self.marked:
            judged = [name for name in self.marked.recordings if name in self.media]
        description = f"{counted(len(judged), 'recording')} that you named"
        if not judged:
            judged = [name for name in RECORDINGS["paper"] if name in self.media]
            description = f"{len(judged)} of the paper's 24 recordings"
        others = [name for name in names if name not in {*judged, *RECORDINGS["paper"]}]
        if judged and self.training_actions is not None:
            own = [name for name in others if name in self.training_actions.recordings]
            others = own or others
        elif not judged:
            others, judged = hold_out(names)
            description = f"{len(judged)} recordings held out by participant, none of the paper's"
        training, development = self._divide(others)
        description += f"; chosen on {len(development)}, trained on {len(training)} others"
        return RecordingSplit(tuple(judged), tuple(development), tuple(training), description)

    def _divide(self, others: Sequence[str]) -> tuple[list[str], list[str]]:
        """To train on, and to choose on."""
        asked = self.plan.training
        if isinstance(asked, int):
            training = [name for names in group(others).values() for name in names][:asked]
        else:
            training = self._chosen(asked)
        if training:
            met, people = set(training), {participant(name) for name in training}
            development = [name for name in others if participant(name) not in people]
            development = development or [name for name in others if name not in met]
            if not development:
                raise AnnotationError("every recording is trained on: none is left to choose on")
            return sorted(training), development
        try:
            development = fold(others, folds=3)[0]
        except AnnotationError:
            development = list(others[::3])
        return [name for name in others if name not in set(development)], development

    def _chosen(self, names: Sequence[str]) -> list[str]:
        if absent := [name for name in names if name not in self.media]:
            raise AnnotationError(f"no annotated media for {list_few(absent)}")
        return list(names)

    def training_identity(self) -> dict[str, Any]:
        names = (*self.split.training, *self.split.development)
        sound = {name: self.recording(name).key for name in names}
        return {"sound": sound, "marks": self.all_actions.only(names).fingerprint}

    def describe_training(self, encoder: str) -> str:
        own = "the paper's head, loss and settings"
        other = ", ".join(f"{name} {value}" for name, value in self.plan.settings.items())
        changed = f" but {other}" if other else ""
        head = f"{own}{changed} over {encoder_label(encoder)}"
        return f"{head}; {self.plan.sound}; {self.split.description}"

    def compute_once(self, name: str, make: Callable[[], Value]) -> Value:
        if name not in self.computed:
            self.computed[name] = make()
        value: Value = self.computed[name]
        return value

    def results_folder(self, name: str, settings: Mapping[str, Any]) -> Path:
        text = json.dumps(settings, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.folder / "kept" / f"{name}-{digest}"

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(json.dumps(self.plan.to_json(), sort_keys=True).encode())
        digest.update("\n".join(sorted(self.media)).encode())
        for path in self._files(VALIDATION, *TRAINING, *EVENTS):
            digest.update(path.read_bytes())
        if self.plan.marks and self.marked:
            digest.update(self.marked.fingerprint.encode())
        return digest.hexdigest()[:16]

    def resolve_frontline(self, name: str) -> str:
        """The gate file of `paper`, which is trained if need be; other names as they are."""
        if name != PAPER_HEAD:
            return name
        if absent := [NEEDS[need] for need in ("marks", "audio", "train") if self.lacks(need)]:
            raise EarmarkError(f"the frontline {name} is trained here: bring {'; '.join(absent)}")
        from earmark_lab.reproduce.trainings import paper_gate  # needs PyTorch

        return str(self.compute_once("paper head", lambda: paper_gate(self)))

    def scores(self, window: float = 4.0) -> ScoreSource:
        return self.compute_once(f"scores {window:g}", lambda: self._open_scores(window))

    def _open_scores(self, window: float) -> ScoreSource:
        if not self.media:
            assert self.events is not None and self.validation is not None
            fitted = split_for_fitting(self.validation, RECORDINGS["paper"])
            return FittedScores(self.validation, self.events, fitted, window)
        return self.media_scores(self.split.judged, window)

    def media_scores(self, judged: Sequence[str], window: float = 4.0) -> MediaScores:
        lines, actions = self.plan.frontlines, self.all_actions
        names = dict.fromkeys((*judged, *self.split.development))
        opened = {name: self.recording(name) for name in names}
        lengths = {name: recording.duration for name, recording in opened.items()}
        actions = replace(actions, durations={**actions.durations, **lengths})
        files = {line: self.resolve_frontline(line) for line in lines}
        return MediaScores(actions, actions.only(judged), opened, lines, window, self.cache, files)

    def describe_scores(self, frontline: str | None = None) -> str:
        """The frontline `paper` names the sound already, as what it was trained on."""
        name, source = frontline or self.plan.frontlines[0], self.scores()
        if isinstance(source, FittedScores):
            events = "annotated sound events in place of a gate"
            return f"{events}, {source.split.description}; no audio"
        listens = self.describe_frontline(name)
        return listens if name == PAPER_HEAD else f"{listens}; {self.plan.sound}"

    def describe_frontline(self, name: str) -> str:
        file = self.resolve_frontline(name)
        line, gate = frontline_named(file), gate_of(file)
        if gate is None:
            return f"{name}: {line.encoder!r}, {type(line.scorer).__name__}"
        head = f"{name}: trained head {gate.scorer.digest[:8]} over {line.encoder!r}"
        if name == PAPER_HEAD:
            return f"{head}, {self.describe_training(self.plan.encoders[0])}"
        data, sound = gate.card.data, self.plan.sound
        met = f"; has met {sound} in training, so not held out" if sound in data else ""
        return f"{head}, trained on {data.partition(':')[0]}{met}"
