"""A recording is forgotten: no byte of it stays in any file, and others are as they were."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from earmark import EarmarkError, Pick, ScoreCache, Span, open_recording
from earmark.captioning.request import Answer
from earmark.cli.app import app
from earmark.errors import RunError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.gate.listener import listen_cached
from earmark.media import Source
from earmark.pipeline.forget import forget
from earmark.pipeline.session import open_session
from earmark.report.run_report import MOST_ON_A_PAGE, write_report
from earmark.run.corrections import Correction, correct, read_corrections
from earmark.run.erasure import note_written
from earmark.run.records import PickFrames, RecordingRow
from earmark.run.run import Run
from making import make_video
from small_runs import CallRow

SPAN = Span(4.0, 8.0)
RARE = ("quixotic", "zymurgy", "vervet", "tmesis", "xanthic")
"""Words that only the recording to be forgotten has: caption, tag, evidence, correction, failure"""


def picture_of(name: str) -> bytes:
    """Bytes that no other recording's picture has."""
    return b"".join(hashlib.sha256(f"{name} {n}".encode()).digest() for n in range(20))


def keep(ledger: Run, path: Path, words: tuple[str, ...], picture: bytes) -> str:
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
    with Run(folder, {"model": "m1"}) as ledger:
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
    sources = [{"uris": [str(first)]}, {"uris": [str(second)]}]
    (runs / "one" / "sources.json").write_text(json.dumps(sources))
    key = ids[first.name]
    assert len(traces(runs, first.name, key)) > 10
    other = (runs / "other" / "run.db").read_bytes()
    with Run(runs / "one") as run:
        before = told_of(run, ids[second.name])
    with Run(runs / "one", {"model": "m1"}) as ledger:
        spent = ledger.spent()

    done = forget(str(first), [runs])

    assert traces(runs, first.name, key) == []
    assert done.runs == ((runs / "deep" / "two").resolve(), (runs / "one").resolve())
    assert done.empty == ((runs / "deep" / "two").resolve(),)
    assert {path.name for path in done.files} == {"report.html"}
    assert (runs / "other" / "run.db").read_bytes() == other
    assert json.loads((runs / "one" / "sources.json").read_text()) == sources[1:]
    with Run(runs / "one") as run:
        assert told_of(run, ids[second.name]) == before
        assert [row.path for row in run.recordings()] == [str(second)]
        assert not any(run.search(word) for word in RARE)
        assert {hit.path for word in ("box", "tap", "water") for hit in run.search(word)} == {
            str(second)
        }
    with Run(runs / "one", {"model": "m1"}) as ledger:
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


def test_what_the_cache_has_is_deleted_and_exports_are_listed(tmp_path):
    media = [
        make_video(tmp_path / f"{name}.mp4", duration=8.0, clicks=clicks, fps=5)
        for name, clicks in (("a", [1.0]), ("b", [1.0, 5.0]))
    ]
    cache, frontline = tmp_path / "cache", open_session(frontline="energy").listening.frontline
    for path in media:
        listen_cached(Source((str(path),)), frontline, ScoreCache(cache))
    clip = tmp_path / "clips" / "a-001.mp4"
    clip.parent.mkdir()
    clip.write_bytes(b"a clip")
    key = open_recording(media[0]).key
    with Run(tmp_path / "run", {}) as ledger:
        ledger.add(RecordingRow.of(open_recording(media[0])))
        ledger.add(RecordingRow.of(open_recording(media[1])))
    note_written(tmp_path / "run", [clip, tmp_path / "gone.csv"])
    done = forget(key, [tmp_path], cache=cache)
    assert len(done.files) == 1
    assert done.exports == (clip,)
    assert any(str(clip) in line for line in done.lines())
    assert clip.exists() and media[0].exists(), "a run from somebody else may name any file"
    (left,) = cache.rglob("*.npz")
    again = listen_cached(Source((str(media[1]),)), frontline, ScoreCache(cache))
    assert again.from_cache and left.exists()


def test_the_command_lists_what_it_deletes_and_asks_first(tmp_path):
    path = tmp_path / "tuesday.mp4"
    tell(tmp_path / "run", path)
    words = ["run", "forget", "tuesday.mp4", str(tmp_path), "--cache", str(tmp_path / "c")]
    asked = CliRunner().invoke(app, words, input="n\n")
    assert asked.exit_code == 1 and traces(tmp_path / "run", path.name, "-")
    outcome = CliRunner().invoke(app, [*words, "--yes"])
    assert outcome.exit_code == 0
    assert "forgotten in 1 run" in outcome.output and "report.html" in outcome.output
    assert traces(tmp_path / "run", path.name, "tuesday-0123456789abcdef") == []


