"""mn04 keeps the encoder's contract, reads only the published weights, and names sounds."""

from __future__ import annotations

import math
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from earmark import Span, open_recording
from earmark.errors import ModelMismatch, ModelMissing
from earmark.features.encoder import SAMPLE_RATE, STEP, SoundEncoder
from earmark.features.mn04 import MN04, WIDTH, read_weights
from earmark.gate.frontline import FRONTLINES
from earmark.media import find
from sound_blocks import blocks, features


@pytest.fixture(scope="session")
def weights(shared_data) -> Path:
    return shared_data / "mn04" / "mn04_as_mAP_432.pt"


@pytest.fixture(params=["logits", "embedding", "activity"])
def encoder(request, weights) -> SoundEncoder:
    return MN04(request.param, weights=weights)


def noise(seconds: float, *, seed: int = 0) -> np.ndarray:
    return 0.1 * np.random.default_rng(seed).standard_normal(round(seconds * SAMPLE_RATE))


class TestContract:
    @pytest.mark.parametrize("samples", [1, STEP, STEP + 1, 24 * STEP + 1, 5 * SAMPLE_RATE + 7])
    def test_one_row_a_step_and_the_last_filled_up(self, encoder, samples):
        rows = features(encoder, noise(6)[:samples])
        assert len(rows) == math.ceil(samples / STEP)
        assert rows.size == len(rows) * encoder.channels
        assert rows.dtype == np.float32
        assert np.isfinite(rows).all()

    def test_blocks_do_not_matter(self, encoder):
        whole = features(encoder, noise(12))
        cut = features(encoder, noise(12), 1, 777, 50_000, 64, STEP)
        np.testing.assert_allclose(cut, whole, atol=1e-3)

    def test_silence_is_flat(self, encoder):
        assert np.ptp(features(encoder, np.zeros(6 * SAMPLE_RATE)), axis=0).max() < 1e-4

    def test_nothing_gives_nothing(self, encoder):
        assert list(encoder.encode([])) == []


def test_the_steps_of_a_cell_share_its_values(weights):
    rows = features(MN04(weights=weights), noise(3))
    assert (rows[:24] == rows[0]).all() and (rows[23] != rows[24]).any()
    assert rows.shape[1] == 527
    finer = features(MN04("embedding", cell=8, weights=weights), noise(3))
    assert (finer[:8] == finer[0]).all() and (finer[7] != finer[8]).any()
    assert finer.shape[1] == WIDTH


def test_a_sound_changes_the_cells_whose_patches_hold_it(weights):
    """A burst in cell 6; a patch reaches 1.12 s beyond its cell, so cells 4 to 8 hold it."""
    quiet = 0.001 * noise(12)
    loud = quiet.copy()
    loud[6 * 24 * STEP : 7 * 24 * STEP] *= 500
    encoder = MN04(weights=weights)
    change = np.abs(features(encoder, loud) - features(encoder, quiet)).max(axis=1)[::24]
    assert [cell for cell, value in enumerate(change) if value > 1e-3] == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("every", [1, 3, 100])
def test_chosen_cells_have_the_logits_of_all_cells(weights, every):
    encoder, sound = MN04(weights=weights), noise(12).astype(np.float32)
    rows = features(encoder, sound)[::24]

    def choose(cells: np.ndarray) -> np.ndarray:
        return np.arange(1, len(cells), every)

    steps = 0
    for first, count, chosen, logits in encoder.cell_logits(blocks(sound, 50_000), choose):
        assert first == steps // 24
        np.testing.assert_allclose(logits, rows[first + chosen], atol=1e-3)
        steps += count
    assert steps == 300


def test_tags_name_clicks_and_leave_the_silence(weights, tmp_path):
    import av

    time = np.arange(12 * SAMPLE_RATE) / SAMPLE_RATE
    tone = 0.3 * np.sin(2 * np.pi * 1000 * time) * ((time >= 4) & (time < 8) & (time % 0.5 < 0.2))
    path = tmp_path / "beeps.wav"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("pcm_s16le", rate=SAMPLE_RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray((tone * 32767).astype(np.int16)[None], "s16", "mono")
        frame.sample_rate = SAMPLE_RATE
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    spans = [Span(0.0, 2.0), Span(4.0, 8.0), Span(10.0, 12.0)]
    quiet, loud, after = MN04(weights=weights).tags(open_recording(find([str(path)])[0]), spans)
    assert quiet == after == ()
    assert set(loud) & {"Beep, bleep", "Alarm", "Busy signal", "Telephone"}


def test_another_file_is_refused(weights, tmp_path):
    foreign = tmp_path / "mn04_as_mAP_432.pt"
    foreign.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelMismatch, match=r"another file than mn04_as_mAP_432\.pt"):
        features(MN04(weights=foreign), noise(1))


@pytest.mark.parametrize("options", [{"cell": 0}, {"cell": 81}, {"reads": "tea leaves"}])
def test_options_are_checked_where_they_are_made(options):
    with pytest.raises(ValueError, match="not"):
        MN04(**options)


def test_it_is_registered_and_its_options_are_plain_values():
    made = FRONTLINES["mn04"]()
    assert made.channels == 527 and repr(made) == repr(MN04())


def test_weights_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ModelMissing, match=r"there is no model at .*nowhere"):
        features(MN04(weights=tmp_path / "nowhere"), noise(1))


class Dangerous:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "damaged"),
        (pickle.dumps({"a": Dangerous()}), r"it holds a builtins\.print"),
        (pickle.dumps({"a": 1}), "holds other things than weights"),
        (pickle.dumps([1]), "holds other things than weights"),
    ],
)
def test_a_checkpoint_of_anything_but_weights_is_refused(tmp_path, capsys, content, why):
    path = tmp_path / "weights.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    with pytest.raises(ModelMismatch, match=why):
        read_weights(path)
    assert capsys.readouterr().out == ""


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    path = tmp_path / "weights.pt"
    path.write_bytes(b"no archive")
    with pytest.raises(ModelMismatch, match="damaged"):
        read_weights(path)
