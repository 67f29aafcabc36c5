"""Sounds named by many: the same words as from one, each recording listened to once."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from earmark import CaptionResult, caption
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.evidence.sound_names import SoundNamer
from earmark.pipeline.session import Session, open_session
from earmark.run.run import Run
from fault_server import fault_server
from making import make_archive
from scale_work import Listens, StumblesAt


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    return make_archive(tmp_path_factory.mktemp("archive"))


@pytest.fixture
def heard(tmp_path) -> Path:
    """Where it is noted who listened to what."""
    (tmp_path / "heard").mkdir()
    return tmp_path / "heard"


def naming(namer: object, **choices) -> Session:
    chosen = {"budget": "2", "frontline": "flux", "pictures": False, **choices}
    return replace(open_session(**chosen), namer=namer)


def listeners(heard: Path) -> list[tuple[int, str]]:
    """Process and recording, for each time one was listened to for its names."""
    found = (path.name.split("-")[:2] for path in heard.iterdir())
    return sorted((int(process), name) for process, name in found)


def tags(folder: Path) -> list[tuple[str, int, tuple[str, ...]]]:
    with Run(folder) as run:
        return [
            (recording.id, row.window, row.tags)
            for recording in run.recordings()
            for row in run.picks(recording.id)
        ]


def test_many_name_what_one_names_and_not_here(archive, heard, tmp_path):
    session = naming(SoundNamer(Listens(str(heard))))
    caption([archive], run=tmp_path / "one", settings=session, workers=1)
    assert {process for process, _ in listeners(heard)} == {os.getpid()}
    for path in heard.iterdir():
        path.unlink()
    caption([archive], run=tmp_path / "many", settings=session, workers=2)
    assert tags(tmp_path / "many") == tags(tmp_path / "one")
    assert all(any("sound at" in tag for tag in words) for _, _, words in tags(tmp_path / "many"))
    assert os.getpid() not in {process for process, _ in listeners(heard)}
    assert [name for _, name in sorted(listeners(heard), key=lambda pair: pair[1])] == [
        "0",
        "1",
        "2",
    ]


def test_what_others_named_is_remembered_here_and_no_answer_is_asked_again(
    archive, heard, tmp_path
):
    """On a resumed run the names in the questions must be the same, and cost nothing."""
    namer = SoundNamer(Listens(str(heard)), tmp_path / "driver")
    with fault_server() as server:
        asker = OpenAICaptioner(server.url, "scripted")
        session = naming(namer, captioner=asker, workers=2)
        caption([archive], run=tmp_path / "run", settings=session)
        assert (server.count(), len(listeners(heard))) == (6, 3)
        done = caption([archive], run=tmp_path / "run", settings=session)
        assert (server.count(), len(listeners(heard))) == (6, 3)
    assert done.totals.answered == 6


@pytest.mark.parametrize("workers", [1, 2])
def test_sounds_that_cannot_be_named_are_a_note_and_the_others_have_names(
    archive, heard, tmp_path, workers
):
    namer = SoundNamer(StumblesAt("1", str(heard)))
    session = naming(namer, workers=workers)
    done = caption([archive], run=tmp_path / "run", settings=session)
    assert (done.missed, done.totals.picks) == (0, 6)
    with done.open() as run:
        for recording in run.recordings():
            (notes, is_named) = (
                run.choice(recording.id).notes,
                any("sound at" in tag for row in run.picks(recording.id) for tag in row.tags),
            )
            if recording.path.endswith("1.mp4"):
                assert "its sounds could not be named" in notes[0]
                assert not is_named
            else:
                assert notes == ()
                assert is_named


@dataclass(frozen=True)
class Names:
    """Names every window alike, and keeps nothing."""

    word: str
    model: str = "names"

    def __call__(self, recording, spans):  # noqa: ARG002
        return dict.fromkeys(spans, (self.word,))

    def cached(self, recording):  # noqa: ARG002
        return {}

    def keep(self, recording, names):
        """It has no cache."""


def test_no_answer_is_asked_again_where_the_cache_is_gone_and_sounds_have_other_names(
    archive, tmp_path
):
    with fault_server() as server:
        asker = OpenAICaptioner(server.url, "scripted")

        def again(budget: str, namer: Names) -> CaptionResult:
            session = naming(namer, budget=budget, captioner=asker, workers=1)
            return caption([archive], run=tmp_path / "run", settings=session)

        again("2", Names("hammer"))
        assert server.count() == 6
        again("2", Names("knock"))
        assert server.count() == 6
        assert all("hammer" in words for _, _, words in tags(tmp_path / "run"))
        done = again("3", Names("knock"))
        assert server.count() == done.totals.answered == 9
        again("3", Names("saw", "another model"))
        assert server.count() == 18, "another model of sounds is another question"