@pytest.mark.parametrize("step", ["_clean_sources", "delete_recordings", "write_report"])
@pytest.mark.parametrize("again", ["tuesday.mp4", "wednesday.mp4", "another.mp4"])
def test_an_interrupted_forget_is_completed_by_the_next(tmp_path, monkeypatch, step, again):
    first, second = tmp_path / "tuesday.mp4", tmp_path / "wednesday.mp4"
    ids = tell(tmp_path / "run", first, second)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(f"earmark.pipeline.forget.{step}", stop)
        with pytest.raises(KeyboardInterrupt):
            forget(str(first), [tmp_path])
    assert not (tmp_path / "run" / "report.html").exists(), "the page goes before the rows"
    done = forget(again, [tmp_path])
    assert traces(tmp_path / "run", first.name, ids[first.name]) == []
    assert done.runs == ((tmp_path / "run").resolve(),)
    assert (tmp_path / "run" / "report.html").exists()
    with pytest.raises(EarmarkError, match="no recording is called"):
        forget(again, [tmp_path])


@pytest.mark.parametrize("last", range(9))
def test_a_forget_killed_while_it_deletes_is_completed_by_the_next(tmp_path, last):
    """Dead at each of its last statements, or after them with the journal still there."""
    first, second = tmp_path / "tuesday.mp4", tmp_path / "wednesday.mp4"
    ids = tell(tmp_path / "run", first, second)
    program = (
        "import os, sys; from pathlib import Path; from earmark.pipeline import forget as verb\n"
        "delete, end, left = verb.delete_recordings, verb.Deletion.end, int(sys.argv[2])\n"
        "steps = ('BEGIN', 'PRAGMA wal', 'DELETE FROM notes', 'VACUUM')\n"
        "def watched(run, ids):\n"
        "    def note(statement):\n"
        "        global left\n"
        "        left -= statement.startswith(steps)\n"
        "        left or os._exit(9)\n"
        "    run._database.set_trace_callback(note)\n"
        "    delete(run, ids)\n"
        "verb.delete_recordings = watched\n"
        "verb.Deletion.end = lambda self, run: (end(self, run), os._exit(9))\n"
        "verb.forget('tuesday.mp4', [Path(sys.argv[1])])"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "run"), str(last)]
    assert subprocess.run(words, check=False).returncode == 9
    with suppress(EarmarkError):  # all was done before the end
        forget("tuesday.mp4", [tmp_path / "run"])
    assert traces(tmp_path / "run", first.name, ids[first.name]) == []


def test_a_recording_killed_at_any_moment_is_forgotten_in_the_end(tmp_path):
    first, second = tmp_path / "tuesday.mp4", tmp_path / "wednesday.mp4"
    tell(tmp_path / "whole", first, second)
    program = (
        "import sys; from pathlib import Path; from earmark.pipeline.forget import forget\n"
        "print('here', flush=True); forget('tuesday.mp4', [Path(sys.argv[1])])"
    )
    for number in range(8):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        words = [sys.executable, "-c", program, str(folder)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            child.stdout.readline()
            time.sleep(0.005 * number)
            child.kill()
        with suppress(EarmarkError):  # all was done before the kill
            forget("tuesday.mp4", [folder])
        assert traces(folder, first.name, "tuesday-0123456789abcdef") == []
        with Run(folder) as run:
            assert [row.path for row in run.recordings()] == [str(second)]


def test_what_is_not_known_or_not_clear_deletes_nothing(tmp_path):
    one, two = tmp_path / "x" / "cam.mp4", tmp_path / "y" / "cam.mp4"
    with Run(tmp_path / "run", {}) as ledger:
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
        "import sys; from pathlib import Path; from earmark.run.run import Run\n"
        "ledger = Run(Path(sys.argv[1]), {}); print('here', flush=True); input()"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "run")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as child:
        assert child.stdout.readline() == "here\n"
        with pytest.raises(RunError, match="is in use by process"):
            forget(str(path), [tmp_path])
        child.communicate("\n")
    with Run(tmp_path / "run") as run:
        assert len(run.recordings()) == 1
