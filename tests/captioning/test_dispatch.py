"""Many requests at once, against servers that misbehave."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from earmark import EarmarkError
from earmark.captioning import chat_protocol
from earmark.captioning.captioner import TagsCaptioner
from earmark.captioning.dispatch import QUEUED_AHEAD, Failure, Tally, backoff, cost_of, dispatch
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.request import Answer, Request
from earmark.errors import CallRejected, CallTimeout, UnreadableAnswer, UnreadableFile
from earmark.redaction import map_texts
from earmark.settings import Limits
from earmark.text_format import CURRENCY
from fault_server import fault_server
from stills import ask_about


def requests(count: int, *, model: str = "scripted") -> Iterator[Request]:
    return (ask_about((4.0 * n,), model=model, answer_tokens=10) for n in range(count))


@dataclass
class Outcome:
    """A log that remembers what it was told."""

    begun: list[float] = field(default_factory=list)
    withdrawn: list[float] = field(default_factory=list)
    broken: list[float] = field(default_factory=list)
    uncounted: list[float] = field(default_factory=list)
    answers: dict[float, Answer] = field(default_factory=dict)
    failures: dict[float, str] = field(default_factory=dict)
    attempts: dict[float, int] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)

    def begin(self, request):
        self.begun.append(request.span.start)

    def together(self):
        return nullcontext()

    def withdraw(self, request):
        self.withdrawn.append(request.span.start)

    def lost(self, request, *, was_sent):
        (self.broken if was_sent else self.uncounted).append(request.span.start)

    def answered(self, request, answer):
        self.answers[request.span.start] = answer
        self.attempts[request.span.start] = answer.attempts

    def failed(self, failure):
        self.failures[failure.request.span.start] = failure.reason
        self.attempts[failure.request.span.start] = failure.attempts

    def of(self, asked, captioner, limits, **options):
        options = {"sleep": self.waits.append, **options}
        return dispatch(asked, captioner, limits, self, **options)


def run(*behaviours, count=1, limits=None, **script):
    """What comes of `count` requests to a server so scripted; and how often it was asked."""
    outcome = Outcome()
    with fault_server(*behaviours, **script) as server:
        captioner = OpenAICaptioner(server.url, "scripted")
        tally = outcome.of(requests(count), captioner, limits or Limits(concurrency=1))
        return outcome, tally, server.count()


@dataclass
class Scripted:
    """A captioner that does what it is told, for what a server cannot show."""

    does: object
    model: str = "scripted"
    at_once: int | None = None

    def check(self):
        pass

    def __call__(self, request, *, timeout):  # noqa: ARG002
        return self.does(request)


def test_every_request_is_answered_once():
    outcome, tally, count = run(count=20, limits=Limits(concurrency=4))
    assert sorted(outcome.answers) == [4.0 * n for n in range(20)]
    assert (tally.calls, tally.answered, tally.failed, tally.attempts, count) == (20, 20, 0, 20, 20)
    assert tally.tokens == 20 * 110 and tally.stopped is None
    assert sorted(outcome.begun) == sorted(outcome.answers) and outcome.withdrawn == []


@dataclass
class Grouped(Outcome):
    """Writes the first of its groups only when every other answer has arrived."""

    everyone: threading.Event = field(default_factory=threading.Event)
    groups: list[int] = field(default_factory=list)

    @contextmanager
    def together(self):
        before = len(self.answers)
        yield
        assert self.groups or self.everyone.wait(60)
        self.groups.append(len(self.answers) - before)


def test_answers_that_arrive_while_one_is_written_are_written_together():
    log, lock, arrived = Grouped(), threading.Lock(), list[str]()

    def answer(request):
        with lock:
            arrived.append(request.identity)
        if len(arrived) == 6:
            log.everyone.set()
        return Answer(text="seen", model="m", prompt_tokens=1, completion_tokens=1)

    started = threading.Barrier(6, timeout=60)
    both = Scripted(lambda request: started.wait() >= 0 and answer(request))
    log.of(requests(6), both, Limits(concurrency=6))
    assert sum(log.groups) == len(log.answers) == 6
    assert len(log.groups) <= 3  # the first, those that came meanwhile, and who was just too late


@pytest.mark.parametrize("fault", ["429", "500", "502", "503", "cut", "drop"])
def test_passing_faults_are_asked_again(fault):
    outcome, tally, count = run(fault, fault, "ok")
    assert outcome.attempts == {0.0: 3} and count == 3
    assert (tally.answered, tally.attempts) == (1, 3)
    first, second = outcome.waits
    assert 0.25 <= first <= 0.5 <= second <= 1.0  # doubled, and shortened by up to half


def test_a_time_out_is_asked_again():
    limits = Limits(concurrency=1, timeout=0.3, retries=99)  # a busy machine may need a few
    outcome, tally, _ = run("slow:1", "ok", limits=limits)
    assert outcome.attempts[0.0] >= 2 and tally.answered == 1


@pytest.mark.parametrize("fault", ["400", "401", "404", "malformed", "html", "empty"])
def test_lasting_faults_are_not(fault):
    outcome, tally, count = run(fault)
    assert count == 1 and outcome.waits == [] and outcome.answers == {}
    assert (tally.failed, tally.attempts) == (1, 1)
    assert outcome.failures[0.0]


def test_a_server_that_never_recovers_fails_with_its_reason():
    outcome, tally, count = run(then="503", limits=Limits(concurrency=1, retries=2))
    assert count == tally.attempts == 3 and tally.failed == 1
    assert "answered 503" in outcome.failures[0.0] and outcome.attempts == {0.0: 3}


def test_one_bad_item_does_not_end_the_run():
    outcome, tally, _ = run("ok", "400", "malformed", "ok", count=4)
    assert sorted(outcome.answers) == [0.0, 12.0] and sorted(outcome.failures) == [4.0, 8.0]
    assert (tally.answered, tally.failed) == (2, 2)


def test_retry_after_is_honoured():
    outcome, _, _ = run("429:7", "ok")
    assert outcome.waits == [7.0]


def test_a_wait_that_is_too_long_is_a_failure():
    outcome, _, count = run("429:3600", "ok")
    assert count == 1 and outcome.waits == []
    assert "429" in outcome.failures[0.0]


def test_waits_double_up_to_the_longest():
    limits = Limits(longest_wait=4.0)
    waits = [backoff(limits, n, retry_after=None) for n in range(1, 8)]
    tops = [0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0]
    assert all(top / 2 <= wait <= top for wait, top in zip(waits, tops, strict=True))
    assert backoff(limits, 1, retry_after=3.0) == 3.0
    many = [backoff(limits, 1, retry_after=0.1) for _ in range(500)]
    assert 0.25 <= min(many) < 0.3 and 0.45 < max(many) <= 0.5, "shortened by up to half"


def test_concurrency_is_reached_and_not_passed():
    def release_once_five_wait(server):
        while server.count() < 5:
            time.sleep(0.01)
        server.release(30)

    with fault_server(then="hold") as server:
        outcome = Outcome()
        captioner = OpenAICaptioner(server.url, "scripted")
        threading.Thread(target=release_once_five_wait, args=(server,)).start()
        outcome.of(requests(30), captioner, Limits(concurrency=5, timeout=600))
        assert server.seen()["peak"] == 5


def test_requests_are_taken_only_as_workers_come_free():
    taken, most, outcome = 0, 0, Outcome()

    def counting():
        nonlocal taken, most
        for request in requests(40):
            taken += 1
            most = max(most, taken - len(outcome.answers))
            yield request

    captioner = Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    outcome.of(counting(), captioner, Limits(concurrency=3))
    assert taken == len(outcome.answers) == 40
    assert most <= 3 + QUEUED_AHEAD + 1  # in flight, queued, in hand


def test_an_outcome_is_logged_at_once_and_not_when_the_next_request_is_made():
    logged = threading.Event()

    class Watched(Outcome):
        def answered(self, request, answer):
            super().answered(request, answer)
            logged.set()

    def slow():
        yield from requests(1)
        assert logged.wait(60), "the next request waits for the answer to be logged"

    captioner = Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    assert Watched().of(slow(), captioner, Limits(concurrency=4)).answered == 1


def test_only_calls_in_flight_have_begun():
    """Those that are queued are not said to be sent."""
    outcome, is_asked, go_on = Outcome(), threading.Event(), threading.Event()

    def does(_):
        is_asked.set()
        assert go_on.wait(60)
        return Answer("A hand stirs.", "scripted")

    def queued():
        yield from requests(4)
        assert is_asked.wait(60)
        assert outcome.begun == [0.0]
        go_on.set()

    outcome.of(queued(), Scripted(does), Limits(concurrency=1))
    assert outcome.begun == sorted(outcome.answers) == [0.0, 4.0, 8.0, 12.0]


def test_the_log_is_written_by_one_thread_at_a_time():
    class Exclusive(Outcome):
        busy = threading.Lock()

        def answered(self, request, answer):
            assert self.busy.acquire(blocking=False), "another thread is writing"
            time.sleep(0.002)
            super().answered(request, answer)
            self.busy.release()

    captioner = Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    assert Exclusive().of(requests(40), captioner, Limits(concurrency=8)).answered == 40


def test_a_window_that_cannot_be_shown_is_a_failure_among_the_others():
    first, second, third = requests(3)
    unseen = Failure(second, "cannot be decoded", attempts=0)
    outcome, captioner = Outcome(), Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    tally = outcome.of([first, unseen, third], captioner, Limits(concurrency=1))
    assert outcome.failures == {4.0: "cannot be decoded"}
    assert sorted(outcome.answers) == outcome.begun == [0.0, 8.0]
    assert (tally.calls, tally.failed, tally.attempts, tally.failures_in_a_row) == (3, 1, 2, 0)


@pytest.mark.parametrize("most", [None, 0, 4, 9])
def test_tags_are_passed_on_as_if_somebody_were_asked_for_them(most):
    own, *rest = requests(7, model="tags")
    asked = [replace(own, tags=("drill", "voices")), Failure(rest[0], "cut off", 0), *rest[1:]]
    limits, tags = Limits(concurrency=1, max_calls=most), TagsCaptioner()
    here, there = Outcome(), Outcome()
    passed = here.of(asked, tags, limits)
    queued = there.of(asked, Scripted(lambda request: tags(request, timeout=1.0), "tags"), limits)
    assert passed == queued
    assert (here.answers, here.failures) == (there.answers, there.failures)
    assert here.begun == [], "nobody is asked"


def test_a_captioner_that_answers_at_once_is_called_in_turn_in_the_calling_thread():
    errors = {4.0: CallRejected("no"), 8.0: CallTimeout("late"), 12.0: UnreadableFile("cut")}
    errors[16.0] = UnreadableAnswer("blank", prompt_tokens=7, completion_tokens=1)
    calls = []

    def does(request):
        calls.append((request.span.start, threading.get_ident()))
        if request.span.start in errors:
            raise errors[request.span.start]
        return Answer("A hand stirs.", "scripted", prompt_tokens=0, completion_tokens=0)

    outcome = Outcome()
    tally = outcome.of(requests(6), Scripted(does, at_once=0), Limits())
    assert calls == [(4.0 * n, threading.get_ident()) for n in range(6)]
    assert sorted(outcome.answers) == [0.0, 20.0]
    assert outcome.failures == {4.0: "no", 8.0: "late (asked once)", 12.0: "cut", 16.0: "blank"}
    assert outcome.attempts == {0.0: 1, 4.0: 1, 8.0: 1, 12.0: 0, 16.0: 1, 20.0: 1}
    assert outcome.begun == [] and outcome.waits == []
    assert (tally.calls, tally.failed, tally.tokens) == (6, 4, 8)


def test_a_cap_on_calls_stops_and_says_so():
    outcome, tally, count = run(count=10, limits=Limits(concurrency=4, max_calls=3))
    assert len(outcome.answers) == tally.calls == count == 3
    assert tally.stopped == "the cap on calls, 3, is reached"


def test_what_is_held_and_what_was_spent_before_count_for_the_caps():
    held, request = list(requests(2)), next(requests(1))
    tally = Tally(calls=1, calls_before=1, prompt_tokens=100, tokens_before=50, spend_before=1.0)
    for limits, room in (
        (Limits(max_calls=5), True),
        (Limits(max_calls=4), False),
        (Limits(max_tokens=150 + 3 * 144), True),
        (Limits(max_tokens=150 + 3 * 144 - 1), False),
        (Limits(max_spend=1.0 + 3 * 2.34, input_price=1e4, output_price=1e5), True),
        (Limits(max_spend=0.99 + 3 * 2.34, input_price=1e4, output_price=1e5), False),
    ):
        exceeded_limit = tally.exceeded_limit(limits, held, request)
        assert (exceeded_limit is None) == room, limits


@pytest.mark.parametrize(("failed", "stops"), [(4, False), (5, True), (6, True)])
def test_failures_in_a_row_stop_at_the_most(failed, stops):
    tally = Tally(failures_in_a_row=failed, last_reason="busy")
    exceeded_limit = tally.exceeded_limit(Limits(most_failures=5), [], next(requests(1)))
    assert exceeded_limit == (f"{failed} calls in a row failed, the last: busy" if stops else None)
    assert tally.exceeded_limit(Limits(most_failures=None), [], next(requests(1))) is None


def test_a_cap_that_is_just_enough_stops_nothing():
    _, tally, _ = run(count=3, limits=Limits(concurrency=4, max_calls=3))
    assert tally.stopped is None


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_cap_on_tokens_is_never_passed(concurrency):
    # A call takes at most 64 + 6 + 64 + 10 = 144 tokens and really takes 110.
    limits = Limits(concurrency=concurrency, max_tokens=500)
    _, tally, count = run(count=10, limits=limits, latency=0.02)
    assert count == 4 and tally.tokens == 440
    assert (
        tally.stopped == "the cap of 500 tokens is reached: 440 are spent, and a call may take 144"
    )


@pytest.mark.parametrize("cap", ["max_calls", "max_tokens", "max_spend"])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_cap_that_caps_nothing_is_refused(cap, value):
    with pytest.raises(ValueError, match=rf"{cap}\n.*(greater than or equal to 0|finite)"):
        Limits(**{cap: value}, input_price=1.0)


def test_a_cap_on_money_is_never_passed():
    prices = {"input_price": 1e4, "output_price": 1e5}  # 100 tokens in and 10 out are 2.00
    limits = Limits(concurrency=8, max_spend=7.0, **prices)
    _, tally, count = run(count=10, limits=limits)
    assert tally.spend == pytest.approx(2.0 * count) and tally.spend <= 7.0 and count == 3
    assert (
        tally.stopped
        == f"the cap of 7.00 {CURRENCY} is reached: 6.00 is spent, and a call may cost 2.3400"
    )


def test_what_one_call_took_is_set_aside_for_the_next():
    """A model may count pictures in a way of its own."""
    captioner = Scripted(lambda _: Answer("Stirs.", "m", prompt_tokens=900, completion_tokens=9))
    tally = Outcome().of(requests(10), captioner, Limits(concurrency=1, max_tokens=3000))
    assert tally.calls == 3 and tally.tokens == 3 * 909


def test_more_than_was_asked_for_is_set_aside_for_the_next_too():
    captioner = Scripted(lambda _: Answer("Stirs.", "m", prompt_tokens=9, completion_tokens=900))
    tally = Outcome().of(requests(10), captioner, Limits(concurrency=1, max_tokens=3500))
    assert tally.calls == 3 and tally.tokens == 3 * 909


def test_what_the_run_has_spent_before_counts_for_the_caps_alone():
    prices = {"input_price": 1e4, "output_price": 1e5}  # 100 tokens in and 10 out are 2.00
    limits = Limits(concurrency=8, max_spend=7.0, **prices)
    outcome, tally = Outcome(), Tally(spend_before=4.0)
    with fault_server() as server:
        outcome.of(requests(9), OpenAICaptioner(server.url, "scripted"), limits, tally=tally)
        assert server.count() == 1
    assert tally.spend == pytest.approx(2.0)
    said = "is reached: 6.00 is spent, and a call may cost 2.3400"
    assert tally.stopped == f"the cap of 7.00 {CURRENCY} {said}"
    tokens = Outcome().of(
        requests(9),
        Scripted(lambda _: Answer("Stirs.", "m", prompt_tokens=100, completion_tokens=10)),
        Limits(concurrency=1, max_tokens=500),
        tally=Tally(tokens_before=300),
    )
    assert (tokens.calls, tokens.tokens) == (1, 110)
    assert (
        tokens.stopped == "the cap of 500 tokens is reached: 410 are spent, and a call may take 144"
    )


@pytest.mark.parametrize("said", [(None, None), (-100, 10), (100, None), (100, -(10**9))])
def test_usage_that_cannot_be_is_counted_at_its_reserve(said):
    taken, given = said
    answer = Answer("Stirs.", "m", prompt_tokens=taken, completion_tokens=given)
    tally = Outcome().of(requests(1), Scripted(lambda _: answer), Limits())
    assert tally.guessed == 1 and tally.tokens == 64 + 6 + 64 + 10


def test_an_answer_costs_what_the_server_says_or_the_most_it_can():
    (request,), limits = requests(1), Limits(input_price=1e4, output_price=1e5)
    told = Answer("Stirs.", "m", prompt_tokens=100, completion_tokens=10)
    assert cost_of(limits, request, told) == pytest.approx(2.0)
    assert cost_of(limits, request, Answer("Stirs.", "m")) == limits.price(*request.most_tokens)


def test_only_what_the_limits_have_room_for_has_begun():
    outcome = Outcome()
    captioner = Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    outcome.of(requests(9), captioner, Limits(concurrency=2, max_calls=3))
    assert outcome.begun == sorted(outcome.answers) == [0.0, 4.0, 8.0]


def test_what_a_cap_leaves_no_room_for_is_not_even_made():
    taken = []

    def counting():
        for request in requests(9):
            taken.append(request.span.start)
            yield request

    captioner = Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    Outcome().of(counting(), captioner, Limits(concurrency=2, max_calls=3))
    assert taken == [0.0, 4.0, 8.0, 12.0]


def test_a_tally_is_counted_on_and_up_to_date_when_an_answer_is_logged():
    tally, seen = Tally(calls=5), []

    class Watched(Outcome):
        def answered(self, request, answer):
            super().answered(request, answer)
            seen.append(tally.calls)

    captioner = Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    Watched().of(requests(3), captioner, Limits(concurrency=1), tally=tally)
    assert seen == [6, 7, 8]


def test_a_captioner_is_not_asked_more_at_once_than_it_can_do():
    most = in_flight = 0
    lock = threading.Lock()

    def does(_):
        nonlocal most, in_flight
        with lock:
            in_flight += 1
            most = max(most, in_flight)
        time.sleep(0.02)
        with lock:
            in_flight -= 1
        return Answer("A hand stirs.", "scripted")

    Outcome().of(requests(12), Scripted(does, at_once=2), Limits(concurrency=8))
    assert most == 2


def test_a_server_that_counts_nothing_is_charged_the_most():
    _, tally, _ = run("nousage", limits=Limits(concurrency=1))
    assert tally.guessed == 1 and tally.tokens == 64 + 6 + 64 + 10


@pytest.mark.parametrize(
    ("fault", "lost"), [("cut", 2), ("drop", 2), ("429", 0), ("500", 0), ("503", 0)]
)
def test_an_attempt_that_breaks_off_is_counted_at_the_most(fault, lost):
    """The server had the request and may charge for it; one that it refuses costs nothing."""
    outcome, tally, count = run(fault, fault, "ok")
    assert (count, tally.answered, tally.guessed) == (3, 1, lost)
    assert tally.tokens == 110 + lost * (64 + 6 + 64 + 10)
    assert outcome.broken == [0.0] * lost


def test_an_attempt_that_is_late_is_counted_and_one_that_never_arrives_is_not():
    limits = Limits(concurrency=1, timeout=0.3, retries=1)
    _, tally, _ = run(then="hold", limits=limits)
    assert (tally.failed, tally.attempts, tally.guessed) == (1, 2, 2)
    outcome, nobody = Outcome(), OpenAICaptioner("http://127.0.0.1:1", "scripted")
    tally = outcome.of(requests(1), nobody, limits)
    assert (tally.failed, tally.attempts, tally.tokens, outcome.broken) == (1, 2, 0, [])
    assert outcome.begun == outcome.uncounted == [0.0, 0.0]


def test_a_cap_holds_over_attempts_that_break_off():
    """Of 144 tokens each: two leave no room for a third, of this call or of another."""
    limits = Limits(concurrency=1, max_tokens=400)
    outcome, tally, count = run(then="drop", limits=limits)
    assert (count, tally.failed, tally.tokens) == (2, 1, 288)
    assert "(not asked again: the cap of 400 tokens is reached" in outcome.failures[0.0]
    _, tally, count = run(then="drop", count=5, limits=limits)
    assert (count, tally.tokens) == (2, 288)
    assert (
        tally.stopped == "the cap of 400 tokens is reached: 288 are spent, and a call may take 144"
    )


@pytest.mark.parametrize("said", ["malformed", "html", "json:[]", "json:null", "json:{}"])
def test_a_reply_that_is_no_answer_is_counted_at_the_most(said):
    _, tally, count = run(said)
    assert (count, tally.failed, tally.guessed) == (1, 1, 1)
    assert tally.tokens == 64 + 6 + 64 + 10


def test_an_unreadable_answer_is_paid_for():
    limits = Limits(concurrency=1, max_tokens=300)
    _, tally, count = run(then="empty", count=5, limits=limits)
    assert tally.failed == count == 2 and tally.tokens == 220


@pytest.mark.parametrize(
    ("taken", "given", "tokens"), [(7, None, 17), (None, 3, 137), (7, 3, 10), (0, 0, 0)]
)
def test_of_an_unreadable_answer_what_is_not_said_is_counted_at_the_most(taken, given, tokens):
    def does(_):
        raise UnreadableAnswer("no", prompt_tokens=taken, completion_tokens=given)

    tally = Outcome().of(requests(1), Scripted(does), Limits(concurrency=1))
    most = next(requests(1)).most_tokens[0]
    assert (tally.failed, most) == (1, 134)
    assert tally.tokens == tokens


def test_a_picture_that_cannot_be_made_ready_is_no_attempt():
    def does(request):
        if request.span.start == 4.0:
            raise UnreadableFile("a.mp4 is cut off")
        return Answer("A hand stirs.", "scripted", prompt_tokens=1, completion_tokens=1)

    outcome = Outcome()
    tally = outcome.of(requests(3), Scripted(does), Limits(concurrency=1))
    assert sorted(outcome.answers) == [0.0, 8.0]
    assert (outcome.failures[4.0], outcome.attempts[4.0]) == ("a.mp4 is cut off", 0)
    assert tally.attempts == 2 and tally.failures_in_a_row == 0


def test_a_cap_may_be_spent_to_the_last():
    """Two of three calls take all that is allowed."""

    def does(_):
        return Answer("A hand stirs.", "scripted", prompt_tokens=134, completion_tokens=10)

    priced = Limits(concurrency=1, input_price=1e6, output_price=1e6)
    for cap in ({"max_spend": 288.0}, {"max_tokens": 288}):
        capped = priced.model_copy(update=cap)
        tally = Outcome().of(requests(3), Scripted(does), capped)
        assert (tally.answered, tally.tokens, tally.spend) == (2, 288, 288.0)
        assert "is reached" in tally.stopped


def test_out_of_memory_in_the_parser_costs_one_answer_and_is_paid_for(monkeypatch):
    replies = []

    def read(value, clean):
        replies.append(value)
        if len(replies) == 2:
            raise MemoryError
        return map_texts(value, clean)

    monkeypatch.setattr(chat_protocol, "map_texts", read)
    outcome, tally, count = run(count=3)
    assert sorted(outcome.answers) == [0.0, 8.0] and count == 3
    assert "more than there is memory for" in outcome.failures[4.0]
    assert tally.tokens == 2 * 110 + 64 + 6 + 64 + 10, "as a reply that does not say what it took"


def test_a_server_that_only_fails_is_left_alone():
    limits = Limits(concurrency=2, most_failures=5)
    outcome, tally, count = run(then="400", count=100, limits=limits)
    assert 5 <= count < 5 + 2 + QUEUED_AHEAD, "those in flight and queued at the fifth"
    assert len(outcome.failures) == count
    assert "calls in a row failed, the last: " in tally.stopped and "(400)" in tally.stopped


def test_an_interruption_loses_no_answer():
    with fault_server(then="hold") as server:
        outcome = Outcome()

        def interrupted():
            yield from requests(5)
            while server.count() < 4:
                time.sleep(0.01)
            threading.Timer(1.0, server.release, (9,)).start()  # long after all are told to stop
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            captioner = OpenAICaptioner(server.url, "scripted")
            outcome.of(interrupted(), captioner, Limits(concurrency=4))
        assert server.count() == len(outcome.answers) == 4  # the fifth was queued but not sent
        assert sorted(outcome.begun) == [0.0, 4.0, 8.0, 12.0]
        assert outcome.failures == {} and outcome.withdrawn == []


def test_an_interruption_ends_the_wait_between_attempts():
    with fault_server(then="429:100") as server:
        outcome = Outcome()

        def interrupted():
            yield from requests(1)
            while server.count() < 1:
                time.sleep(0.01)
            time.sleep(0.1)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            captioner = OpenAICaptioner(server.url, "scripted")
            outcome.of(interrupted(), captioner, Limits(concurrency=1), sleep=None)
        assert server.count() == 1
        assert outcome.failures == outcome.answers == {}  # neither: it may be asked another time
        assert outcome.withdrawn == [0.0]


def test_an_error_of_the_log_goes_up_after_the_rest_is_logged():
    class Full(Outcome):
        def answered(self, request, answer):
            super().answered(request, answer)
            if len(self.answers) == 1:
                raise OSError("no space left")

    both = threading.Barrier(2)  # both are in flight before either is answered

    def does(_):
        both.wait(timeout=60)
        return Answer("A hand stirs.", "scripted")

    outcome = Full()
    with pytest.raises(OSError, match="no space left"):
        outcome.of(requests(9), Scripted(does), Limits(concurrency=2))
    assert sorted(outcome.answers) == [0.0, 4.0]


def test_what_the_log_does_not_let_begin_is_not_sent():
    class Full(Outcome):
        def begin(self, request):
            if request.span.start == 8.0:
                raise OSError("no space left")
            super().begin(request)

    with fault_server() as server:
        outcome = Full()
        with pytest.raises(OSError, match="no space left"):
            captioner = OpenAICaptioner(server.url, "scripted")
            outcome.of(requests(9), captioner, Limits(concurrency=1))
        assert server.count() == len(outcome.answers) == 2


@pytest.fixture
def interruptible():
    """Ctrl-C raises, even where whoever started the tests had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_once_asked(server, count):
    """Ctrl-C once the server was asked so often."""
    while server.count() < count:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_control_c_waits_for_what_is_in_flight(interruptible):
    with fault_server(latency=0.4) as server:
        outcome = Outcome()
        threading.Thread(target=interrupt_once_asked, args=(server, 3)).start()
        with pytest.raises(KeyboardInterrupt):
            captioner = OpenAICaptioner(server.url, "scripted")
            outcome.of(requests(1000), captioner, Limits(concurrency=4))
        assert server.count() == len(outcome.answers) > 0


