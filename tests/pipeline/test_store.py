"""Before anything is asked: what an archive takes, and that it is the same however it is read."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from archive_runs import windows_of
from earmark import Progress, Recording, Track
from earmark.gate.listener import Heard
from earmark.grid import ScoredRecording, scored_recording
from earmark.media import Source
from earmark.media.recording import AudioTrack, Part, VideoTrack
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.choose import RunJob, choose_tasks
from earmark.pipeline.listen import listen_and_store
from earmark.pipeline.session import Session, open_session
from earmark.run.run import Run
from earmark.run.tasks import Tasks

WINDOWS = 900


def imagined(source: Source) -> ScoredRecording:
    """An hour that was heard, drawn at random."""
    number = int(source.uris[0].rpartition("/")[2].removesuffix(".mp4"))
    seconds = WINDOWS * 4.0
    sound = AudioTrack("aac", 48_000, 1, None, 0.0, seconds)
    video = VideoTrack("h264", 1920, 1080, 30.0, 0, 0.0, seconds)
    part = Part(source.uris[0], 0.0, seconds, 0.0, True, (sound,), video, 1 << 30)
    key = f"{number:064x}"
    recording = Recording(source, seconds, "mov", 0, "index", "", 1 << 30, key, 9, (part,))
    level = Track(np.random.default_rng(number).normal(-40, 9, 18_000).astype(np.float32), hop=0.2)
    silent = Track(np.zeros(0, np.float32))
    heard = Heard(recording, "flux", silent, level, "index", 9, 1.0, ("odd",))
    return scored_recording(windows_of(number, WINDOWS), heard.compact())


class Imagined(InProcessBackend):
    """Hears what is imagined, backwards, as workers may."""

    def map(self, _, items) -> Iterator[tuple[Source, ScoredRecording]]:
        for source in reversed(items):
            yield source, imagined(source)


def archive(count: int) -> list[Source]:
    return [Source((f"s3://bucket/{number}.mp4",)) for number in range(count)]


def plan(budget: str, **choices) -> Session:
    return open_session(budget=budget, across=True, frontline="flux", **choices)


def prepare(sources: list[Source], made: Session, ledger: Run, backend=None) -> tuple[Tasks, int]:
    backend = backend or Imagined()
    recordings, missed = listen_and_store(sources, made.listening, ledger, backend, Progress())
    return choose_tasks(RunJob(made, "tags", recordings, ledger, backend)), missed


def test_what_was_heard_is_not_held(tmp_path: Path):
    made = plan("1%")
    with Run(tmp_path, made.run_json("tags")) as ledger:
        prepare(archive(2), made, ledger)
        tracemalloc.start()
        try:
            tasks, _ = prepare(archive(40), made, ledger)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(tasks) == 360
    assert held / 40 < 8_000, "bytes a recording; its windows and level alone are 36,000"


def test_tasks_can_be_gone_over_again_and_are_the_picks(tmp_path: Path):
    made = plan("2%")
    with Run(tmp_path, made.run_json("tags")) as ledger:
        tasks, missed = prepare(archive(5), made, ledger)
        first, second = list(tasks), list(tasks)
        with Run(ledger.folder) as run:
            picks = [
                (recording.id, row.start, row.instant)
                for recording in run.recordings()
                for row in run.picks(recording.id)
            ]
            assert run.choice(first[0].recording.key).notes == ("odd",)
    assert missed == 0
    assert len(tasks) == len(first) == 90
    assert first == second
    assert [
        (task.recording.key, task.request.span.start, task.request.times[0]) for task in first
    ] == picks
    assert any(task.request.tags for task in first)


def test_what_was_odd_is_told_again_when_nothing_is_heard_anew(tmp_path: Path):
    """Damaged packets show only while listening, so a resumed run takes them from the ledger."""
    made = plan("2%", cache=tmp_path / "cache")
    (source,) = archive(1)
    heard = imagined(source).heard.recording

    class Unchanged(InProcessBackend):
        def map(self, work, items):
            assert (items, work.keywords["known"]) == ([source], {source: (heard.key, 0)})
            return iter([(source, heard)])

    with Run(tmp_path, made.run_json("tags")) as ledger, Run(ledger.folder) as run:
        for backend in (Imagined(), Unchanged()):
            prepare([source], made, ledger, backend)
            assert run.choice(heard.key).notes == ("odd",)
