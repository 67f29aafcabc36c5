"""YAMNet keeps the encoder's contract, says what the published file says, and names sounds."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from earmark import Span, open_recording
from earmark.errors import MissingExtra, ModelMismatch, ModelMissing
from earmark.features.encoder import SAMPLE_RATE, STEP, SoundEncoder
from earmark.features.yamnet import CLASSES, PATCH, YAMNet
from earmark.gate.frontline import FRONTLINES
from earmark.media import find
from earmark.models import ModelStore
from making import AudioPlan, make_audio
from sound_blocks import blocks, features


@pytest.fixture(scope="session")
def weights() -> Path:
    """The published file, if this machine has it."""
    pytest.importorskip("ai_edge_litert")
    try:
        return ModelStore().find("yamnet")
    except ModelMissing as error:
        pytest.skip(str(error))


@pytest.fixture(params=["logits", "embedding", "detector"])
def encoder(request, weights) -> SoundEncoder:
    if request.param == "detector":
        return YAMNet(reads="activity", weights=weights)
    return YAMNet(request.param, weights=weights)


def noise(seconds: float, *, seed: int = 0) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).standard_normal(round(seconds * SAMPLE_RATE))


class TestContract:
    @pytest.mark.parametrize("samples", [1, STEP, STEP + 1, 12 * STEP + 1, 5 * SAMPLE_RATE + 7])
    def test_one_row_a_step_and_the_last_filled_up(self, encoder, samples):
        rows = features(encoder, noise(6)[:samples])
        assert len(rows) == math.ceil(samples / STEP)
        assert rows.size == len(rows) * encoder.channels
        assert rows.dtype == np.float32
        assert np.isfinite(rows).all()

    def test_blocks_do_not_matter(self, encoder):
        whole = features(encoder, noise(5))
        cut = features(encoder, noise(5), 1, 777, 5_000, 64, STEP)
        np.testing.assert_array_equal(cut, whole)

    def test_silence_is_flat(self, encoder):
        assert np.ptp(features(encoder, np.zeros(3 * SAMPLE_RATE)), axis=0).max() == 0

    def test_nothing_gives_nothing(self, encoder):
        assert list(encoder.encode([])) == []


def test_a_patch_is_centred_on_its_cell():
    """A click in the middle of a cell is in the middle of the patch, whichever cell it is."""
    for cell in (3, 12, 24):
        width = cell * STEP
        sound = np.zeros(20 * width, dtype=np.float32)
        sound[7 * width + width // 2] = 1.0
        found = {
            first // cell + place: int(patch.argmax())
            for patches, first in _patches(sound, cell)
            for place, patch in enumerate(patches)
            if patch.any()
        }
        assert abs(found[7] - PATCH // 2) <= 1


def _patches(sound: np.ndarray, cell: int) -> Iterator[tuple[np.ndarray, int]]:
    encoder = YAMNet(cell=cell)
    for piece in encoder._pieces(blocks(sound.astype(np.float32), 1000)):
        patches = encoder._inputs(piece.samples)
        assert patches.shape == (-(-piece.steps // cell), PATCH)
        yield patches, piece.first


def test_the_steps_of_a_cell_share_its_values(weights):
    rows = features(YAMNet(weights=weights), noise(3))
    assert (rows[:12] == rows[0]).all() and (rows[12:24] == rows[12]).all()
    assert (rows[11] != rows[12]).any()
    finer = features(YAMNet(cell=6, weights=weights), noise(3))
    assert (finer[:6] == finer[0]).all() and (finer[5] != finer[6]).any()


@pytest.mark.parametrize("seconds", [0.3, 5.0, 75.0])
def test_cells_heard_side_by_side_are_those_heard_one_after_the_other(weights, seconds):
    encoder, sound = YAMNet(cell=24, weights=weights), noise(seconds).astype(np.float32)
    asked: list[int] = []

    def all_but_the_first(cells: np.ndarray) -> np.ndarray:
        asked.append(len(cells))
        return np.arange(1, len(cells))

    rows = features(encoder, sound)[::24]  # (cells, CLASSES)
    last = 0
    for first, _, places, logits in encoder.cell_logits(blocks(sound, 5_000), all_but_the_first):
        assert first == last
        np.testing.assert_array_equal(logits, rows[first + places])
        last = first + len(places) + 1
    assert last == len(rows) == sum(asked)


def test_logits_are_the_files_own_to_half_its_rounding(weights):
    """Against the file's output, which it rounds to 1/256 after rounding logits to 0.347."""
    from ai_edge_litert.interpreter import Interpreter

    published = Interpreter(str(weights), num_threads=1)
    published.allocate_tensors()
    sound = noise(4)
    sound[SAMPLE_RATE : 2 * SAMPLE_RATE] += 0.3 * np.sin(np.arange(SAMPLE_RATE) * 0.2)
    ours = features(YAMNet(weights=weights), sound)[::12]
    patches = [patch for patches, _ in _patches(sound, 12) for patch in patches]
    for row, patch in zip(ours, patches, strict=True):
        published.set_tensor(0, patch)
        published.invoke()
        theirs = published.get_tensor(published.get_output_details()[0]["index"])[0]
        low, high = (1 / (1 + np.exp(-(row + side * 0.3472 / 2))) for side in (-1, 1))
        assert (theirs >= low - 1.01 / 256).all() and (theirs <= high + 1.01 / 256).all()


