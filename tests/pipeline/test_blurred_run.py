"""With `--blur faces` no face reaches a server, a run, a page or a clip; and it stays so."""

from __future__ import annotations

import base64
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import earmark
from annotation_server import MODEL, annotation_server
from earmark import Span
from earmark.cli.app import app
from earmark.evidence.face_blur import FaceBlur
from earmark.media import Frame
from earmark.pipeline.resume import ask_window
from earmark.pipeline.session import open_session
from earmark.run.merge import merge
from earmark.run.run import Run
from earmark.run.summaries import read_summaries
from face_film import faces_in, faces_in_video, film_face, pictures_in, require_faces

SAID = json.dumps(
    {"caption": "A person stands.", "activity": "stand", "active": True, "seen": True}
)


@pytest.fixture(scope="module", autouse=True)
def _faces() -> None:
    require_faces()


@pytest.fixture(scope="module")
def film(tmp_path_factory) -> Path:
    return film_face(tmp_path_factory.mktemp("film") / "shift.mp4")


@pytest.fixture
def server():
    with annotation_server([Span(0, 16)], reply=SAID) as running:
        yield running


def earmark_says(*words: object, code: int = 0, env: dict[str, str] | None = None) -> str:
    said = CliRunner().invoke(app, [str(word) for word in words], env=env)
    assert said.exit_code == code, said.output
    return said.output or str(said.exception)


def caption(film: Path, run: Path, server, *words: str, **more) -> str:
    asked = ("--model", f"{server.url}#{MODEL}", "--no-cache", "-f", "energy", "--no-sounds")
    asked += ("--concurrency", "1")  # so that pictures come in the order of their windows
    return earmark_says("caption", film, "--run", run, *asked, "--no-pictures", *words, **more)


def pictures_on(page: Path) -> list[bytes]:
    data = page.read_text().split('id="data"', 1)[1].split(">", 1)[1].split("</script>", 1)[0]
    picks = [pick for one in json.loads(data)["recordings"] for pick in one["picks"]]
    return [base64.b64decode(pick["picture"]) for pick in picks]


def thumbnails(run: Path) -> list[bytes]:
    with Run(run) as kept:
        (row,) = kept.recordings()
        return [kept.thumbnail(row.id, pick.span) for pick in kept.picks(row.id)]


def test_the_server_gets_the_picture_without_its_face_and_the_run_keeps_no_other(
    film, server, tmp_path
):
    plain = caption(film, tmp_path / "plain", server, "--budget", "2")
    sent = pictures_in(server.asked())
    assert list(map(faces_in, sent)) == [1, 1] and "blurred" not in plain
    told = caption(film, tmp_path / "run", server, "--budget", "2", "--blur", "faces")
    hidden = pictures_in(server.asked())[2:]
    assert "2 faces blurred in what was sent" in told
    assert list(map(faces_in, hidden)) == [0, 0]
    for before, after in zip(sent, hidden, strict=True):
        top, bottom, left, right = FaceBlur().find(Frame.from_jpeg(before))[0]
        changed = np.abs(
            Frame.from_jpeg(before).rgb.astype(int) - Frame.from_jpeg(after).rgb.astype(int)
        ).mean(axis=2)
        assert changed[top:bottom, left:right].mean() > 15
        changed[top:bottom, left:right] = 0
        assert changed.mean() < 1, "the rest is as it was"
    assert list(map(faces_in, thumbnails(tmp_path / "plain"))) == [1, 1]
    assert list(map(faces_in, thumbnails(tmp_path / "run"))) == [0, 0]
    with Run(tmp_path / "run") as run:
        assert run.is_blurred and run.totals().faces_blurred == 2
        assert [one.totals.faces_blurred for one in read_summaries(run)] == [2]
        assert run.plan()["ask"]["blur"] == "faces"
    assert '"faces_blurred": 2' in (tmp_path / "run" / "report.html").read_text().replace(
        ":2", ": 2"
    )


def test_a_blurred_run_stays_blurred_whoever_goes_on_with_it(film, server, tmp_path):
    run = tmp_path / "run"
    caption(film, run, server, "--budget", "1", env={"EARMARK_BLUR": "faces"})
    caption(film, run, server, "--budget", "2", "--blur", "none")  # goes on, and pays once
    assert len(server.asked()) == 2
    vlm = ("--model", f"{server.url}#{MODEL}")
    earmark_says("run", "audit", run, "--calls", "2", *vlm)
    batch = tmp_path / "batch.jsonl"
    earmark_says("export", run, "--to", "batch", "--model", "other", "--out", batch)
    earmark_says(
        "find", "a person", film, "--run", run, *vlm, "--calls", "1", "--no-cache", "--no-sounds",
        "--clips", tmp_path / "clips",
    )  # fmt: skip
    pictures = pictures_in(server.asked())
    bodies = [json.loads(line)["body"] for line in batch.read_text().splitlines()]
    assert len(pictures) == 5 and len(bodies) == 2
    assert {*map(faces_in, [*pictures, *pictures_in(bodies)])} == {0}
    (clip,) = (tmp_path / "clips").iterdir()
    shown = faces_in_video(clip)
    assert len(shown) >= 16 and sum(shown) == 0
    listed = earmark_says("run", "forget", film, tmp_path, "--yes", "--cache", tmp_path / "none")
    assert str(tmp_path / "clips") in listed and clip.exists()  # an export is the user's to delete