IN_A_HURRY = """
import os, signal, sys, threading, time
from earmark.captioning.dispatch import dispatch
from earmark.settings import Limits
from earmark.captioning.openai_captioner import OpenAICaptioner
sys.path.insert(0, sys.argv[1])
from test_dispatch import Outcome, requests

def asked():
    yield from requests(2)
    while not outcome.answers:
        time.sleep(0.01)
    threading.Thread(target=interrupt, daemon=True).start()
    raise KeyboardInterrupt

def interrupt():
    while True:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

outcome = Outcome()
captioner = OpenAICaptioner(sys.argv[2], "scripted")
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    dispatch(asked(), captioner, Limits(concurrency=2, timeout=3600.0), outcome)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(len(outcome.begun), len(outcome.answers), len(outcome.withdrawn), len(outcome.failures))
"""


def test_a_second_control_c_does_not_wait_and_keeps_what_has_arrived():
    """The server never answers the other call: whoever waits for it, even at exit, waits on."""
    here = Path(__file__).parent
    with fault_server(then="hold") as server:
        words = [sys.executable, "-c", IN_A_HURRY, str(here), server.url]
        child = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parent), *sys.path])},
        )
        while server.count() < 2:
            assert child.poll() is None
            time.sleep(0.01)
        server.release(1)
        said = child.communicate(timeout=300)
    assert said == ("2 1 0 0\n", "")  # the one in flight stays in doubt


