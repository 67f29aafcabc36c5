"""The whole job, with real servers in processes of their own."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from acceptance.command_line import earmark, fresh_command
from earmark import CaptionResult, Progress, caption, open_recording, preview
from earmark.captioning.captioner import TagsCaptioner
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.errors import RunError
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.listen import listen_and_store
from earmark.pipeline.session import Session, open_session
from earmark.run.merge import merge
from earmark.run.records import RunPick
from earmark.run.run import Run
from earmark.run.schema import FILE
from earmark.settings import Limits
from fault_server import fault_server
from killing import kill_and_resume
from making import AudioPlan, make_audio, make_video, read_number
from servers import range_server


@pytest.fixture(scope="module")
def video(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("media") / "shift.mp4"
    make_video(path, duration=80.0, clicks=[9.0, 25.0, 41.3, 57.0], fps=10, group=20)
    return path


def plan(url: str | None = None, *, limits: Limits | None = None, **choices) -> Session:
    captioner = OpenAICaptioner(url, "scripted") if url else TagsCaptioner()
    chosen = {"frontline": "flux", "limits": limits or Limits(), "workers": 1}
    chosen |= {"sounds": False, "pictures": False}
    return open_session(captioner=captioner, **chosen | choices)


def picks(done: CaptionResult) -> list[RunPick]:
    with Run(done.folder) as run:
        return [row for recording in run.recordings() for row in run.picks(recording.id)]


def test_nothing_is_expected_of_a_silent_run(tmp_path):
    path = make_video(tmp_path / "mute.mp4", duration=24.0, has_audio=False)
    done = caption([path], settings=plan(budget="3"), run=tmp_path / "run")
    assert (done.totals.picks, done.totals.expected, done.totals.touched) == (3, 0, 0)


def test_what_the_run_has_heard_is_not_listened_to_again(video, tmp_path):
    done = []
    for number in range(2):  # the second time with a cache that remembers nothing
        made = plan(budget="3", sounds=False, cache=tmp_path / f"cache{number}")
        done.append(
            (caption([video], settings=made, run=tmp_path / "run"), picks_of(tmp_path / "run"))
        )
    assert not list((tmp_path / "cache1").rglob("*.npz"))
    assert done[0][1] == done[1][1]
    assert done[0][0].totals == done[1][0].totals


def picks_of(folder: Path) -> list[RunPick]:
    with Run(folder) as run:
        return [row for recording in run.recordings() for row in run.picks(recording.id)]


def test_another_prompt_asks_again_and_keeps_the_old_answers(video, tmp_path):

    with fault_server() as server:
        caption([video], settings=plan(server.url, budget="2"), run=tmp_path)
        other = "What is in the picture at $times?"
        done = caption([video], settings=plan(server.url, budget="2", prompt=other), run=tmp_path)
        assert server.count() == 4
    with Run(tmp_path) as run:
        (recording,) = run.recordings()
        for row in run.picks(recording.id):
            assert len(run.answers(recording.id, row.span)) == 2
    assert done.totals.answered == 2


def test_the_instant_is_what_is_shown(video, tmp_path):
    """One picture a call, the one at the highest-scoring instant; the picture says its number."""
    shown = []

    class Shows(TagsCaptioner):
        def __call__(self, request, *, timeout):
            shown.append((request.times, request.frames))
            return super().__call__(request, timeout=timeout)

    caption([video], run=tmp_path, budget="3", frontline="flux", captioner=Shows())
    assert len(shown) == 3
    for (moment,), (frame,) in shown:
        assert read_number(frame.rgb) == int(moment * 10)


def test_more_frames_are_spread_over_the_window(video, tmp_path):
    with fault_server() as server:
        done = caption([video], settings=plan(server.url, budget="2", frames=4), run=tmp_path)
    assert done.totals.frames_sent == 8
    assert done.totals.frames_decoded <= 2 * 60


def test_an_answer_that_cannot_be_used_is_counted_and_paid_for(video, tmp_path):
    limits = Limits(retries=0, concurrency=1, input_price=1.0, output_price=2.0)
    with fault_server("empty", "malformed", "ok") as server:
        done = caption([video], settings=plan(server.url, budget="3", limits=limits), run=tmp_path)
    assert (done.tally.answered, done.tally.failed) == (1, 2)
    # The empty answer says what it cost; of the one that breaks off the most is counted.
    assert done.tally.guessed == 1
    assert (done.totals.prompt_tokens > 1000, done.totals.completion_tokens) == (True, 20 + 256)
    assert done.totals.spend == pytest.approx(done.tally.spend)


def test_an_answer_cut_at_the_longest_allowed_is_kept_and_said_to_be_cut(video, tmp_path):
    with fault_server(then="length") as server:
        done = caption([video], settings=plan(server.url, budget="1"), run=tmp_path)
    (row,) = picks(done)
    assert row.answer is not None
    assert (row.status, row.answer.finish) == ("answered", "length")
    assert '"finish":"length"' in done.page.read_text(encoding="utf-8")
    assert "1 answer cut off at the longest allowed; --answer-tokens" in "".join(done.warnings())


def test_windows_that_cannot_be_decoded_are_rows_and_no_calls(video, tmp_path):
    """The file goes away after it was heard; more windows than failures end a run for a server."""
    copy = tmp_path / "gone.mp4"
    copy.write_bytes(video.read_bytes())
    limits = Limits(most_failures=3)
    with fault_server() as server:
        done = caption(
            [copy, video],
            settings=plan(server.url, budget="5", limits=limits),
            run=tmp_path / "run",
            progress=Progress(lambda now: now.calls and copy.unlink(missing_ok=True)),
        )
        assert server.count() == 5
    assert (done.tally.answered, done.tally.failed, done.tally.attempts) == (5, 5, 5)
    assert (done.totals.asked, done.totals.failed) == (5, 5)
    assert done.tally.stopped is None
    assert "gone.mp4" in done.tally.last_reason


def test_a_recording_without_pictures_is_a_row_and_takes_no_call(video, tmp_path):
    sound = make_audio(tmp_path / "dictation.wav", duration=20.0, clicks=[5.0])
    with fault_server() as server:
        made = plan(server.url, budget="4", across=True)
        done = caption([sound, video], settings=made, run=tmp_path / "run")
        assert server.count() == 4
    assert (done.missed, done.tally.failed, done.totals.answered) == (1, 0, 4)
    with Run(tmp_path / "run") as run:
        (missed,) = run.failed_recordings()
    assert "dictation.wav has sound but no video" in missed.reason


def test_why_a_call_failed_says_where_and_what_was_tried(video, tmp_path):
    with fault_server("429:5000") as server:
        asked = plan(server.url, budget="1")
        done = caption([video], settings=asked, run=tmp_path / "one")
        assert server.count() == 1
    assert "shift.mp4 at " in done.tally.last_reason
    assert "left alone for 5000 s" in done.tally.last_reason
    with fault_server(then="503:0") as server:
        asked = plan(server.url, budget="1", limits=Limits(retries=1))
        done = caption([video], settings=asked, run=tmp_path / "two")
    assert done.tally.last_reason.endswith("answered 503: scripted (asked 2 times)")


def test_a_recording_that_is_named_in_two_ways_is_missed_once(video, tmp_path, monkeypatch):
    gone = tmp_path / "gone.mp4"
    monkeypatch.chdir(tmp_path)
    for name in ("gone.mp4", gone):
        caption([video, name], settings=plan(), run=tmp_path / "run")
    with Run(tmp_path / "run") as run:
        assert [missed.path for missed in run.failed_recordings()] == [str(gone)]


def test_a_recording_mended_later_is_no_longer_missed(video, tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"")
    first = caption([path], settings=plan(), run=tmp_path / "run")
    path.write_bytes(video.read_bytes())
    second = caption([path], settings=plan(), run=tmp_path / "run")
    assert (first.missed, second.missed) == (1, 0)
    with Run(tmp_path / "run") as run:
        assert run.failed_recordings() == []
        assert len(run.recordings()) == 1


@pytest.mark.parametrize("retry", [False, True])
def test_a_recording_that_failed_and_was_deleted_is_forgotten(video, tmp_path, retry):
    folder = tmp_path / "card"
    folder.mkdir()
    (folder / "a.mp4").write_bytes(video.read_bytes())
    (folder / "broken.mp4").write_bytes(b"")
    first = caption([folder], settings=plan(), run=tmp_path / "run")
    (folder / "broken.mp4").unlink()
    second = caption([folder], settings=plan(), run=tmp_path / "run", retry_failed=retry)
    assert (first.missed, second.missed) == (1, 0)
    assert "broken.mp4" not in second.page.read_text(encoding="utf-8")


def test_a_recording_that_is_away_stays_in_the_report_when_other_options_are_given(video, tmp_path):
    card, away = tmp_path / "card", tmp_path / "away.mp4"
    card.mkdir()
    for name in ("a.mp4", "b.mp4"):
        (card / name).write_bytes(video.read_bytes() + name.encode())  # not the same recording

    def picked(paths: list[Path], budget: str) -> tuple[list[int], int]:
        done = caption(paths, settings=plan(server.url, budget=budget), run=tmp_path / "run")
        with Run(tmp_path / "run") as run:
            counts = [len(list(run.picks(row.id))) for row in run.recordings()]
            assert all(run.choice(row.id).rule for row in run.recordings())
        assert done.totals.answered == sum(counts)
        return counts, server.count()

    with fault_server() as server:
        assert picked([card], "2") == ([2, 2], 4)
        (card / "b.mp4").rename(away)
        for paths in ([card], [card, card / "b.mp4"]):
            assert picked(paths, "3") == ([3, 2], 5)
        assert picked([card], "4") == ([4, 2], 6)
        away.rename(card / "b.mp4")
        assert picked([card], "4") == ([4, 4], 8)
        assert picked([card / "a.mp4"], "2") == ([2, 2], 8)


def test_without_a_model_picks_and_pictures_are_kept_and_captions_are_not_asked(video, tmp_path):
    done = caption([video], settings=plan(), run=tmp_path)
    rows = picks(done)
    assert {row.status for row in rows} == {"not asked"}
    with Run(tmp_path) as run:
        (recording,) = run.recordings()
        assert all(run.thumbnail(recording.id, row.span) for row in rows)


def test_a_disk_that_fills_up_in_the_middle_costs_no_answer(video, tmp_path, small_disk):
    folder, filler = small_disk / "run", small_disk / "filler"

    def fill(progress):
        if progress.answered >= 3 and not filler.exists():
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(512))

    with fault_server() as server:
        made = plan(server.url, budget="15", limits=Limits(concurrency=2))
        with pytest.raises(RunError, match="no room left for the run"):
            caption([video], settings=made, run=folder, progress=Progress(fill))
        with Run(folder) as run:
            kept = run.totals()
        assert 3 <= kept.answered == kept.asked == server.count() < 15
        filler.unlink()
        done = caption([video], settings=made, run=folder)
        assert server.count() == 15
    assert (done.totals.answered, done.interrupted) == (15, 0)


def test_a_cap_on_calls_holds_over_every_process_of_a_run(video, tmp_path):
    """Nothing is asked by the same command again; failures count, and tags do not."""
    caption([video], settings=plan(budget="6"), run=tmp_path)
    with fault_server("400") as server:
        for most, calls in [(2, 2), (2, 2), (5, 5), (4, 5)]:
            made = plan(server.url, budget="8", limits=Limits(max_calls=most, concurrency=1))
            done = caption([video], settings=made, run=tmp_path)
            assert server.count() == calls
            assert f"the cap on calls, {most}, is reached" == done.tally.stopped
        merged = tmp_path / "merged"
        merge([tmp_path], into=merged)
        done = caption([video], settings=made, run=merged)
        assert (server.count(), done.totals.answered) == (5, 4)


def test_a_run_that_goes_on_knows_which_track_was_heard(tmp_path):
    path = make_video(tmp_path / "two.mp4", duration=40.0, audio=(AudioPlan(), AudioPlan((9.0,))))
    made = open_session(
        [path], frontline="flux", captioner=TagsCaptioner(), cache=tmp_path / "cache"
    )
    caption(settings=made, run=tmp_path / "run", budget="2")
    (tmp_path / "cache").rename(tmp_path / "gone")
    with Run(tmp_path / "run", {}) as ledger:
        found, _ = listen_and_store(
            made.sources(), made.listening, ledger, InProcessBackend(), now := Progress()
        )
        anew = open_session(settings=made, cache=None).listening
        listen_and_store(made.sources(), anew, ledger, InProcessBackend(), again := Progress())
    assert [one.audio_track for one in found.values()] == [1]
    assert (now.unchanged, again.unchanged) == (1, 0), "without a cache it is listened to anew"


def test_a_preview_reads_a_run_that_is_being_written(video, tmp_path):
    """What is in the log and not yet in the file counts; the run itself stays as it is."""
    with fault_server() as server:
        made = plan(server.url, budget="2")
        caption([video], settings=made, run=tmp_path)
        with Run(tmp_path, {"another": 1}):
            assert (tmp_path / "run.db-wal").exists()
            before = {path.name: path.read_bytes() for path in tmp_path.glob("run.db*")}
            assert preview([video], settings=made, run=tmp_path).kept == 2
            after = {path.name: path.read_bytes() for path in tmp_path.glob("run.db*")}
        assert {**after, "run.db-shm": b""} == {**before, "run.db-shm": b""}


def test_a_preview_keeps_to_the_caps_and_to_what_is_left_of_them(video, tmp_path):
    price = {"input_price": 1.0, "output_price": 2.0}
    with fault_server() as server:
        caption([video], settings=plan(server.url, budget="2"), run=tmp_path)

        def most(**caps):
            made = plan(server.url, budget="8", limits=Limits(**price, **caps))
            return preview([video], settings=made, run=tmp_path)

        assert (most(max_calls=5).calls, most(max_calls=1).calls) == (3, 0)
        assert most(max_calls=5).kept == most().kept == 2
        assert most(max_calls=5).tokens == pytest.approx(most().tokens / 2, rel=0.1)
        assert 0 < most(max_tokens=3000).tokens < 3000 < most().tokens
        assert most(max_spend=0.001).money == 0.001 < most().money
        assert most(max_tokens=3000).calls == 6, "a call may take less than the most"


def test_a_preview_without_a_model_is_that_of_one(video, tmp_path):
    caption([video], settings=plan(budget="2"), run=tmp_path)
    assert preview([video], settings=plan(budget="2"), run=tmp_path).calls == 2


def test_a_preview_without_a_model_knows_what_the_runs_own_model_has_answered(video, tmp_path):
    with fault_server() as server:
        caption([video], settings=plan(server.url, budget="3"), run=tmp_path)
        cost = preview([video], settings=plan(budget="5"), run=tmp_path)
    assert (cost.calls, cost.kept) == (2, 3)


@pytest.mark.parametrize("usage", ["ok", "nousage"])
def test_a_cap_on_spend_holds_over_every_process_of_a_run(video, tmp_path, usage):
    """The same command again spends nothing more; a higher cap goes on where it stopped."""
    prices = Limits(input_price=1.0, output_price=1.0, concurrency=1)
    with fault_server(then=usage) as server:
        asked = plan(server.url, budget="8", limits=prices)
        most = preview([video], settings=asked, run=tmp_path / "none").money / 8
        each = most if usage == "nousage" else 110e-6
        for room, calls in [(1.5, 2), (1.5, 2), (3.5, 4)]:
            capped = open_session((), asked, max_spend=most + room * each)
            done = caption([video], settings=capped, run=tmp_path / "run")
            assert server.count() == calls
            assert done.totals.spend == pytest.approx(calls * each, rel=0.05)
            assert "is reached" in str(done.tally.stopped)
        tokens = open_session((), asked, max_tokens=round(1e6 * most) + 200)
        assert caption([video], settings=tokens, run=tmp_path / "run").tally.calls == 0


def test_attempts_that_break_off_are_spent_for_every_process_of_a_run(video, tmp_path):
    """Each may have been charged for: the run has no room for a third, today or tomorrow."""
    prices = Limits(input_price=1.0, output_price=1.0, concurrency=1)
    with fault_server(then="cut") as server:
        asked = plan(server.url, budget="8", limits=prices)
        most = preview([video], settings=asked, run=tmp_path / "none").money / 8
        capped = open_session((), asked, max_spend=2.5 * most)
        for lost in (2, 0):
            done = caption([video], settings=capped, run=tmp_path / "run")
            assert (server.count(), done.tally.guessed) == (2, lost)
            assert done.totals.spend == pytest.approx(2 * most, rel=0.05)
            assert "is reached" in str(done.tally.stopped)
    with fault_server() as server:
        asker = OpenAICaptioner(server.url, "scripted")
        higher = open_session((), asked, max_spend=9.5 * most, captioner=asker)
        done = caption([video], settings=higher, run=tmp_path / "run")
        assert done.totals.answered == server.count() > 0


WORDS = ("caption", "--frontline", "flux", "--budget", "40%", "--no-sounds", "--no-pictures")
COMMAND = fresh_command(*WORDS)


@pytest.mark.slow
def test_killed_at_random_nothing_kept_is_asked_again(video, tmp_path):
    """SIGKILL over and over; in the end every window is answered, and what was kept never twice."""
    with fault_server(then="hold") as server:
        words = [*WORDS, str(video), "--model", f"{server.url}#scripted"]
        words += ["--concurrency", "2", "--no-cache"]
        kill_and_resume(words, tmp_path / "run", server, kills=7, windows=8)


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_keeps_what_is_in_flight(video, tmp_path, signal_sent):
    """Ctrl-C, or what a batch scheduler sends: nothing new is asked, what was asked is kept."""
    with fault_server(then="hold") as server:
        words = [*COMMAND, str(video), "--run", str(tmp_path), "--model", server.url]
        child = subprocess.Popen(
            [*words, "--concurrency", "2", "--no-cache"],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,  # noqa: PLW1509
        )
        while server.count() < 2:
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(signal_sent)
        while child.poll() is None:  # what it asks before it heeds the signal is answered as well
            time.sleep(0.5)
            server.release(2)
        _, said = child.communicate()
        asked = server.count()
    with Run(tmp_path) as run:
        totals = run.totals()
    assert child.returncode == 130
    assert (
        said.strip() == "earmark: stopped; finished work is kept; run the same command to continue"
    )
    assert 2 <= totals.answered == totals.asked == asked < 8
    with Run(tmp_path, {}) as ledger:
        assert ledger.interrupted == 0, "no call is in doubt"


def test_only_calls_that_were_sent_are_in_flight(video, tmp_path):
    """Those that are queued behind them are not: a crash leaves nothing in doubt but what was."""
    with fault_server(then="hold") as server:
        words = [*COMMAND, str(video), "--run", str(tmp_path), "--model", server.url]
        child = subprocess.Popen([*words, "--concurrency", "2", "--no-cache"])
        while server.count() < 2:
            assert child.poll() is None
            time.sleep(0.01)
        time.sleep(0.5)  # in which others are decoded and queued
        child.kill()
        child.wait()
        assert server.count() == 2
    with Run(tmp_path, {}) as ledger:
        assert ledger.interrupted == 2
        assert ledger.spent().calls_before == 2


IN_A_HURRY = """
import json, os, signal, sys, threading, time, urllib.request
from pathlib import Path
from earmark.cli import main
from earmark.run.run import Run
from earmark.run.schema import FILE

