"""Evidence from one end to the other: made speech and a made sign, in the run and in the prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from earmark import caption, open_recording
from earmark.captioning.request import Answer
from earmark.errors import ModelMissing
from earmark.evidence.evidence_entry import NOTE
from earmark.evidence.speech_listener import RecordingSpeech
from earmark.models import ModelStore
from earmark.models.catalogue import PPOCR
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.clips import speech_to_mute
from earmark.pipeline.listen import forget_speech, keep_speech
from earmark.pipeline.session import open_session
from earmark.report.export_formats import export
from earmark.report.progress import Progress
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark_lab.demo import write_scene
from made_speech import needs_espeak, needs_models, needs_speech, say, silence
from small_runs import chosen_part

cv2 = pytest.importorskip("cv2", reason="OpenCV draws the sign, and is not installed")
SENTENCE = "Please bring me the big hammer from the workbench."


@dataclass
class Talk:
    """Twelve seconds: a sign on the wall, and from the fourth second on a sentence."""

    duration: float = 12.0
    actions: tuple = ()

    def sound(self, *, sample_rate: int) -> np.ndarray:
        samples = silence(self.duration)
        said = say(SENTENCE)
        samples[4 * sample_rate : 4 * sample_rate + len(said)] += said
        return samples

    def pictures(self, *, width: int, height: int, fps: int):
        picture = np.full((height, width, 3), 205, np.uint8)
        cv2.putText(picture, "EXIT 42", (40, 90), cv2.FONT_HERSHEY_SIMPLEX, 1.6, (30, 30, 90), 4)
        for _ in range(round(self.duration * fps)):
            yield picture


@dataclass
class Asked:
    """A captioner that keeps what it is asked."""

    model: str = "asked"
    at_once: int | None = 1
    texts: list[str] = field(default_factory=list)

    def check(self) -> None: ...

    def __call__(self, request, **_):
        self.texts.append(request.text)
        assert len(request.text) // 3 + request.question.tokens <= request.most_tokens[0]
        return Answer("somebody talks", "asked", prompt_tokens=1, completion_tokens=1)


@pytest.fixture(scope="module")
def talk(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("talk") / "talk.mp4"
    write_scene(path, Talk(), fps=5)
    return path


CHOICES = {"frontline": "flux", "rule": "full", "window": 4.0}


def told(folder: Path, *kinds: str) -> list[str]:
    with Run(folder) as run:
        (recording,) = run.recordings()
        return [entry.text for entry in run.evidence(recording.id, kinds=kinds)]


@needs_espeak
@needs_speech
@needs_models(*PPOCR)
def test_what_is_said_and_read_is_kept_told_to_the_model_and_shown(talk, tmp_path):
    asked = Asked()
    run = tmp_path / "run"
    done = caption([talk], run=run, captioner=asked, speech=True, **CHOICES)
    assert any("hammer" in text for text in told(run, "said"))
    assert set(told(run, "read")) == {"EXIT 42"}
    assert len(asked.texts) == 3
    assert all(NOTE in text and 'read: "EXIT 42"' in text for text in asked.texts)
    assert "said: " in asked.texts[1] and "said: " not in asked.texts[2]
    page = done.page.read_text(encoding="utf-8")
    assert "hammer" in page and "EXIT 42" in page and "pp-ocr" in page
    with Run(run) as kept:
        (file,) = export(kept, tmp_path / "out", format="srt")
    assert "“Please bring me" in file.read_text(encoding="utf-8")
    # Again: nothing is asked, nothing is heard, nothing is lost.
    before = told(run, "said", "read")
    caption([talk], run=run, captioner=asked, speech=True, **CHOICES)
    assert len(asked.texts) == 3 and told(run, "said", "read") == before
    # And where voices are not wanted, no transcript stays, nor a word of it in any file.
    (run / "meaning.npy").write_bytes(b"meanings of what was said")
    caption([talk], run=run, captioner=asked, voices=False, pictures=False, **CHOICES)
    assert told(run, "said") == []
    assert not (run / "meaning.npy").exists()
    assert not [path for path in run.iterdir() if b"hammer" in path.read_bytes()]


@needs_espeak
def test_nothing_is_written_down_unless_it_is_asked_for(talk, tmp_path):
    caption([talk], run=tmp_path, pictures=False, **CHOICES)
    assert told(tmp_path, "said", "read", "seen") == []


@needs_espeak
@needs_models("silero-vad")
def test_a_clip_is_silent_where_somebody_speaks_only_if_that_is_wanted(talk, tmp_path):
    recording = open_recording(talk)
    assert speech_to_mute(recording, open_session()) == []
    (spoken,) = speech_to_mute(recording, open_session(voices=False)) or ()
    assert spoken.start <= 4.1 and 6.0 < spoken.end < 8.5
    nothing_here = open_session(voices=False, models=tmp_path)
    assert speech_to_mute(recording, nothing_here) is None, "then all of it is left out"


def test_what_is_missing_or_makes_no_sense_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="speech: transcribes what voices = false forbids"):
        open_session(speech=True, voices=False)
    empty = ModelStore(tmp_path)
    with pytest.raises(ModelMissing, match="earmark models get silero-vad"):
        open_session(speech=True, models=empty.folder).open_speech_listener()
    with pytest.raises(ModelMissing, match="earmark models get evidence"):
        open_session(pictures=True, models=empty.folder).with_evidence()
    assert open_session(models=empty.folder).with_evidence().look is None


@dataclass
class Deaf:
    """Counts how often it is given a recording, and is sure of no sentence."""

    heard: list[str] = field(default_factory=list)
    transcriber: object = field(default_factory=lambda: SimpleNamespace(name="deaf"))
    uncertain: int = 0

    def __call__(self, recording):
        self.heard.append(recording.name)
        return RecordingSpeech([], self.uncertain)


def test_where_nobody_speaks_is_not_heard_again(tmp_path):
    folder, listener = tmp_path / "run", Deaf()
    row = RecordingRow("a", "a.mp4", 60.0, 10)
    recordings = [SimpleNamespace(id="a", name="a.mp4", duration=60.0)]
    here = InProcessBackend()
    with Run(folder, {"model": "m"}) as ledger:
        ledger.add(row)
        keep_speech(recordings, listener, ledger, here, Progress())
        keep_speech(recordings, listener, ledger, here, Progress())
        forget_speech(ledger)
        keep_speech(recordings, listener, ledger, here, Progress())
    assert listener.heard == ["a.mp4"] * 2  # once more after what was heard had to go


@pytest.mark.parametrize(
    ("uncertain", "told"),
    [(0, []), (3, ["a.mp4: the transcript is too uncertain, 3 sentences left out"])],
)
def test_speech_of_which_no_sentence_is_kept_is_told(uncertain, told, tmp_path, caplog):
    with Run(tmp_path / "run", {"model": "m"}) as ledger:
        ledger.add(RecordingRow("a", "a.mp4", 60.0, 10))
        recordings = [SimpleNamespace(id="a", name="a.mp4", duration=60.0)]
        keep_speech(recordings, Deaf(uncertain=uncertain), ledger, InProcessBackend(), Progress())
    assert caplog.messages == told


@needs_espeak
@needs_speech
def test_what_is_said_is_no_reason_for_a_call(talk, tmp_path):
    chosen = []
    for speech in (False, True):
        run = tmp_path / str(speech)
        caption([talk], run=run, speech=speech, sounds=False, pictures=False, budget="1")
        with Run(run) as kept:
            (recording,) = kept.recordings()
            chosen.append([chosen_part(row) for row in kept.picks(recording.id)])
        assert bool(told(run, "said")) is speech
    assert chosen[0] == chosen[1]
