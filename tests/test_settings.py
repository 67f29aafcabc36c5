"""One tree gives options, files, variables and Python arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark import InvalidSetting, Settings
from earmark.pipeline.session import Choices
from earmark.settings import Limits, all_settings, setting_named


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty working folder and configuration folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "earmark").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def test_names_are_unique_and_described():
    names = [one.name for one in all_settings()]
    assert len(names) == len(set(names))
    assert all(one.help.endswith(".") and len(one.help) < 100 for one in all_settings())
    assert setting_named("max_calls") == setting_named("limits.max_calls")
    assert setting_named("max-calls") == setting_named("max_calls")
    assert setting_named("schema").name == "answer_schema"


def test_python_takes_every_setting_that_is_not_about_the_terminal():
    shown = {setting.name for setting in all_settings() if setting.group != "display"}
    assert Choices.__annotations__.keys() - {"captioner"} == shown


def test_defaults_survive_json():
    settings = Settings()
    assert Settings.model_validate_json(settings.model_dump_json()) == settings
    assert Settings.read({}) == settings


def test_files_variables_and_values_win_in_this_order(home, monkeypatch):
    (home / "config" / "earmark" / "earmark.toml").write_text(
        'budget = "10%"\nrule = "rank"\nmax_calls = 5\n'
        "[limits]\nretries = 1\n[question]\nframes = 2\n"
    )
    assert Settings.load().budget == "10%"
    (home / "work" / "earmark.toml").write_text('budget = "20%"\n[question]\nframes = 3\n')
    monkeypatch.setenv("EARMARK_FRAMES", "4")
    monkeypatch.setenv("EARMARK_WORKERS", "none")
    settings = Settings.load({"budget": "30%"})
    assert (settings.budget, settings.rule, settings.question.frames) == ("30%", "rank", 4)
    assert (settings.limits.max_calls, settings.limits.retries) == (5, 1)
    assert Settings.load().budget == "20%"


def test_the_cache_is_the_users_unless_it_is_turned_off(home, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    assert Settings.load().folders.cache == home / "cache" / "earmark"
    assert Settings.load({"cache": None}).folders.cache is None
    (home / "work" / "earmark.toml").write_text('cache = "none"\n')
    assert Settings.load().folders.cache is None
    assert Settings().folders.cache is None


def test_a_file_with_a_mistake_is_named(home):
    path = home / "work" / "earmark.toml"
    path.write_text("budgit = 3\n")
    with pytest.raises(InvalidSetting, match=r"earmark\.toml: there is no setting 'budgit'; did"):
        Settings.load()
    path.write_text("[limits]\nretries = -1\n")
    with pytest.raises(InvalidSetting, match=r"earmark\.toml: retries: should be greater"):
        Settings.load()
    path.write_text("budget = \n")
    with pytest.raises(InvalidSetting, match=r"cannot read earmark\.toml"):
        Settings.load()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"frames": "two"}, "frames: should be a valid integer"),
        ({"audio_track": 1.5}, "audio_track: should be a valid integer"),
        ({"window": 0}, "window: should be greater than 0"),
        ({"voices": "perhaps"}, "voices: should be a valid boolean"),
        ({"blur": "cats"}, "blur: should be 'none' or 'faces', not 'cats'"),
        ({"temperature": "warm"}, "temperature: should be a valid number"),
        ({"temperature": float("nan")}, "temperature: should be a finite number"),
        ({"max_spend": 3}, "max_spend: needs prices"),
        ({"tokens": 1, "frames": 2}, "tokens: 1 visual tokens cannot hold 2 frames"),
        ({"address": "auto"}, "address: auto needs engine = ray"),
        ({"batch": "a.jsonl"}, "there is no setting 'batch'"),
        ({"speech": True, "voices": False}, "speech: transcribes what voices = false forbids"),
        ({"colour": "red"}, "there is no setting 'colour'"),
        ({"limit": {"retries": 1}}, "there is no setting 'limit'; did you mean limits?"),
        ({"answer_schema": "[]"}, "answer_schema: .* a schema is an object"),
        ({"prompt": "@missing.txt"}, r"prompt: cannot read missing\.txt: No such file"),
    ],
)
def test_a_wrong_value_is_named(values, message):
    with pytest.raises(InvalidSetting, match=message):
        Settings.read(values)


def test_prompts_and_schemas_are_text_or_files(tmp_path):
    (tmp_path / "ask.txt").write_text("What now?\n")
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    values = {"prompt": tmp_path / "ask.txt", "answer_schema": f"@{tmp_path / 'schema.json'}"}
    question = Settings.read(values).question
    assert (question.prompt, question.answer_schema) == ("What now?", {"type": "object"})
    assert Settings.read({"prompt": "And now?"}).question.prompt == "And now?"


def test_no_setting_is_lost_by_another_group():
    settings = Settings.read({"limits": Limits(retries=1), "max_calls": 2})
    assert (settings.limits.retries, settings.limits.max_calls) == (1, 2)


def test_a_misspelt_variable_is_refused(home, monkeypatch):
    monkeypatch.setenv("EARMARK_MAX_CALL", "1")
    with pytest.raises(InvalidSetting, match=r"EARMARK_MAX_CALL .* did you mean EARMARK_MAX_CALLS"):
        Settings.load()
