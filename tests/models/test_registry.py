"""One registry a seam: names of our own, and those other packages declare."""

from __future__ import annotations

import sys

import pytest

from earmark.errors import PluginError
from earmark.models import registry
from earmark.models.registry import Registry


@pytest.fixture
def declared(tmp_path, monkeypatch):
    """A package that declares two entry points, one of which leads nowhere."""
    (tmp_path / "plugin_of_test.py").write_text("class Third:\n    pass\n")
    facts = tmp_path / "plugin_of_test-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-test\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[earmark.things]\nthird = plugin_of_test:Third\nbroken = plugin_of_test:Nothing\n"
        "first = plugin_of_test:Third\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._entry_points.cache_clear()
    yield Registry("earmark.things", {"first": int, "second": "math:tau"}, kind="thing")
    sys.modules.pop("plugin_of_test", None)
    registry._entry_points.cache_clear()


def test_our_own_come_first_and_an_address_is_followed_when_needed(declared):
    assert list(declared) == ["first", "second", "broken", "third"]
    assert len(declared) == 4
    assert declared["first"] is int, "another package cannot take a name of ours"
    assert declared.get("second") == pytest.approx(6.283, abs=1e-3)
    assert declared["second"] == pytest.approx(6.283, abs=1e-3)
    assert declared.get("fourth") is None


def test_another_package_adds_its_own(declared):
    assert declared.named("third").__name__ == "Third"


def test_an_unknown_name_is_told_those_there_are(declared):
    with pytest.raises(ValueError, match="no thing 'fourth'; the things are first, second, broken"):
        declared.named("fourth")


@pytest.mark.parametrize("code", ["", "1 / 0", "raise RuntimeError", "?"])
def test_a_plug_in_that_cannot_be_loaded_says_whose_it_is(declared, code, tmp_path):
    (tmp_path / "plugin_of_test.py").write_text(f"{code}\n")
    with pytest.raises(PluginError, match="the thing broken of plugin-of-test cannot be loaded"):
        declared.named("broken")
