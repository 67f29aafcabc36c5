"""What becomes of each call is in the ledger, counted and told, and which calls are left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from earmark import Recording, Span, open_recording
from earmark.captioning.dispatch import Failure, Tally
from earmark.captioning.request import Question, Task
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.run.run import Run
from earmark.run.tasks import CallRecorder, Tasks
from earmark.settings import Limits
from making import make_video
from small_runs import answer, cell, fill, open_run

PRICES = Limits(input_price=1e4, output_price=1e5)


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Recording:
    path = tmp_path_factory.mktemp("media") / "a.mp4"
    return open_recording(make_video(path, duration=1.0, fps=5))


def tasks_of(ledger: Run, recording: Recording, **options) -> Tasks:
    return Tasks(Question(), "m1", ledger, {"a": recording}, {"a": 2, "b": 0}, **options)


def recorder(
    ledger: Run, recording: Recording, told: list[tuple[int, int]] | None = None
) -> tuple[CallRecorder, list[Task]]:
    """A recorder of two calls, which notes in `told` how far they had come."""

    def count(tally: Tally, calls: int) -> None:
        if told is not None:
            told.append((tally.calls, calls))

    log = CallRecorder(PRICES, ledger, ledger.spent(), 2, count)
    tasks = [log.add(task) for task in tasks_of(ledger, recording)]
    ledger.unanswered([task.request for task in tasks])
    return log, tasks


def statuses(ledger: Run) -> list[str]:
    with Run(ledger.folder) as run:
        return [row.status for row in run.picks("a")]


def test_the_picks_without_an_answer_are_the_calls_to_make(tmp_path: Path, recording: Recording):
    with open_run(tmp_path) as ledger:
        every = tasks_of(ledger, recording)
        assert (len(every), [task.request.span for task in every]) == (2, [cell(1), cell(3)])
        lost = tasks_of(ledger, recording, lost=[("a", cell(3)), ("b", cell(1))])
        assert [task.request.span for task in lost] == [cell(1)]
        fill(ledger, {1: "a mallet falls"})
        (left,) = every
        assert (left.request.span, left.recording) == (cell(3), recording)


def test_an_answer_is_kept_with_its_cost_and_told(tmp_path: Path, recording: Recording):
    with open_run(tmp_path) as ledger:
        log, (task, other) = recorder(ledger, recording, told := [])
        found = EvidenceEntry(Span(5.0, 6.0), "read", "EXIT", 0.9, "reader")
        log.begin(task.request)
        assert statuses(ledger) == ["in flight", "not asked"]
        with log.together():
            log.answered(task.request, answer("stirs", evidence=(found,)))
            assert statuses(ledger) == ["in flight", "not asked"], "once for all within"
        assert statuses(ledger) == ["answered", "not asked"]
        assert list(log.tasks.values()) == [other]
        assert told == [(0, 2)] * 2  # sent, answered
        with Run(ledger.folder) as run:
            assert run.picks("a")[0].spend == pytest.approx(2.0)
            assert list(run.evidence("a")) == [found]
        again = CallRecorder(PRICES, ledger, ledger.spent(), 2)
        assert (again.tally.calls_before, again.tally.tokens_before) == (1, 110)
        assert again.tally.spend_before == pytest.approx(2.0)


def test_evidence_of_one_window_leaves_that_of_others(tmp_path: Path, recording: Recording):
    with open_run(tmp_path) as ledger:
        log, tasks = recorder(ledger, recording)
        for task, text in zip(tasks, ("EXIT", "OPEN"), strict=True):
            found = EvidenceEntry(task.request.span, "read", text, 0.9, "reader")
            log.note_evidence(task.request, (found,))
        log.note_evidence(tasks[0].request, ())
        with Run(ledger.folder) as run:
            assert [one.text for one in run.evidence("a")] == ["EXIT", "OPEN"]


def test_a_failure_is_kept_with_its_reason_and_what_it_cost(tmp_path: Path, recording: Recording):
    with open_run(tmp_path) as ledger:
        log, (task, other) = recorder(ledger, recording, told := [])
        log.begin(task.request)
        log.failed(Failure(task.request, "no JSON", 1, 100, 10))
        log.failed(Failure(other.request, "cut off", 0))
        assert statuses(ledger) == ["failed", "failed"]
        assert log.unanswered == {("a", cell(1)), ("a", cell(3))}
        assert log.tasks == {}
        assert log.tally.last_reason == f"{other}: cut off"
        assert told == [(0, 2)] * 3  # sent, failed, failed
        with Run(ledger.folder) as run:
            assert [row.failure for row in run.picks("a")] == ["no JSON", "cut off"]
        spent = ledger.spent()
        assert (spent.calls_before, spent.tokens_before, spent.spend_before) == (
            1,
            110,
            pytest.approx(2.0),
        )


def test_an_attempt_that_broke_off_is_spent_and_its_call_is_still_in_flight(
    tmp_path: Path, recording: Recording
):
    with open_run(tmp_path) as ledger:
        log, (task, _) = recorder(ledger, recording)
        request = task.request
        log.begin(request)
        log.lost(request, was_sent=True)
        assert statuses(ledger) == ["in flight", "not asked"]
        most = sum(request.most_tokens)
        assert ledger.spent().tokens_before == most
        log.answered(request, answer("stirs"))
        assert statuses(ledger) == ["answered", "not asked"]
        spent = ledger.spent()
        assert (spent.calls_before, spent.tokens_before) == (1, most + 110)
        assert spent.spend_before == pytest.approx(PRICES.price(*request.most_tokens) + 2.0)


def test_what_was_not_sent_is_as_if_it_had_not_begun(tmp_path: Path, recording: Recording):
    with open_run(tmp_path) as ledger:
        log, (task, _) = recorder(ledger, recording)
        log.begin(task.request)
        log.withdraw(task.request)
        assert statuses(ledger) == ["not asked", "not asked"]
        assert task.request.identity not in log.tasks


def test_a_call_in_doubt_counts_at_the_most_it_can_have_taken(tmp_path: Path, recording: Recording):
    with open_run(tmp_path) as ledger:
        log, (task, _) = recorder(ledger, recording)
        log.begin(task.request)
    with Run(tmp_path, {}) as ledger:
        tally = CallRecorder(PRICES, ledger, ledger.spent(), 2).tally
        most = task.request.most_tokens
        assert (tally.calls_before, tally.tokens_before) == (1, sum(most))
        assert tally.spend_before == pytest.approx(PRICES.price(*most))
        assert replace(tally, calls_before=0, tokens_before=0, spend_before=0.0) == Tally()
