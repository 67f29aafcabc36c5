"""Progress as people, log files and Prometheus are told it."""

from __future__ import annotations

import io
import socket
import threading
import urllib.error
import urllib.request

import pytest
from rich.console import Console

from earmark import Progress
from earmark.captioning.usage import Tally
from earmark.errors import BackendError
from earmark.report.progress import bars, exposition, serve_metrics


def counted() -> Progress:
    progress = Progress(recordings=3)
    progress.update(missed=1, trouble="no")
    progress.count_calls(
        Tally(calls=4, failed=1, prompt_tokens=100, completion_tokens=20, spend=0.5), 10
    )
    return progress


def test_counts_and_stages():
    progress = Progress(recordings=3)
    assert (progress.stage, progress.seconds_left) == ("hearing", None)
    progress = counted()
    told = progress.to_json()
    assert (told["stage"], told["missed"], told["calls"], told["done"]) == ("asking", 1, 10, 4)
    assert (told["failed"], told["tokens"], told["spend"]) == (1, 120, 0.5)
    assert told["trouble"] == "no"
    progress.asked = progress.began - 2.0
    assert progress.rate == pytest.approx(2.0, rel=0.2)
    assert progress.seconds_left == pytest.approx(3.0, rel=0.2)


@pytest.mark.parametrize(
    ("has_model", "stage", "said"),
    [(True, "asking", "4 of 10 calls"), (False, "looking", "4 of 10 windows")],
)
def test_where_no_model_is_asked_nothing_is_said_to_be(has_model, stage, said):
    progress, screen = counted(), io.StringIO()
    progress.has_model = has_model
    with bars(Console(file=screen, force_terminal=True, width=100)) as show:
        show(progress)
    assert (progress.stage, progress.to_json()["stage"]) == (stage, stage)
    drawn = screen.getvalue()
    assert stage in drawn and said in drawn
    assert ("asking" in drawn, "calls" in drawn) == (has_model, has_model)


def test_prometheus_reads_what_is_served():
    parser = pytest.importorskip("prometheus_client.parser")
    with serve_metrics(counted(), 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/other")
    samples = {
        sample.name: sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["earmark_recordings"] == 3
    assert samples["earmark_missed_total"] == 1
    assert samples["earmark_tokens_total"] == 120
    assert samples["earmark_spend_total"] == 0.5
    assert text == exposition(counted())


def test_a_port_that_is_taken_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(BackendError, match=f"port {port} .*choose another port"),
            serve_metrics(Progress(), port),
        ):
            pass


def test_metrics_are_read_whatever_parameters_a_scrape_has():
    with (
        serve_metrics(counted(), 0) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics?job=earmark") as answer,
    ):
        assert answer.read().decode() == exposition(counted())


def test_a_client_that_sends_nothing_holds_up_neither_a_scrape_nor_the_end():
    def scrape() -> None:
        with (
            serve_metrics(counted(), 0) as port,
            socket.create_connection(("127.0.0.1", port)),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer,
        ):
            texts.append(answer.read().decode())
        texts.append("ended")

    texts: list[str] = []
    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert texts == [exposition(counted()), "ended"]


def test_metrics_are_served_to_this_machine_alone():
    with serve_metrics(counted(), 0) as port, socket.socket() as other:
        other.bind(("127.0.0.2", port))  # another address of this machine is still free
    with serve_metrics(counted(), 0, host="") as port, socket.socket() as other:  # noqa: SIM117
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.2", port))


def test_every_change_is_told():
    told: list[int] = []
    progress = Progress(lambda now: told.append(now.missed))
    progress.update(recordings=2)
    progress.update(missed=1)
    progress.update(missed=2)
    assert told == [0, 1, 2]
    assert progress.recordings == 2
