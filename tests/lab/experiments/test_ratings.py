"""People rate captions in `serve` without knowing the model; the table says how far they agree."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

pytest.importorskip("fastapi", reason="earmark[server] is not installed")

from earmark.errors import RunError
from earmark.run.corrections import Correction, correct, withdraw
from earmark.server.rating_routes import BlindCaption, place
from earmark_lab.cli import lab
from earmark_lab.experiments.ratings import read_ratings, report_ratings
from earmark_lab.metrics.statistics import cohen_kappa
from served import serving
from small_runs import answer, call, cell, open_run


def test_kappa_is_what_the_textbook_says():
    """Cohen 1960's own kind of table: 20 of 25 and 15 of 25 on the diagonal, 70 % in all."""
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    kappa = cohen_kappa(pairs)
    assert kappa.n == 50 and kappa.agreed == 0.7 and kappa.value == pytest.approx(0.4)
    assert kappa.low < 0.4 < kappa.high
    assert cohen_kappa([("a", "a"), ("b", "b"), ("c", "c")]).value == 1
    assert str(cohen_kappa([("a", "a")] * 3).value) == str(cohen_kappa([]).value) == "nan"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs of the same two windows, each by another model."""
    for model in ("alpha", "beta"):
        with open_run(tmp_path / model) as ledger:
            for window in (1, 3):
                ledger.begin(call(window))
                ledger.keep(call(window), answer(f"what {window} shows", model=model), spend=0.0)
    return tmp_path


def rate_all(client: httpx.Client, rater: str, verdicts: dict[str, str]) -> list[str]:
    """Rate whatever is offered, by what the caption says; the order in which it was offered."""
    seen = []
    while item := client.get("/api/ratings", params={"rater": rater}).json()["next"]:
        assert set(item) == {"run", "recording", "start", "end", "caption"}  # no model, no verdicts
        seen.append(f"{item['run']} {item['start']}")
        place = f"/api/runs/{item['run']}/recordings/{item['recording']}/corrections"
        body = {"author": rater, "start": item["start"], "end": item["end"]}
        body["verdict"] = verdicts[item["caption"]]
        assert client.post(place, json=body).status_code == 201
    return seen


def test_two_people_rate_every_caption_blind_and_the_table_says_how_far_they_agree(runs: Path):
    with serving(runs) as client:
        first = client.get("/api/ratings", params={"rater": "Ada"}).json()
        assert (first["rated"], first["captions"]) == (0, 4)
        ada = rate_all(client, "Ada", {"what 1 shows": "right", "what 3 shows": "wrong"})
        ben = rate_all(client, "Ben", {"what 1 shows": "right", "what 3 shows": "partly"})
        done = client.get("/api/ratings", params={"rater": "Ada"}).json()
        assert (done["rated"], done["captions"], done["next"]) == (4, 4, None)
    assert sorted(ada) == sorted(ben) and len(set(ada)) == 4
    shown = CliRunner().invoke(lab, ["ratings", str(runs), "--format", "json"])
    shares, agreement = json.loads(shown.stdout)["tables"]
    rows = {(row["model"], row["rater"]): row for row in shares["rows"]}
    ada_of_alpha, ben_of_beta = rows["alpha", "Ada"], rows["beta", "Ben"]
    assert [ada_of_alpha[f"{verdict} %"] for verdict in ("right", "partly", "wrong")] == [50, 0, 50]
    assert [ben_of_beta[f"{verdict} %"] for verdict in ("right", "partly", "wrong")] == [50, 50, 0]
    every = next(row for row in agreement["rows"] if row["model"] == "all")
    assert (every["raters"], every["n"], every["agree %"]) == ("Ada – Ben", 4, 50.0)
    assert every["kappa"] == "0.33" and " to " in every["95 %"]


def test_everybody_has_an_order_of_their_own():
    captions = [BlindCaption("run", "a", float(start), start + 4.0, "") for start in range(40)]
    ada, ben = (sorted(captions, key=lambda each: place(each, who)) for who in ("Ada", "Ben"))
    assert ada != captions != ben != ada


def test_the_last_word_of_a_person_counts_and_what_is_withdrawn_does_not(runs: Path):
    for verdict in ("wrong", "partly"):
        correct(runs / "alpha", Correction("a", cell(1), verdict, "Ada"))
    withdrawn = correct(runs / "alpha", Correction("a", cell(3), "right", "Ada"))
    withdraw(runs / "alpha", withdrawn.id)
    (rating,) = read_ratings([runs])
    assert (rating.model, rating.rater, rating.verdict) == ("alpha", "Ada", "partly")
    with pytest.raises(RunError, match="nobody has rated"):
        report_ratings([runs / "beta"])
