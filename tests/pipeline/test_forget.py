"""A recording is forgotten: no byte of it stays in any file, and others are as they were."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from earmark.captioning.request import Answer
from earmark.cli.app import app
from earmark.errors import EarmarkError, LedgerError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.gate.score_cache import ScoreCache, listen_cached
from earmark.ledger.corrections import Correction, correct, read_corrections
from earmark.ledger.forgetting import note_clips
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import CallRow, PickFrames, RecordingRow
from earmark.ledger.run_reader import Run
from earmark.media import Source, open_recording
from earmark.pipeline.forget import forget, search_files
from earmark.pipeline.run_plan import make_plan
from earmark.reporting.run_report import MOST_ON_A_PAGE, write_report
from earmark.selection.pick import Pick
from earmark.timeline import Span
from making import make_video

SPAN = Span(4.0, 8.0)
RARE = ("quixotic", "zymurgy", "vervet", "tmesis", "xanthic")
"""Words that only the recording to be forgotten has: caption, tag, evidence, correction, failure"""


def picture_of(name: str) -> bytes:
    """Bytes that no other recording's picture has."""
    return b"".join(hashlib.sha256(f"{name} {n}".encode()).digest() for n in range(20))


def keep(ledger: Ledger, path: Path, words: tuple[str, ...], picture: bytes) -> str:
    """Everything a run can keep of a recording, in `words`; its id."""
    key = f"{path.stem}-0123456789abcdef"
    caption, tag, heard, _, failure = words
    ledger.add(RecordingRow(key, str(path), 24.0, 1_000, name=f"shift {path.stem}"))
    ledger.choose(key, [Pick(1, 4.0, 8.0, 6.0, 0.5, 0.5, 0.5, "why")], tags={SPAN: [tag]})
    ledger.keep_frames(key, PickFrames(SPAN, picture, 12, 1, 40_000))
    entry = EvidenceEntry(SPAN, "said", f"somebody says {heard}", 0.9, "whisper")
    ledger.keep_evidence(key, [entry], kinds={"said"})
    call = CallRow(f"call {path.stem}", key, SPAN, "m1")
    ledger.unanswered([call])
    ledger.begin(call)
    ledger.fail(call, f"{failure} of {path.name}", tokens=(5, 5), spend=0.5)
    ledger.begin(call)
    answer = Answer(f"The wearer holds a {caption} thing", "m1", prompt_tokens=100)
    ledger.keep(call, answer, spend=0.25)
    return key


def tell(folder: Path, *paths: Path, rare: bool = True) -> dict[str, str]:
    """A run of recordings of which the first has rare words; their ids."""
    ids = {}
    with Ledger(folder, {"model": "m1"}) as ledger:
        for place, path in enumerate(paths):
            words = RARE if rare and place == 0 else ("box", "tap", "water", "cup", "timeout")
            picture = picture_of(path.name)
            ids[path.name] = keep(ledger, path, words, picture)
    for place, path in enumerate(paths):
        said = RARE[3] if rare and place == 0 else "cup"
        one = Correction(ids[path.name], SPAN, "reworded", "Ada", f"a {said} indeed")
        correct(folder, one)
    with Run(folder) as run:
        write_report(run, folder / "report.html")
    return ids


def traces(folder: Path, name: str, key: str) -> list[str]:
    """What of the first recording stands anywhere below a folder."""
    picture = picture_of(name)
    forms = [word.encode() for word in (*RARE, name, key)]
    forms += [picture[-64:], base64.b64encode(picture)[:64]]
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".mp4"]
    return [
        f"{form!r} in {path.name}"
        for path in files
        for form in forms
        if form in path.read_bytes() or form in path.name.encode()
    ]


def told_of(run: Run, key: str) -> list[object]:
    return [
        *run.picks(key),
        *run.answers(key, SPAN),
        *run.evidence(key),
        *read_corrections(run, key),
        run.thumbnail(key, SPAN),
        run.recording(key),
    ]