def test_the_classes_are_named(weights):
    names = YAMNet(weights=weights).classes
    assert len(names) == len(set(names)) == CLASSES
    assert names[0] == "Speech" and names[360] == "Chopping (food)"


def test_tags_name_the_tone_and_leave_the_silence(weights, tmp_path):
    """sound  ____~~~~____       a beep has a name, silence has none"""
    path = make_tone(tmp_path / "beep.wav", start=4.0, end=8.0, duration=12.0)
    spans = [Span(0.0, 3.0), Span(4.0, 8.0), Span(9.0, 12.0)]
    quiet, loud, after = YAMNet(weights=weights).tags(open_recording(find([str(path)])[0]), spans)
    assert quiet == after == ()
    assert loud and set(loud) & {"Beep, bleep", "Dial tone", "Tuning fork", "Telephone", "Alarm"}


def make_tone(path: Path, *, start: float, end: float, duration: float) -> Path:
    import av

    time = np.arange(round(duration * SAMPLE_RATE)) / SAMPLE_RATE
    tone = 0.3 * np.sin(2 * np.pi * 1000 * time) * ((time >= start) & (time < end))
    with av.open(str(path), "w") as out:
        stream = out.add_stream("pcm_s16le", rate=SAMPLE_RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray((tone * 32767).astype(np.int16)[None], "s16", "mono")
        frame.sample_rate = SAMPLE_RATE
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def test_the_detector_does_not_hear_a_tone_as_handiwork(weights, tmp_path):
    """Telephones and alarms are left out; a burst of clicks is not."""
    clicks = make_audio(
        tmp_path / "clicks.wav",
        duration=8.0,
        audio=AudioPlan(clicks=list(np.arange(0, 8, 0.12)), sample_rate=16_000),
    )
    tone = make_tone(tmp_path / "tone.wav", start=0.0, end=8.0, duration=8.0)
    scores = {
        path.stem: np.concatenate(
            [
                track.values
                for track in YAMNet(reads="activity", weights=weights).encode(
                    open_recording(find([str(path)])[0]).sound()
                )
            ]
        )
        for path in (clicks, tone)
    }
    assert scores["clicks"].mean() > scores["tone"].mean()


def test_another_file_is_refused(weights, tmp_path):
    foreign = tmp_path / "yamnet.tflite"
    foreign.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelMismatch, match=r"another file than yamnet\.tflite"):
        features(YAMNet(weights=foreign), noise(1))


def test_a_missing_extra_names_its_cure(weights, monkeypatch):
    monkeypatch.setattr("earmark.models.sessions._idle", {})  # of other tests
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(MissingExtra, match=r"pip install 'earmark\[yamnet\]'"):
        features(YAMNet(weights=weights), noise(1))


@pytest.mark.parametrize("options", [{"cell": 0}, {"cell": 25}, {"reads": "tea leaves"}])
def test_options_are_checked_where_they_are_made(options):
    with pytest.raises(ValueError, match="not"):
        YAMNet(**options)
    if "cell" in options:
        with pytest.raises(ValueError, match="a patch is shared by 1 to 24 steps"):
            YAMNet(reads="activity", **options)


def test_it_is_registered_and_its_options_are_plain_values():
    made = FRONTLINES["yamnet"]()
    assert made.channels == CLASSES and repr(made) == repr(YAMNet())


def test_a_detector_may_be_thresholded(weights):
    free = features(YAMNet(reads="activity", weights=weights), noise(5))
    middle = float(np.median(free))
    strict = features(YAMNet(reads="activity", weights=weights, threshold=middle), noise(5))
    np.testing.assert_array_equal(strict, np.where(free >= middle, free, 0))
    with pytest.raises(ValueError, match="a threshold on posteriors is 0 to 1, not 7"):
        YAMNet(reads="activity", threshold=7)


def test_weights_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ModelMissing, match=r"there is no model at .*nowhere"):
        _ = YAMNet(weights=tmp_path / "nowhere").classes
