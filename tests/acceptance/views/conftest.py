"""Two captioned runs, made once for all tests of what is done with runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from acceptance.command_line import earmark
from acceptance.views.scene import CAPTIONS, Actions, ColourModel, action_at, colour_model, film

BENCH: Actions = {"drill": [(5, 7.5), (20.5, 23)], "water": [(33, 35.5)]}
SINK: Actions = {"water": [(9, 11.5)]}
YARD: Actions = {"drill": [(13, 15.5)]}


@dataclass(frozen=True)
class Place:
    """Recordings and the runs made of them."""

    folder: Path
    score_cache: Path

    @property
    def site(self) -> Path:
        """The folder of `bench.mp4` (40 s) and `sink.mp4` (24 s)."""
        return self.folder / "site"

    @property
    def bench(self) -> Path:
        return self.site / "bench.mp4"

    @property
    def runs(self) -> Path:
        """The folder of the runs `site` (bench and sink) and `yard`."""
        return self.folder / "runs"

    @property
    def run(self) -> Path:
        """The run of `bench.mp4` and `sink.mp4`, six picks, all captioned."""
        return self.runs / "site"

    def caption_at(self, name: str, time: float) -> str:
        """What a correct model says about the recording called `name` at `time`."""
        actions = {"bench.mp4": BENCH, "sink.mp4": SINK, "yard.mp4": YARD}[name]
        return CAPTIONS[action_at(actions, time)]


@pytest.fixture(scope="session")
def model() -> Iterator[ColourModel]:
    """A model server that sees the colour of what it is shown."""
    with colour_model() as running:
        yield running


@pytest.fixture(scope="session")
def surroundings(score_cache: Path) -> Mapping[str, str]:
    """Environment variables that keep the user's cache and models out of a session fixture."""
    return {
        "EARMARK_CACHE": str(score_cache),
        "EARMARK_CHECKPOINTS": str(score_cache / "no-models"),
    }


@pytest.fixture(scope="session")
def place(
    model: ColourModel,
    score_cache: Path,
    surroundings: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Place:
    """The recordings and their runs; tests leave them as they are."""
    place = Place(tmp_path_factory.mktemp("place").resolve(), score_cache)
    film(place.bench, 40, BENCH)
    film(place.site / "sink.mp4", 24, SINK)
    film(place.folder / "yard" / "yard.mp4", 24, YARD)
    for source, run in ((place.site, "site"), (place.folder / "yard", "yard")):
        words = ("--budget", "40%", "--run", place.runs / run, "--model", model.address)
        done = earmark("caption", source, *words, env=surroundings)
        assert done.code == 0, done.err
    return place


@pytest.fixture
def run_copy(place: Place, tmp_path: Path) -> Path:
    """A copy of the run `site` that a test may change."""
    return Path(shutil.copytree(place.run, tmp_path / "site"))


@pytest.fixture(scope="session")
def with_models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Environment variables that give the models of this machine; skips the test without YAMNet."""
    models = Path.home() / ".cache" / "earmark" / "models"
    if not (models / "yamnet.tflite").is_file():
        pytest.skip("YAMNet is not installed here")
    cache = tmp_path_factory.mktemp("with-models")
    (cache / "models").mkdir()
    for model in models.iterdir():
        if not model.name.startswith("mn04"):  # which would name sounds first
            (cache / "models" / model.name).symlink_to(model)
    return {"EARMARK_CACHE": str(cache)}


@pytest.fixture(scope="session")
def annotations() -> Path:
    """The folder of published annotations beside the checkout; skips the test without it."""
    folder = Path(__file__).resolve().parents[4] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no shared/data beside the checkout")
    return folder