def test_no_byte_is_left_and_others_are_untouched(tmp_path):
    first, second = tmp_path / "media" / "tuesday.mp4", tmp_path / "media" / "wednesday.mp4"
    runs = tmp_path / "runs"
    ids = tell(runs / "one", first, second)
    tell(runs / "deep" / "two", first)
    tell(runs / "other", second, rare=False)
    (runs / "one" / "plan.json").write_text(json.dumps({"paths": [str(first), str(second)]}))
    key = ids[first.name]
    assert len(traces(runs, first.name, key)) > 10
    other = (runs / "other" / "run.db").read_bytes()
    with Run(runs / "one") as run:
        before = told_of(run, ids[second.name])
    with Ledger(runs / "one", {"model": "m1"}) as ledger:
        spent = ledger.spent()

    done = forget(str(first), [runs])

    assert traces(runs, first.name, key) == []
    assert done.runs == ((runs / "deep" / "two").resolve(), (runs / "one").resolve())
    assert done.empty == ((runs / "deep" / "two").resolve(),)
    assert done.search.found == () and done.search.files >= 8
    assert done.search.looked_for["texts"] == 3 and done.search.looked_for["names"] >= 3
    assert (runs / "other" / "run.db").read_bytes() == other
    assert json.loads((runs / "one" / "plan.json").read_text())["paths"] == [str(second)]
    with Run(runs / "one") as run:
        assert told_of(run, ids[second.name]) == before
        assert [row.path for row in run.recordings()] == [str(second)]
        assert not any(run.search(word) for word in RARE)
        assert {hit.path for word in ("box", "tap", "water") for hit in run.search(word)} == {
            str(second)
        }
    with Ledger(runs / "one", {"model": "m1"}) as ledger:
        assert ledger.spent() == spent  # what was paid is not there to be spent again
        call = CallRow("call wednesday", ids[second.name], SPAN, "m1")
        assert ledger.unanswered([call]) == []  # nothing is asked twice
    with (
        closing(sqlite3.connect(runs / "one" / "run.db")) as database,
        pytest.raises(sqlite3.IntegrityError, match="an answer is never deleted"),
    ):
        database.execute("DELETE FROM answers")


def test_the_pages_of_an_archive_are_written_anew(tmp_path):
    paths = [tmp_path / f"cam-{number:02d}.mp4" for number in range(MOST_ON_A_PAGE + 2)]
    ids = tell(tmp_path / "run", *paths)
    key = ids[paths[0].name]
    assert list((tmp_path / "run" / "recordings").glob("cam-00-*.html"))
    forget(paths[0].name, [tmp_path])
    assert traces(tmp_path / "run", paths[0].name, key) == []
    assert len(list((tmp_path / "run" / "recordings").glob("*.html"))) == len(paths) - 1


def test_clips_and_what_the_cache_has_are_deleted(tmp_path):
    media = [
        make_video(tmp_path / f"{name}.mp4", duration=8.0, clicks=clicks, fps=5)
        for name, clicks in (("a", [1.0]), ("b", [1.0, 5.0]))
    ]
    cache, frontline = tmp_path / "cache", make_plan(frontline="energy").listening.frontline
    for path in media:
        listen_cached(Source((str(path),)), frontline, ScoreCache(cache))
    clip = tmp_path / "clips" / "a-001.mp4"
    clip.parent.mkdir()
    clip.write_bytes(b"a clip")
    key = open_recording(media[0]).key
    with Ledger(tmp_path / "run", {}) as ledger:
        ledger.add(RecordingRow.of(open_recording(media[0])))
        ledger.add(RecordingRow.of(open_recording(media[1])))
        note_clips(ledger, key, [clip])
    done = forget(key, [tmp_path], cache=cache)
    assert (done.cached, done.clips, done.search.found) == (1, 1, ())
    assert not clip.exists() and media[0].exists()
    (left,) = cache.rglob("*.npz")
    again = listen_cached(Source((str(media[1]),)), frontline, ScoreCache(cache))
    assert again.from_cache and left.exists()


