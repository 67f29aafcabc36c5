"""Many requests at once, against servers that misbehave."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from earmark.captioning import Answer, Limits, OpenAICaptioner, Request, Tally, ask_all
from earmark.captioning.dispatch import AHEAD
from earmark.errors import CallRejected, CallTimeout, EarmarkError, UnreadableAnswer
from fault_server import fault_server
from stills import ask_about


def requests(count: int, *, model: str = "scripted") -> Iterator[Request]:
    return (ask_about((4.0 * n,), model=model, answer_tokens=10) for n in range(count))


@dataclass
class Outcome:
    """Collects what `ask_all` hands over."""

    answers: dict[float, Answer] = field(default_factory=dict)
    failures: dict[float, str] = field(default_factory=dict)
    attempts: dict[float, int] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)
    waits: list[float] = field(default_factory=list)

    def on_answer(self, request, answer):
        self.threads.add(threading.get_ident())
        self.answers[request.span.start] = answer
        self.attempts[request.span.start] = answer.attempts

    def on_failure(self, failure):
        self.failures[failure.request.span.start] = failure.reason
        self.attempts[failure.request.span.start] = failure.attempts

    def of(self, asked, captioner, limits, **options):
        options = {"sleep": self.waits.append, **options}
        return ask_all(asked, captioner, limits, self.on_answer, self.on_failure, **options)


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


def test_every_request_is_answered_once_in_the_calling_thread():
    outcome, tally, count = run(count=20, limits=Limits(concurrency=4))
    assert sorted(outcome.answers) == [4.0 * n for n in range(20)]
    assert (tally.calls, tally.answered, tally.failed, tally.attempts, count) == (20, 20, 0, 20, 20)
    assert tally.tokens == 20 * 110 and tally.stopped is None
    assert outcome.threads == {threading.get_ident()}


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
    waits = [limits.wait(n, retry_after=None, rng=random.Random(1)) for n in range(1, 8)]
    tops = [0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0]
    assert all(top / 2 <= wait <= top for wait, top in zip(waits, tops, strict=True))
    assert limits.wait(1, retry_after=3.0, rng=random.Random(1)) == 3.0


def test_concurrency_is_reached_and_not_passed():
    with fault_server(latency=0.05) as server:
        outcome = Outcome()
        captioner = OpenAICaptioner(server.url, "scripted")
        outcome.of(requests(30), captioner, Limits(concurrency=5))
        assert server.seen()["peak"] == 5


def test_requests_are_taken_only_as_slots_come_free():
    taken, settled, most = 0, 0, 0

    def counting():
        nonlocal taken, most
        for request in requests(40):
            taken += 1
            most = max(most, taken - settled)
            yield request

    def settle(*_):
        nonlocal settled
        settled += 1

    captioner = Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    ask_all(counting(), captioner, Limits(concurrency=3), settle, settle)
    assert taken == settled == 40
    assert most <= 3 + AHEAD + 1  # in flight, ready, in hand


def test_a_cap_on_calls_stops_and_says_so():
    outcome, tally, count = run(count=10, limits=Limits(concurrency=4, max_calls=3))
    assert len(outcome.answers) == tally.calls == count == 3
    assert tally.stopped == "the cap on calls, 3, is reached"


def test_a_cap_that_is_just_enough_stops_nothing():
    _, tally, _ = run(count=3, limits=Limits(concurrency=4, max_calls=3))
    assert tally.stopped is None


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_cap_on_tokens_is_never_passed(concurrency):
    # A call takes at most 64 + 6 + 64 + 10 = 144 tokens and really takes 110.
    limits = Limits(concurrency=concurrency, max_tokens=500)
    _, tally, count = run(count=10, limits=limits, latency=0.02)
    assert count == 4 and tally.tokens == 440
    assert tally.stopped == "the cap of 500 tokens is reached: 440 are spent"


def test_a_cap_on_money_is_never_passed():
    prices = {"input_price": 1e4, "output_price": 1e5}  # 100 tokens in and 10 out are 2.00
    limits = Limits(concurrency=8, max_spend=7.0, **prices)
    _, tally, count = run(count=10, limits=limits)
    assert tally.spend == pytest.approx(2.0 * count) and tally.spend <= 7.0 and count == 3
    assert tally.stopped.startswith("the cap of 7 in money is reached: 6.0000 is spent")


def test_what_one_call_took_is_set_aside_for_the_next():
    """A model may count pictures in a way of its own."""
    captioner = Scripted(lambda _: Answer("Stirs.", "m", prompt_tokens=900, completion_tokens=9))
    tally = Outcome().of(requests(10), captioner, Limits(concurrency=1, max_tokens=3000))
    assert tally.calls == 3 and tally.tokens == 3 * 909


def test_only_what_the_limits_have_room_for_is_said_to_be_sent():
    sent, outcome = [], Outcome()
    captioner = Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    limits = Limits(concurrency=2, max_calls=3)
    outcome.of(requests(9), captioner, limits, log=SimpleNamespace(begin=sent.append))
    assert [request.span.start for request in sent] == sorted(outcome.answers) == [0.0, 4.0, 8.0]


def test_a_tally_is_counted_on_and_up_to_date_when_an_answer_is_handed_over():
    tally, seen = Tally(calls=5), []
    captioner = Scripted(lambda _: Answer("A hand stirs.", "scripted"))
    ask_all(
        requests(3), captioner, Limits(concurrency=1),
        lambda *_: seen.append(tally.calls), print, tally=tally,
    )  # fmt: skip
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


def test_an_unreadable_answer_is_paid_for():
    limits = Limits(concurrency=1, max_tokens=300)
    _, tally, count = run(then="empty", count=5, limits=limits)
    assert tally.failed == count == 2 and tally.tokens == 220


def test_a_server_that_only_fails_is_left_alone():
    limits = Limits(concurrency=2, most_failures=5)
    outcome, tally, count = run(then="400", count=100, limits=limits)
    assert 5 <= count <= 5 + 2 + 2 and len(outcome.failures) == count
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

        unsent = []
        log = SimpleNamespace(begin=lambda _: None, withdraw=unsent.append)
        with pytest.raises(KeyboardInterrupt):
            captioner = OpenAICaptioner(server.url, "scripted")
            outcome.of(interrupted(), captioner, Limits(concurrency=4), log=log)
        assert server.count() == len(outcome.answers) == 4  # the fifth was ready but not sent
        assert [request.span.start for request in unsent] == [16.0]
        assert outcome.failures == {}


def test_an_interruption_ends_the_wait_between_attempts():
    with fault_server(then="429:100") as server:
        outcome = Outcome()

        def interrupted():
            yield from requests(1)
            while server.count() < 1:
                time.sleep(0.01)
            time.sleep(0.1)
            raise KeyboardInterrupt

        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            captioner = OpenAICaptioner(server.url, "scripted")
            outcome.of(interrupted(), captioner, Limits(concurrency=1), sleep=None)
        assert time.monotonic() - started < 60.0
        assert outcome.failures == outcome.answers == {}  # neither: it may be asked another time


def test_an_error_of_a_callback_goes_up_after_the_rest_is_handed_over():
    seen = []

    def full(request, answer):
        seen.append(request.span.start)
        if len(seen) == 1:
            raise OSError("no space left")

    both = threading.Barrier(2)  # both are in flight before either is answered

    def does(_):
        both.wait(timeout=10)
        return Answer("A hand stirs.", "scripted")

    with pytest.raises(OSError, match="no space left"):
        ask_all(requests(2), Scripted(does), Limits(concurrency=2), full, print)
    assert len(seen) == 2


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
        {"max_spend": 1.0},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(
        ValueError, match=r"concurrency is 1 or more|cannot be negative|needs prices"
    ):
        Limits(**wrong)
