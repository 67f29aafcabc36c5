"""What the environment sets: the key, the cache and the blurring of faces."""

from __future__ import annotations

from acceptance.command_line import earmark
from acceptance.model_server import model_server
from acceptance.recordings import make_recording
from earmark import __version__


def test_the_key_comes_from_the_environment(clip, tmp_path):
    with model_server(key="sk-right") as server:
        words = ["caption", clip, "--budget", "1", "--model", server.model]
        outcome = earmark(*words, "--run", tmp_path / "run", env={"OPENAI_API_KEY": "sk-right"})
        assert outcome.code == 0, outcome.err
        wrong = earmark(*words, "--run", tmp_path / "wrong", env={"OPENAI_API_KEY": "sk-other"})
    assert server.requests[0].headers["Authorization"] == "Bearer sk-right"
    assert wrong.code == 1
    assert "sk-other" not in wrong.err
    assert server.count == 1


def test_the_cache_is_where_the_environment_says(tmp_path):
    recording = make_recording(tmp_path / "a.mp4", duration=12.0, work=[(4.0, 8.0)], seed=9)
    cache = tmp_path / "elsewhere"
    outcome = earmark("select", recording, env={"EARMARK_CACHE": str(cache)})
    assert outcome.code == 0, outcome.err
    assert any(path.is_file() for path in cache.rglob("*"))


def test_an_option_outranks_the_environment(tmp_path):
    recording = make_recording(tmp_path / "a.mp4", duration=12.0, work=[(4.0, 8.0)], seed=10)
    unused, used = tmp_path / "unused", tmp_path / "used"
    earmark("select", recording, "--cache", used, env={"EARMARK_CACHE": str(unused)})
    assert any(path.is_file() for path in used.rglob("*"))
    assert not unused.exists()


def test_blurring_asked_for_by_the_environment_needs_its_model(clip, tmp_path, server):
    words = ["caption", clip, "--budget", "1", "--model", server.model, "--run", tmp_path / "run"]
    outcome = earmark(*words, env={"EARMARK_BLUR": "faces"})
    assert outcome.code == 1
    assert "models get" in outcome.err
    assert server.count == 0, "nothing is sent unblurred"


def test_version_and_help():
    assert __version__ in earmark("--version").out
    outcome = earmark("--help")
    assert outcome.code == 0
    assert all(name in outcome.out for name in ("select", "plan", "caption", "serve", "export"))
    for command in ("select", "caption"):
        assert "--budget" in earmark(command, "--help").out
