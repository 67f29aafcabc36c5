from __future__ import annotations

from acceptance.command_line import Outcome, earmark
from earmark.captioning.discovery import Discovery, advice
from fault_server import fault_server


def doctor(*words: str) -> Outcome:
    outcome = earmark("doctor", *words)
    assert outcome.code == 0, outcome.err
    return outcome


def test_findings_are_a_table_and_a_line_of_advice():
    with fault_server(takes="images") as server:
        done = doctor("--model", server.url, "--timeout", "5")
    assert "scripted" in done.out and "no pictures" in done.out  # it counts no more tokens
    assert "transformers" in done.out
    assert "shortest way to a model" in done.err


def test_findings_are_json_for_machines():
    with fault_server("ok") as server:
        found = doctor("--model", server.url, "--format", "json").json
    assert found[0]["address"] == server.url and found[0]["kind"] == "server"
    assert {"local", "transformers"} <= {finding["name"] for finding in found}


def test_advice_names_the_first_that_is_ready():
    ready = Discovery("server", "vLLM", "ready", "http://here/v1", "qwen")
    assert advice([ready]) == "use it with --model http://here/v1#qwen"
    assert "pip install 'earmark[local]'" in advice([Discovery("extra", "local", "missing")])
    assert "pip" not in advice([Discovery("extra", "local", "installed")])