def test_an_error_that_is_not_about_the_call_goes_up():
    def broken(request):
        raise EarmarkError("the extra is missing")

    with pytest.raises(EarmarkError, match="the extra is missing"):
        Outcome().of(requests(3), Scripted(broken), Limits(concurrency=1))


def test_each_kind_of_error_is_treated_as_its_name_says():
    errors = iter([CallTimeout("busy"), CallTimeout("busy", retry_after=3.0)])

    def does(request):
        if request.span.start == 0.0:
            error = next(errors, None)
            if error is not None:
                raise error
            return Answer("A hand stirs.", "scripted")
        if request.span.start == 4.0:
            raise CallRejected("no")
        raise UnreadableAnswer("what?", prompt_tokens=7, completion_tokens=2)

    outcome = Outcome()
    tally = outcome.of(requests(3), Scripted(does), Limits(concurrency=1))
    assert outcome.attempts == {0.0: 3, 4.0: 1, 8.0: 1}
    assert outcome.failures == {4.0: "no", 8.0: "what?"}
    assert outcome.waits[1] == 3.0
    assert tally.attempts == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"concurrency": 0},
        {"timeout": 0.0},
        {"retries": -1},
        {"input_price": -1.0},
        {"input_price": math.nan},
        {"output_price": math.nan},
        {"output_price": math.inf},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong):
    assert Limits(max_spend=1.0, input_price=0.1).output_price == 0
    assert Limits(concurrency=1, retries=0, timeout=0.1).retries == 0
    with pytest.raises(ValueError, match=rf"{next(iter(wrong))}\n"):
        Limits(**wrong)


def test_the_first_call_under_a_cap_is_made_alone():
    """The server counts far more than was estimated: only one call can have been too many."""
    usage = 'usage:{"prompt_tokens": 55000000, "completion_tokens": 0}'
    limits = Limits(concurrency=8, max_spend=20.0, input_price=1.0, output_price=1.0)
    with fault_server(then=usage) as server:
        captioner = OpenAICaptioner(server.url, "scripted")
        tally = Outcome().of(requests(10), captioner, limits)
        assert server.count() == 1
    assert tally.spend == 55.0 and "the cap of 20" in (tally.stopped or "")