def test_a_sound_or_object_that_another_recording_has_too_is_no_trace(tmp_path):
    path = tmp_path / "tuesday.mp4"
    ids = tell(tmp_path / "run", path)
    with Ledger(tmp_path / "run", {"model": "m1"}) as ledger:
        for kind, name in (("heard", "Power tool"), ("seen", "dining table")):
            entry = EvidenceEntry(SPAN, kind, name, 0.9, "a model")
            ledger.keep_evidence(ids[path.name], [entry], kinds={kind})
    other = tmp_path / "cache" / "names" / "ab" / "abcdef-0123.json"
    other.parent.mkdir(parents=True)
    other.write_text('[[4.0, 8.0, ["Power tool", "dining table"]]]')
    done = forget(path.name, [tmp_path / "run"], cache=tmp_path / "cache")
    assert done.search.found == () and other.exists()
    kept = (tmp_path / "run" / "run.db").read_bytes()
    assert b"Power tool" not in kept and b"dining table" not in kept


def test_a_file_that_still_names_it_fails_the_command(tmp_path):
    path = tmp_path / "tuesday.mp4"
    tell(tmp_path / "run", path)
    (tmp_path / "mine.csv").write_text(f"path,caption\n{path},x\n")
    words = ["forget", "tuesday.mp4", str(tmp_path), "--cache", str(tmp_path / "c")]
    asked = CliRunner().invoke(app, words, input="n\n")
    assert asked.exit_code == 1 and traces(tmp_path / "run", path.name, "-")
    said = CliRunner().invoke(app, [*words, "--yes"])
    assert said.exit_code == 1
    assert "forgotten in 1 run" in said.output and "found in 1 file" in said.output
    assert "mine.csv still holds names" in " ".join(said.output.split())


def test_what_is_not_known_or_not_clear_deletes_nothing(tmp_path):
    one, two = tmp_path / "x" / "cam.mp4", tmp_path / "y" / "cam.mp4"
    with Ledger(tmp_path / "run", {}) as ledger:
        ledger.add(RecordingRow("k1", str(one), 24.0, 1_000))
        ledger.add(RecordingRow("k2", str(two), 24.0, 1_000))
    with pytest.raises(EarmarkError, match=r"no recording is called gone\.mp4 in the 1 run here"):
        forget("gone.mp4", [tmp_path])
    with pytest.raises(EarmarkError, match=r"cam\.mp4 is the name of several recordings"):
        forget("cam.mp4", [tmp_path])
    with Run(tmp_path / "run") as run:
        assert len(run.recordings()) == 2


def test_a_run_at_work_is_refused(tmp_path):
    path = tmp_path / "tuesday.mp4"
    tell(tmp_path / "run", path)
    program = (
        "import sys; from pathlib import Path; from earmark.ledger.ledger import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]), {}); print('here', flush=True); input()"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "run")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as child:
        assert child.stdout.readline() == "here\n"
        with pytest.raises(LedgerError, match="is in use by process"):
            forget(str(path), [tmp_path])
        child.communicate("\n")
    with Run(tmp_path / "run") as run:
        assert len(run.recordings()) == 1


def test_a_name_within_another_is_not_taken_for_it(tmp_path):
    (tmp_path / "other.txt").write_text("extra-tuesday.mp4 and old.tuesday.mp4")
    assert search_files([tmp_path], {"names": ["tuesday.mp4"]}, own=()).found == ()
    with zipfile.ZipFile(tmp_path / "share.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("captions.csv", "x,cams/tuesday.mp4")
    found = search_files([tmp_path], {"names": ["tuesday.mp4"]}, own=()).found
    assert found == ((tmp_path / "share.zip", "names"),)


def test_a_file_that_cannot_be_searched_is_said_and_the_others_are_searched(tmp_path):
    with zipfile.ZipFile(tmp_path / "damaged.zip", "w") as archive:
        archive.writestr("captions.csv", "x,cams/monday.mp4")
    damaged = (tmp_path / "damaged.zip").read_bytes().replace(b"monday", b"friday", 1)
    (tmp_path / "damaged.zip").write_bytes(damaged)
    (tmp_path / "notes.txt").write_text("on tuesday.mp4")
    search = search_files([tmp_path], {"names": ["tuesday.mp4"]}, own=())
    assert search.found == ((tmp_path / "notes.txt", "names"),)
    assert search.unread == (tmp_path / "damaged.zip",)