folder, model, media, *words = sys.argv[1:]

def read(url):
    with urllib.request.urlopen(url) as page:
        return json.load(page)

def until(is_so):
    while not is_so():
        time.sleep(0.01)

def awaits_answers():
    frame, names = sys._current_frames()[threading.main_thread().ident], set()
    while frame:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return "_await_all" in names

def kept():
    with Run(Path(folder)) as run:
        return run.totals().answered

def interrupt_twice():
    until(lambda: read(model + "/count")["count"] == 2 and read(media + "?stats")["stalled"])
    os.kill(os.getpid(), signal.SIGINT)
    until(awaits_answers)
    read(model + "/release/1")
    until(kept)
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt_twice, daemon=True).start()
sys.argv[1:] = words
main()
"""


def test_the_second_control_c_waits_neither_for_answers_nor_for_frames(video, tmp_path):
    """One call is never answered and one window never decoded; what has arrived is kept."""
    shutil.copy(video, tmp_path / "far.mp4")
    with range_server(tmp_path) as media:
        open_recording(media.url("far.mp4"))
        requests = media.stats()["requests"]
    run = tmp_path / "run"
    with (
        fault_server(then="hold") as model,
        range_server(tmp_path, fault=f"stall:{requests}") as media,
    ):
        command = [sys.executable, "-c", IN_A_HURRY, str(run), model.url.removesuffix("/v1")]
        command += [media.url(), "caption", str(video), media.url("far.mp4"), "--run", str(run)]
        command += ["--rule", "uniform", "--budget", "2", "--workers", "1", "--no-cache"]
        command += ["--model", model.url, "--concurrency", "2", "--no-sounds", "--no-pictures"]
        child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert child.returncode == 130, child.stderr
    assert "finished work is kept" in child.stderr
    with Run(run) as kept:
        assert kept.totals().answered == 1
    with Run(run, {}) as ledger:
        assert ledger.interrupted == 1, "the other is in doubt"


def test_an_answer_is_in_the_ledger_while_a_frame_is_still_awaited(video, tmp_path):
    """The far file's bytes are withheld until others have read the near one's answer."""
    shutil.copy(video, tmp_path / "far.mp4")
    run = tmp_path / "run"
    with range_server(tmp_path) as media:
        open_recording(media.url("far.mp4"))
        requests = media.stats()["requests"]
    with (
        fault_server() as model,
        range_server(tmp_path, fault=f"stall:{requests}") as media,
        ThreadPoolExecutor(1) as pool,
    ):
        whom = OpenAICaptioner(model.url, "scripted")
        choices = {"budget": "1", "workers": 1, "sounds": False, "pictures": False}
        made = open_session(captioner=whom, rule="uniform", **choices)
        try:
            done = pool.submit(caption, [video, media.url("far.mp4")], settings=made, run=run)
            while not (media.stats()["stalled"] and run.exists() and answered(run)):
                assert not done.done(), done.result()
                time.sleep(0.01)
            assert (answered(run), done.done()) == (1, False)
        finally:
            media.release()
        assert done.result().totals.answered == 2


def answered(run: Path) -> int:
    """Answers that another connection finds in a ledger."""
    with closing(sqlite3.connect(run / FILE)) as database, suppress(sqlite3.Error):
        return database.execute("SELECT count(*) FROM answers").fetchone()[0]
    return 0


def heed_interrupts() -> None:
    """Ctrl-C ends a process even where whoever started the tests had it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_model_that_accepts_no_temperature_is_asked_without(video, tmp_path):
    with fault_server(then="warm") as server:
        words = (*WORDS, video, "--run", tmp_path, "--no-cache", "--model", server.url)
        done = earmark(*words, "--temperature", "server", "--answer-tokens", "99")
    assert done.code == 0, done.err
    with Run(tmp_path) as run:
        assert (run.plan()["ask"]["temperature"], run.plan()["ask"]["answer_tokens"]) == (None, 99)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--model", "http://127.0.0.1:9/v1#m"], "127.0.0.1:9"),
        (["--model", "gguf:missing.gguf#missing-mmproj.gguf"], "missing.gguf"),
        (["--model", "gguf:missing.gguf"], "no model at missing.gguf"),
        (["--model", "m"], "--model: 'm' is no model: write http://HOST/v1#NAME"),
        (["--prompt", "missing.txt"], "missing.txt"),
        (["--max-spend", "1"], "prices"),
        (["--temperature", "warm"], "--temperature: should be a valid number"),
        (["--frames", "8", "--tokens", "5"], "5 visual tokens cannot hold 8 frames"),
        (["--concurrency", "0"], "--concurrency: should be greater than or equal to 1"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_1(video, tmp_path, options, complaint):
    done = earmark(*WORDS, video, "--run", tmp_path, "--no-cache", *options)
    assert done.code == 1
    assert complaint in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_path_with_nothing_there_is_one_line(tmp_path):
    done = earmark(*WORDS, tmp_path / "nothere.mp4", "--run", tmp_path / "run", "--no-cache")
    assert (done.code, done.out) == (1, "")
    assert len(done.err.strip().splitlines()) == 1
    assert "nothere.mp4 does not exist" in done.err


def test_a_model_that_a_cap_kept_from_being_asked_is_not_advised(video, tmp_path):
    with fault_server() as server:
        words = (*WORDS, video, "--run", tmp_path, "--no-cache", "--model", server.url)
        done = earmark(*words, "--max-calls", "0")
    assert (
        "the cap on calls, 0, is reached; run the same command with a higher cap to continue"
        in done.err
    )
    assert "gguf:" not in done.out
    assert "expected coverage once all" in done.out


def test_without_a_model_the_last_line_says_how_to_add_one(video, tmp_path):
    done = earmark(*WORDS, video, "--run", tmp_path, "--no-cache")
    assert "--model gguf:" in done.out.strip().splitlines()[-1]
