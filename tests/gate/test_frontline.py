"""Frontlines by name: earmark's own, and those other packages declare."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from earmark.gate.frontline import AUTO, FRONTLINES, GATE, frontline_named
from earmark.gate.rates import LevelRates, RankRates

PLUGIN = """
from dataclasses import dataclass

import numpy as np

from earmark.features.encoder import SoundEncoder
from earmark.features.sound_levels import Energy
from earmark.gate.frontline import Frontline
from earmark.gate.rates import RankRates


@dataclass(frozen=True)
class Peak(SoundEncoder):
    scale: float = 1.0

    def encode(self, sound):
        for track in Energy().encode(sound):
            yield type(track)(np.float32(self.scale) * track.values, start=track.start)


def steady():
    return Frontline("steady", Energy(), rates=RankRates(starts_per_second=0.1))
"""


@pytest.fixture
def declared(tmp_path) -> Path:
    """A package that declares an encoder and a whole frontline, as pip would install it."""
    folder = tmp_path / "site"
    facts = folder / "loud_plugin-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / "loud_plugin.py").write_text(PLUGIN)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: loud-plugin\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[earmark.frontlines]\npeak = loud_plugin:Peak\nsteady = loud_plugin:steady\n"
    )
    return folder


def earmark(folder: Path, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "earmark", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(folder), "EARMARK_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_gate_comes_first():
    assert [*FRONTLINES][:1] == [GATE]
    assert frontline_named(AUTO).name == GATE
    assert isinstance(frontline_named("flux").rates, RankRates)
    assert isinstance(frontline_named("energy").rates, LevelRates)
    assert frontline_named("yamnet:store=/elsewhere:cell=6").name == "yamnet:cell=6"


@pytest.mark.parametrize("wrong", [3, None, Path("own.gate"), ["gate"]])
def test_what_is_no_name_of_a_frontline_is_said_so(wrong):
    with pytest.raises(ValueError, match=r"^a frontline is a name or a Frontline, not "):
        frontline_named(wrong)


def test_what_another_package_declares_is_chosen_by_its_name(declared, tmp_path):
    """Its encoder with the generic rates, options and all; its frontline as it makes it."""
    samples = np.zeros(20 * 16_000)
    samples[9 * 16_000 : 10 * 16_000] = 0.5
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes((samples * 32_000).astype(np.int16).tobytes())
    for name in ("peak", "peak:scale=0.5", "steady"):
        said = earmark(declared, "select", tmp_path / "a.wav", "-f", name, "-b", 1, "-r", "rank",
                       "--format", "json")  # fmt: skip
        (chosen,) = json.loads(said)["recordings"]
        assert chosen["frontline"] == name
        assert [pick["start"] <= 9.0 < pick["end"] for pick in chosen["picks"]] == [True]
    rows = {
        row["name"]: row for row in json.loads(earmark(declared, "lab", "systems", "--format=json"))
    }
    assert rows["peak"]["kind"] == rows["steady"]["kind"] == "frontline"
    assert rows["peak"]["state"] == "ready" and rows["peak"]["paper"] is None
