"""What a server of runs gives away of a recording whose faces are to be blurred."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark
from annotation_server import MODEL, annotation_server
from earmark.pipeline.session import open_session
from earmark.run.run import Run
from earmark.server.agent_tools import AgentTools
from earmark.server.run_library import RunLibrary, Service
from face_film import faces_in, faces_in_video, film_face, pictures_in, require_faces
from served import run_named, serving

CHOICES = {"budget": "1", "frontline": "energy", "pictures": False}


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """A run made without blurring and one with, of one recording of a face."""
    require_faces()
    folder = tmp_path_factory.mktemp("archive")
    film = film_face(folder / "shift.mp4")
    earmark.caption([film], run=folder / "plain", **CHOICES)
    earmark.caption([film], run=folder / "blurred", blur="faces", **CHOICES)
    return folder


def test_what_is_sent_is_blurred_and_recordings_stay_on_their_machine(archive, tmp_path):
    pytest.importorskip("fastapi", reason="earmark[server] is not installed")
    with annotation_server(reply="A person stands.") as model:
        words = ("--blur", "faces", "--model", f"{model.url}#{MODEL}", "--no-cache")
        with serving(archive, options=(*words, "--allow-host", "review.example.org")) as client:
            run = run_named(client, "plain")
            (row,) = client.get(f"/api/runs/{run}/recordings").json()["rows"]
            place = f"/api/runs/{run}/recordings/{row['row']['id']}"
            (shown,) = client.get(f"{place}/picks").json()["picks"]
            span = {name: shown[name] for name in ("start", "end")}
            assert shown["has_picture"]
            assert faces_in(client.get(f"{place}/picture", params=span).content) == 0
            clip = client.get(f"{place}/clip", params=span)
            (tmp_path / "clip.mp4").write_bytes(clip.content)
            assert set(faces_in_video(tmp_path / "clip.mp4")) == {0}
            other = 2.0 if span["start"] >= 4 else 10.0
            assert client.post(f"{place}/ask", json={"time": other}).status_code == 200
            assert [*map(faces_in, pictures_in(model.asked()))] == [0]
            part = client.get(place).json()["parts"][0]
            refused = client.get(f"/media/{run}/{row['row']['id']}/0")
        assert "faces are blurred" in part["why_not"] and refused.status_code == 409
    with Run(archive / "plain") as kept:
        assert kept.is_blurred, "from the first question on"


@pytest.mark.parametrize("name", ["plain", "blurred"])
def test_an_agent_sees_no_face(archive, name):
    plan = open_session(blur="faces" if name == "plain" else "none")
    tools = AgentTools(Service(RunLibrary([archive], blur=plan.question.blur), plan))
    (run,) = [one for one in tools.library.runs() if one.name == name]
    with run.open() as kept:
        (row,) = kept.recordings()
        assert run.hidden(kept) == "", "on this machine it is played"
    pictures, _ = tools.look(run.key, row.id, 5.0, frames=2)
    assert [*map(faces_in, pictures)] == [0, 0]
