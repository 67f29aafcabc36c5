"""`earmark caption` when the model server fails, and within the caps on what it may use."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from acceptance.command_line import Outcome, earmark
from acceptance.model_server import COMPLETION_TOKENS, PROMPT_TOKENS, model_server
from acceptance.run_rows import captions, rows

CALL_TOKENS = PROMPT_TOKENS + COMPLETION_TOKENS


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Where the run goes."""
    return tmp_path / "run"


def caption(clip: Path, run: Path, model: str, *words: object) -> Outcome:
    options = ["--budget", "2", "--retries", "1", "--run", run, "--format", "json"]
    return earmark("caption", clip, "--model", model, *options, *words)


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_a_server_that_is_down_is_one_line_and_nothing_is_begun(clip, run):
    url = f"http://127.0.0.1:{unused_port()}/v1"
    outcome = caption(clip, run, f"{url}#tiny")
    assert outcome.code == 1
    assert url in outcome.err
    assert "doctor" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert outcome.out == ""


@pytest.mark.parametrize("fault", ["500", "503", "429:0", "drop"])
def test_a_passing_fault_is_asked_again(clip, run, fault):
    with model_server(fault) as server:
        outcome = caption(clip, run, server.model)
    assert outcome.code == 0, outcome.err
    assert outcome.json["totals"]["answered"] == 2
    assert outcome.json["this_run"]["attempts"] == server.count == 3


@pytest.mark.parametrize(
    ("fault", "requests_per_call"),
    [("500", 2), ("429:0", 2), ("drop", 2), ("400", 1), ("html", 1), ("empty", 1)],
)
def test_a_lasting_fault_is_a_failed_call_with_its_reason(clip, run, fault, requests_per_call):
    with model_server(then=fault) as server:
        outcome = caption(clip, run, server.model)
    assert outcome.code == 1
    totals = outcome.json["totals"]
    assert (totals["picks"], totals["answered"], totals["failed"]) == (2, 0, 2)
    assert server.count == 2 * requests_per_call
    assert clip.name in outcome.err
    assert "Traceback" not in outcome.err
    failed = rows(run)
    assert [row["status"] for row in failed] == ["failed", "failed"]
    assert all(row["failure"] and not row["caption"] for row in failed)
    if fault[:3].isdigit():
        assert all(fault[:3] in row["failure"] for row in failed)


def test_a_server_that_takes_too_long_is_a_failed_call(clip, run):
    with model_server(then="slow:1") as server:
        outcome = caption(clip, run, server.model, "--timeout", "0.2", "--retries", "0")
    assert outcome.code == 1
    assert outcome.json["totals"]["failed"] == server.count == 2


def test_one_failed_call_does_not_take_the_others_along(clip, run):
    with model_server("400") as server:
        outcome = caption(clip, run, server.model, "--concurrency", "1")
    assert outcome.code == 1
    totals = outcome.json["totals"]
    assert (totals["answered"], totals["failed"]) == (1, 1)
    assert len(captions(run)) == 1


def test_the_same_command_asks_again_only_what_failed(clip, run):
    with model_server("400") as server:
        caption(clip, run, server.model, "--concurrency", "1")
        first = captions(run)
        outcome = caption(clip, run, server.model)
    assert outcome.code == 0, outcome.err
    assert server.count == 3
    assert sorted(captions(run)) == [2, 7]
    assert first.items() <= captions(run).items()


def test_retrying_asks_only_recordings_that_failed(archive, run):
    with model_server("400", "ok", "400") as server:
        words = ["--workers", "1", "--concurrency", "1"]
        first = caption(archive, run, server.model, *words)
        assert first.json["totals"]["failed"] == 2
        failed = [row["path"] for row in rows(run) if row["status"] == "failed"]
        assert len(set(failed)) == 2
        before = server.count
        outcome = caption(archive, run, server.model, *words, "--retry-failed")
        assert outcome.code == 0, outcome.err
        assert server.count == before + 2
    assert {row["status"] for row in rows(run)} == {"answered"}


