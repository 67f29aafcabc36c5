"""A gate file keeps a gate whole, says what it is, and refuses what it was not made for."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from earmark import Track
from earmark.errors import ModelMismatch
from earmark.features.sound_levels import LogMel
from earmark.gate.episodes import OperatingPoints
from earmark.gate.gate import Gate


@pytest.fixture(scope="module")
def gate_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="gates are trained by PyTorch")
    from gate_making import small_training

    folder = tmp_path_factory.mktemp("run")
    small_training(folder)
    return folder / "gate.gate"


def features(steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((steps, 64)).astype(np.float32)


def scored(gate: Gate, rows: np.ndarray, pieces: list[int]) -> np.ndarray:
    cuts = np.cumsum([0, *pieces, len(rows) - sum(pieces)])
    tracks = [Track(rows[a:b], start=a / 25) for a, b in pairwise(cuts) if b > a]
    got = list(gate.scorer(tracks))
    assert got[0].start == 0
    for left, right in pairwise(got):
        assert right.start == pytest.approx(left.span.end)
    return np.concatenate([track.values for track in got])


def test_a_gate_is_the_same_after_saving(gate_file: Path, tmp_path: Path) -> None:
    gate = Gate.load(gate_file)
    gate.save(tmp_path / "again.gate")
    again = Gate.load(tmp_path / "again.gate")
    assert (tmp_path / "again.gate").read_bytes() == gate_file.read_bytes()
    assert (again.card, again.rates, again.points) == (gate.card, gate.rates, gate.points)
    assert again.lengths == gate.lengths
    np.testing.assert_array_equal(again.misses.shares, gate.misses.shares)


@pytest.mark.parametrize("steps", [1, 2, 40, 751, 9400])
@pytest.mark.parametrize("pieces", [[], [1, 1, 1], [700, 33], [1500, 20], [6000, 7]])
def test_scores_do_not_depend_on_how_the_features_are_cut(
    gate_file: Path, steps: int, pieces: list[int]
) -> None:
    gate, rows = Gate.load(gate_file), features(steps)
    pieces = pieces if sum(pieces) <= steps else []
    np.testing.assert_allclose(scored(gate, rows, pieces), scored(gate, rows, []), atol=1e-4)


def test_every_row_has_one_score(gate_file: Path) -> None:
    many = scored(Gate.load(gate_file), features(3000), [10] * 250)
    assert many.shape == (3000,)
    assert np.isfinite(many).all() and (many >= 0).all()


def test_no_features_give_no_scores(gate_file: Path) -> None:
    assert list(Gate.load(gate_file).scorer([])) == []


def test_other_features_are_refused(gate_file: Path) -> None:
    scorer = Gate.load(gate_file).scorer
    with pytest.raises(ModelMismatch, match=r"64 channels of log-mel.*got 40"):
        list(scorer([Track(np.zeros((10, 40)))]))
    with pytest.raises(ModelMismatch, match=r"every 0.04 s and got 64 every 0.01 s"):
        list(scorer([Track(np.zeros((10, 64)), hop=0.01)]))
    broken = features(50)
    broken[30, 5] = np.nan
    with pytest.raises(ModelMismatch, match=r"at 1.20 s are not finite"):
        list(scorer([Track(broken)]))


def test_the_frontline_listens_with_the_cards_encoder(gate_file: Path) -> None:
    gate = Gate.load(gate_file)
    assert gate.frontline().encoder == LogMel()
    assert gate.scorer.digest in repr(gate.scorer)
    assert len(repr(gate.scorer)) < 300
    other = replace(gate, card=replace(gate.card, encoder="telepathy", encoder_options={}))
    with pytest.raises(ModelMismatch, match="needs the encoder telepathy"):
        other.frontline()
    wide = replace(gate, card=replace(gate.card, encoder_options={"bands": 40}))
    with pytest.raises(ModelMismatch, match="needs 64 channels at 25 Hz and log-mel gives 40"):
        wide.frontline()


def test_a_file_that_is_no_gate(tmp_path: Path) -> None:
    with pytest.raises(ModelMismatch, match="cannot read the gate"):
        Gate.load(tmp_path / "none.gate")
    (tmp_path / "text.gate").write_text("hello")
    with pytest.raises(ModelMismatch, match=r"text.gate is not a gate file, or is damaged"):
        Gate.load(tmp_path / "text.gate")
    with zipfile.ZipFile(tmp_path / "empty.gate", "w"):
        pass
    with pytest.raises(ModelMismatch, match=r"empty.gate is not a gate file"):
        Gate.load(tmp_path / "empty.gate")


def test_a_damaged_gate_is_noticed(gate_file: Path, tmp_path: Path) -> None:
    whole = gate_file.read_bytes()
    for place in range(7, len(whole), 499):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        try:
            loaded = Gate.from_bytes(bytes(damaged), name="damaged.gate")
        except ModelMismatch as error:
            assert "damaged" in str(error)
        else:  # a byte that nothing depends on, such as a date
            assert loaded.weights == Gate.load(gate_file).weights
            assert loaded.card == Gate.load(gate_file).card
    (tmp_path / "cut.gate").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelMismatch, match="damaged"):
        Gate.load(tmp_path / "cut.gate")


def rewritten(gate_file: Path, path: Path, **changes: object) -> Path:
    """A gate file whose JSON says something else."""
    with zipfile.ZipFile(gate_file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    kept = json.loads(members["gate.json"]) | changes
    members["gate.json"] = json.dumps(kept).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_gate_of_another_layout_or_with_other_weights(gate_file: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelMismatch, match="layout 99, this version reads"):
        Gate.load(rewritten(gate_file, tmp_path / "new.gate", layout=99))
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(ModelMismatch, match="weights do not match its checksum"):
        Gate.load(rewritten(gate_file, tmp_path / "swapped.gate", weights=other))
    with pytest.raises(ModelMismatch, match="card lacks"):
        Gate.load(rewritten(gate_file, tmp_path / "bare.gate", card={"encoder": "log-mel"}))


@pytest.mark.parametrize(
    "points",
    [
        {"on": [[0.9, 0.3, 1.0]], "off_share": 0.5, "median": 1},
        {"on": [[0.9, None]], "off_share": 0.5, "median": 1},
        {"on": [0.9], "off_share": 0.5, "median": 1},
        {"on": [], "off_share": 0.5, "median": 1},
        {"on": [[0.9, 0.3]], "off_share": 1.5, "median": 1},
        {"on": [[0.9, 0.3]], "off_share": 0.5, "median": 2},
        {"on": [[0.9, 0.3]], "off_share": 0.5},
        [[0.9, 0.3]],
    ],
)
def test_operating_points_that_are_none_are_noticed_on_loading(
    gate_file: Path, tmp_path: Path, points: object
) -> None:
    path = rewritten(gate_file, tmp_path / "odd.gate", points=points)
    with pytest.raises(ModelMismatch, match=r"^odd.gate is not a gate file, or is damaged \(.*$"):
        Gate.load(path)


def test_an_operating_point_is_found_by_recall() -> None:
    points = OperatingPoints(((0.99, 0.1), (0.95, 0.2), (0.9, 0.3)), off_share=0.5, median=1)
    assert points.threshold(0.95) == 0.2
    assert points.threshold(0.94) == 0.2
    assert points.episodes(0.2).off == 0.1
    with pytest.raises(ValueError, match=r"no operating point reaches 100% .* 99%, 95%, 90%"):
        points.threshold(0.999)