def test_a_run_made_without_has_its_pictures_blurred_once_it_is_asked_with(film, server, tmp_path):
    run = tmp_path / "run"
    caption(film, run, server, "--budget", "2")
    (old, *_) = thumbnails(run)
    earmark_says(
        "run", "audit", run, "--calls", "1", "--model", f"{server.url}#{MODEL}", "--blur", "faces"
    )
    assert list(map(faces_in, thumbnails(run))) == [0, 0]
    content = b"".join(path.read_bytes() for path in run.glob("run.db*"))
    assert old[-200:] not in content, "overwritten, not only unlinked"
    assert faces_in(pictures_in(server.asked())[-1]) == 0


def test_whatever_blurs_a_run_blurs_its_report_too(film, server, tmp_path):
    first = tmp_path / "audit"
    caption(film, first, server, "--budget", "2")
    runs = [first, *(shutil.copytree(first, tmp_path / name) for name in ("ask", "batch"))]
    assert {*map(faces_in, pictures_on(first / "report.html"))} == {1}
    vlm = ("--model", f"{server.url}#{MODEL}")
    earmark_says("run", "audit", first, "--calls", "1", *vlm, "--blur", "faces")
    plan = open_session(model=f"{server.url}#{MODEL}", blur="faces")
    with Run(runs[1]) as run:
        (row,) = run.recordings()
    ask_window(runs[1], row.id, 1.0, plan, plan.open_captioner(), reason="by hand")
    words = ("--to", "batch", "--model", "other", "--out", tmp_path / "b.jsonl")
    earmark_says("export", runs[2], *words, "--blur", "faces")
    for run in runs:
        assert {*map(faces_in, pictures_on(run / "report.html"))} == {0}
    (runs[2] / "report.html").unlink()
    earmark_says("export", runs[2], *words, "--blur", "faces")
    assert not (runs[2] / "report.html").exists(), "none is made where there was none"


def test_clips_bundles_and_pages_of_any_run_are_blurred_if_asked(film, server, tmp_path):
    run = tmp_path / "run"
    caption(film, run, server, "--budget", "1")
    shared, day = tmp_path / "share.zip", tmp_path / "day.mp4"
    earmark_says("export", "--to", "bundle", run, "--out", shared, "--blur", "faces")
    with zipfile.ZipFile(shared) as archive:
        archive.extractall(tmp_path / "shared")
    assert [*map(faces_in, pictures_on(tmp_path / "shared" / "index.html"))] == [0]
    (clip,) = (tmp_path / "shared" / "clips").iterdir()
    assert sum(faces_in_video(clip)) == 0
    told = earmark_says(
        "export", "--to", "highlights", run, "--out", day, env={"EARMARK_BLUR": "faces"}
    )
    assert "re-encoded" in told and sum(faces_in_video(day)) == 0
    earmark_says("export", "--to", "highlights", run, "--out", day)
    assert min(faces_in_video(day)) == 1
    report = tmp_path / "page.html"
    earmark_says("show", "--page", run, "--out", report, "--blur", "faces")
    assert [*map(faces_in, pictures_on(report))] == [0] and faces_in(thumbnails(run)[0]) == 1
    found = tmp_path / "found"
    earmark_says("search", run, "person", "--thumbnails", found, "--blur", "faces")
    assert [faces_in(path.read_bytes()) for path in found.iterdir()] == [0]


def test_without_the_model_nothing_is_sent(film, server, tmp_path):
    nowhere = {"EARMARK_CACHE": str(tmp_path / "nothing")}
    said = caption(film, tmp_path / "run", server, "--blur", "faces", code=1, env=nowhere)
    assert said.startswith("faces cannot be blurred, so nothing is sent: centerface.onnx is not in")
    assert "earmark models get centerface" in said
    assert server.asked() == []
    for words in (("bundle", "a.zip"), ("highlights", "a.mp4")):
        caption(film, tmp_path / "plain", server, "--budget", "1")
        earmark_says(
            "export", tmp_path / "plain", "--to", words[0], "--out", tmp_path / words[1],
            "--blur", "faces", code=1, env=nowhere,
        )  # fmt: skip
        assert not (tmp_path / words[1]).exists()


def test_another_blur_is_refused_in_a_line(film, tmp_path):
    with pytest.raises(ValueError, match="blur: should be 'none' or 'faces', not 'hands'"):
        earmark.caption([film], run=tmp_path / "run", blur="hands")


def test_a_run_taken_into_a_blurred_one_brings_no_picture_of_a_face(film, server, tmp_path):
    runs = [tmp_path / "plain", tmp_path / "blurred"]
    for run in runs:
        caption(film, run, server, "--budget", "2")
    with Run.resume(runs[1], blur=FaceBlur()):
        pass
    for number, order in enumerate((runs, runs[::-1])):
        made = tmp_path / f"both-{number}"
        merge(order, made)
        with Run(made) as both:
            assert both.is_blurred
        assert {*map(faces_in, filter(None, thumbnails(made)))} <= {0}