def test_a_wrong_key_is_one_line_that_names_the_variable(clip, run):
    with model_server(key="sk-right") as server:
        outcome = caption(clip, run, server.model)
    assert outcome.code == 1
    assert "OPENAI_API_KEY" in outcome.err
    assert server.count == 0


def test_a_model_that_the_server_lacks_is_named(clip, run, server):
    outcome = caption(clip, run, f"{server.url}#huge")
    assert outcome.code == 1
    assert "huge" in outcome.err
    assert "tiny" in outcome.err
    assert server.count == 0


def test_the_cap_on_calls_holds_for_the_whole_run(clip, run, server):
    for _ in range(2):
        outcome = caption(clip, run, server.model, "--max-calls", "1")
        assert outcome.code == 1
        assert outcome.json["totals"]["answered"] == server.count == 1
    assert outcome.json["this_run"]["stopped"]
    outcome = caption(clip, run, server.model, "--max-calls", "2")
    assert outcome.code == 0, outcome.err
    assert server.count == 2


def test_the_cap_on_spend_is_never_exceeded(clip, run, server):
    prices = ["--input-price", "10", "--output-price", "10"]
    most = 0.02
    outcome = caption(
        clip, run, server.model, "--budget", "10", "--max-spend", most, *prices, "--concurrency", 1
    )
    assert outcome.code == 1
    totals = outcome.json["totals"]
    assert 0 < totals["answered"] < 10
    assert totals["spend"] == pytest.approx(totals["answered"] * CALL_TOKENS * 10 / 1e6)
    assert totals["spend"] <= most
    assert outcome.json["this_run"]["stopped"]


def test_the_cap_on_tokens_stops_before_a_call_that_could_exceed_it(clip, run, server):
    outcome = caption(clip, run, server.model, "--max-tokens", "50")
    assert outcome.code == 1
    assert server.count == 0
    assert outcome.json["totals"]["answered"] == 0


def test_a_cap_shows_in_the_dry_run(clip, run, server):
    cost = caption(clip, run, server.model, "--budget", "8", "--max-calls", "3", "--dry-run").json
    assert cost["calls"] == 3
    assert server.count == 0


def test_spending_is_computed_from_the_prices(clip, run, server):
    prices = ["--input-price", "1000", "--output-price", "10000"]
    outcome = caption(clip, run, server.model, *prices)
    expected = 2 * (PROMPT_TOKENS * 1000 + COMPLETION_TOKENS * 10000) / 1e6
    assert outcome.json["totals"]["spend"] == pytest.approx(expected)
    assert sum(row["spend"] for row in rows(run)) == pytest.approx(expected)


def test_no_secret_of_an_address_or_a_key_is_stored_or_printed(clip, run):
    secret_key, password, token = "sk-abc123secret", "hunter2secret", "tok987secret"
    with model_server("400", key=secret_key) as server:
        url = server.url.replace("//", f"//me:{password}@") + f"?api-key={token}"
        # a user in the address replaces the key's header, so each is given by itself
        keyed = earmark(
            "caption", clip, "--budget", "2", "--model", f"{server.url}?api-key={token}#tiny",
            "--run", run, "--log", "json", fresh=True, env={"OPENAI_API_KEY": secret_key},
        )  # fmt: skip
        refused = earmark(
            "caption", clip, "--budget", "2", "--model", f"{url}#tiny",
            "--run", run.with_name("refused"), fresh=True,
        )  # fmt: skip
    assert server.count >= 2
    assert refused.code == 1
    texts = [keyed.out, keyed.err, refused.out, refused.err]
    stored = [path for path in run.parent.rglob("*") if path.is_file()]
    assert any(path.name == "report.html" for path in stored)
    contents = [text.encode() for text in texts] + [path.read_bytes() for path in stored]
    for secret in (secret_key, password, token):
        assert not any(secret.encode() in content for content in contents), secret
