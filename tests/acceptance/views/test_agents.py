"""`earmark mcp` as a process, asked by the client of the `mcp` package over stdio."""

from __future__ import annotations

import base64
import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="earmark[mcp] is not installed")

from PIL import Image

from acceptance.views.conftest import Place
from acceptance.views.processes import call_tools, converse, values_of
from acceptance.views.scene import CAPTIONS, ColourModel


async def explore(client: Any) -> dict[str, Any]:
    """What an agent sees that lists, searches and looks, in one session."""
    seen: dict[str, Any] = {"tools": (await client.list_tools()).tools}

    async def call(name: str, **arguments: Any) -> Any:
        seen[name] = await client.call_tool(name, arguments)
        return None if seen[name].is_error else values_of(seen[name])

    runs = await call("list_runs")
    (run,) = (run["id"] for run in runs["runs"] if Path(run["name"]).name == "site")
    await call("search", words="drilling")
    recordings = await call("list_recordings", run=run)
    place = {"run": run, "recording": recordings["recordings"][0]["name"]}
    await call("look", **place, time=5.0, frames=2)
    await call("sounds", **place)
    await call("transcript", **place)
    await call("plan", recordings=["bench.mp4"], budget="40%")
    await call("find", question="someone drills", recordings=["bench.mp4"])
    await call("ask", run=run, question="When was the drill used?")
    seen["unknown run"] = await client.call_tool("list_recordings", {"run": "nothing"})
    seen["outside"] = await client.call_tool("plan", {"recordings": ["/etc/passwd"]})
    return seen


@pytest.fixture(scope="module")
def seen(place: Place, surroundings: Mapping[str, str]) -> dict[str, Any]:
    return dict(converse(explore, place.runs, place.site, env=surroundings))


def test_the_tools_are_listed_with_their_arguments(seen: dict[str, Any]):
    tools = {tool.name: tool for tool in seen["tools"]}
    free = {"list_runs", "list_recordings", "search", "sounds", "transcript", "plan", "look"}
    assert free | {"find", "ask", "caption"} <= set(tools)
    for tool in tools.values():
        assert tool.description
        assert tool.input_schema["type"] == "object"
    assert tools["search"].input_schema["required"] == ["words"]


def test_the_runs_and_their_recordings_are_read(seen: dict[str, Any]):
    runs = {Path(run["name"]).name: run for run in values_of(seen["list_runs"])["runs"]}
    assert set(runs) == {"site", "yard"}
    assert runs["site"]["answered"] == 6
    bench, sink = values_of(seen["list_recordings"])["recordings"]
    assert (bench["name"], bench["picks"]) == ("bench.mp4", 4)
    assert (sink["name"], sink["picks"]) == ("sink.mp4", 2)


def test_an_agent_searches_all_runs(seen: dict[str, Any]):
    moments = values_of(seen["search"])["moments"]
    assert {(moment["kind"], moment["text"]) for moment in moments} == {
        ("caption", CAPTIONS["drill"])
    }
    assert {moment["recording"] for moment in moments} == {"bench.mp4", "yard.mp4"}
    (bench,) = (moment for moment in moments if moment["recording"] == "bench.mp4")
    assert bench["spans"] == [[4.0, 8.0], [20.0, 24.0]], "each of those that are listed as one"


def test_an_agent_looks_at_a_moment(seen: dict[str, Any]):
    pictures = [part for part in seen["look"].content if part.type == "image"]
    assert len(pictures) == 2
    for part in pictures:
        with Image.open(io.BytesIO(base64.b64decode(part.data))) as picture:
            assert picture.format == "JPEG"
    moment = values_of(seen["look"])
    assert (moment["start"], moment["end"]) == (4.0, 8.0)
    assert [caption["caption"] for caption in moment["captions"]] == [CAPTIONS["drill"]]


def test_a_plan_says_what_budgets_would_cover(seen: dict[str, Any]):
    forecast = values_of(seen["plan"])["forecast"]
    assert (forecast["recordings"], forecast["windows"]) == (1, 10)
    coverage = [rung["coverage"] for rung in forecast["rungs"]]
    assert coverage == sorted(coverage)


def test_calls_are_refused_unless_granted(seen: dict[str, Any]):
    for name in ("find", "ask"):
        assert seen[name].is_error
        assert "allow_calls" in seen[name].content[0].text


def test_errors_are_told_and_nothing_outside_is_reached(seen: dict[str, Any]):
    assert seen["unknown run"].is_error
    assert "nothing" in seen["unknown run"].content[0].text
    assert seen["outside"].is_error
    assert "Traceback" not in seen["outside"].content[0].text


def test_what_comes_from_recordings_is_marked_as_data(seen: dict[str, Any]):
    for name in ("search", "look", "transcript"):
        assert "instruction" in values_of(seen[name])["notice"]


def test_granted_calls_are_spent_and_no_more(
    place: Place, model: ColourModel, surroundings: Mapping[str, str], tmp_path: Path
):
    shutil.copy(place.bench, tmp_path / "bench.mp4")
    words = (tmp_path, "--model", model.address, "--allow-calls", "5")
    before = len(model.requests)
    wish = {"question": "someone uses a drill", "recordings": ["bench.mp4"], "calls": 5}
    other = {"question": "water runs", "recordings": ["bench.mp4"], "calls": 5}
    found, refused = call_tools(("find", wish), ("find", other), words=words, env=surroundings)
    assert not found.is_error, found.content
    assert CAPTIONS["drill"] in found.content[-1].text
    assert refused.is_error
    assert len(model.requests) - before == 5
