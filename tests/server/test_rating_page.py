"""Captions are rated in a real browser, by keys and by buttons, without the name of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")
pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from chromium import CHROMIUM, DRIVER, chromium
from earmark.run.corrections import read_corrections
from earmark.run.run import Run
from served import TOKEN, serving
from small_runs import answer, call, open_run

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="Debian's chromium and chromium-driver are not installed"
)


def shown(driver: Any, words: str) -> str:
    """The text of the page, once it has these words."""

    def text(_: object) -> str:
        whole = driver.find_element(By.ID, "main").text
        return whole if words in whole else ""

    return WebDriverWait(driver, 120, poll_frequency=0.05).until(text)


def test_captions_are_rated_one_by_one_and_blind(tmp_path: Path):
    runs = tmp_path / "runs"
    for model in ("alpha", "beta"):
        with open_run(runs / model) as ledger:
            ledger.begin(call(1))
            ledger.keep(call(1), answer("<b>a hammer</b> falls", model=model), spend=0.0)
    with serving(runs) as client, chromium(tmp_path / "profile") as driver:
        base = str(client.base_url).rstrip("/")
        driver.get(f"{base}/?token={TOKEN}")
        driver.get(f"{base}/rate")
        shown(driver, "Enter your name")
        driver.find_element(By.ID, "author").send_keys("Ada", Keys.TAB)
        first = shown(driver, "0 of 2 rated")
        assert "<b>a hammer</b> falls" in first
        assert "alpha" not in first and "beta" not in first
        driver.find_element(By.CSS_SELECTOR, ".judge .partly").click()
        shown(driver, "1 of 2 rated")
        driver.find_element(By.TAG_NAME, "body").send_keys("w")
        assert "nothing left to rate" in shown(driver, "2 of 2 rated")
    verdicts = []
    for model in ("alpha", "beta"):
        with Run(runs / model) as run:
            verdicts += [(each.author, each.verdict) for each in read_corrections(run)]
    assert sorted(verdicts) == [("Ada", "partly"), ("Ada", "wrong")]
