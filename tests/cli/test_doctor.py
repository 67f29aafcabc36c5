from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from earmark.captioning.discovery import Discovery, advice
from earmark.cli.app import app
from fault_server import fault_server


@pytest.fixture
def run():
    def invoke(*words):
        done = CliRunner().invoke(app, ["doctor", *words], catch_exceptions=False)
        assert done.exit_code == 0
        return done

    return invoke


def test_findings_are_a_table_and_a_line_of_advice(run):
    with fault_server(takes="images") as server:
        done = run("--model", server.url, "--timeout", "5")
    assert "scripted" in done.stdout and "no pictures" in done.stdout  # it counts no more tokens
    assert "transformers" in done.stdout
    assert "shortest way to a model" in done.stderr


def test_findings_are_json_for_machines(run):
    with fault_server("ok") as server:
        found = json.loads(run("--model", server.url, "--format", "json").stdout)
    assert found[0]["address"] == server.url and found[0]["kind"] == "server"
    assert {"local", "transformers"} <= {finding["name"] for finding in found}


def test_advice_names_the_first_that_is_ready():
    ready = Discovery("server", "vLLM", "ready", "http://here/v1", "qwen")
    assert advice([ready]) == "ask it with --model http://here/v1#qwen"
    assert "pip install 'earmark[local]'" in advice([Discovery("extra", "local", "missing")])
    assert "pip" not in advice([Discovery("extra", "local", "installed")])
