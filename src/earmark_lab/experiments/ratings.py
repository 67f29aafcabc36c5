"""What people say about captions of several runs: shares by model, and agreement of raters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path

from earmark.errors import RunError
from earmark.run.corrections import RATINGS, read_corrections, wilson_interval
from earmark.run.run import Run, find_runs
from earmark_lab.experiments.report import Cells, Report, Table, interval
from earmark_lab.metrics.counts import or_dash
from earmark_lab.metrics.statistics import Kappa, cohen_kappa

_MODELS = "SELECT identity, answers.model FROM answers JOIN calls ON calls.id = call"
ALL = "all"


@dataclass(frozen=True, slots=True)
class Rating:
    model: str
    caption: str
    """Its run and the identity of the call."""
    rater: str
    verdict: str


def read_ratings(folders: Iterable[Path]) -> list[Rating]:
    """The last of each person about each caption; better words and missed moments are left out."""
    latest: dict[tuple[str, str], Rating] = {}
    for folder in chain.from_iterable(map(find_runs, folders)):
        with Run(folder) as run:
            models: dict[str, str] = dict(run.rows(_MODELS))
            for correction in read_corrections(run):
                if correction.verdict in RATINGS and not correction.withdrawn:
                    caption = f"{folder} {correction.call}"
                    model = models[correction.call]
                    rating = Rating(model, caption, correction.author, correction.verdict)
                    latest[caption, correction.author] = rating
    return list(latest.values())


def report_ratings(folders: Sequence[Path]) -> Report:
    ratings = read_ratings(folders)
    if not ratings:
        raise RunError("nobody has rated a caption of these runs: open /rate in `earmark serve`")
    settings = {"experiment": "ratings", "runs": [folder.name for folder in folders]}
    tables = (_share_table(ratings), _kappa_table(ratings))
    return Report("What people say about the captions", settings, tables)


def _share_table(ratings: Sequence[Rating]) -> Table:
    rows: list[Cells] = []
    raters = dict.fromkeys(rating.rater for rating in ratings)
    for model in dict.fromkeys(rating.model for rating in ratings):
        for rater in (*raters, ALL):
            said = Counter(
                rating.verdict
                for rating in ratings
                if rating.model == model and rater in (rating.rater, ALL)
            )
            if n := said.total():
                shares = (100 * said[verdict] / n for verdict in RATINGS)
                low, high = wilson_interval(said["right"], n)
                rows.append((model, rater, n, *shares, interval(100 * low, 100 * high)))
    columns = ("model", "rater", "n", *(f"{verdict} %" for verdict in RATINGS), "right, 95 %")
    note = (
        "People judge the caption against the picture; the model was hidden. Wilson's interval; "
        f"`{ALL}` counts every rating, so its interval is too narrow where raters share captions."
    )
    return Table("Ratings by model", columns, rows, note)


def measure_agreement(ratings: Iterable[Rating], first: str, second: str) -> Kappa:
    said: dict[str, dict[str, str]] = {}
    for rating in ratings:
        said.setdefault(rating.caption, {})[rating.rater] = rating.verdict
    both = [(by[first], by[second]) for by in said.values() if first in by and second in by]
    return cohen_kappa(both)


def _kappa_table(ratings: Sequence[Rating]) -> Table:
    rows: list[Cells] = []
    models = [*dict.fromkeys(rating.model for rating in ratings)]
    pairs = combinations(dict.fromkeys(rating.rater for rating in ratings), 2)
    for first, second in pairs:
        for model in (*models, ALL):
            own = [rating for rating in ratings if model in (rating.model, ALL)]
            kappa = measure_agreement(own, first, second)
            ends = interval(kappa.low, kappa.high, ".2f")
            cells = (kappa.n, 100 * kappa.agreed, or_dash(kappa.value, ".2f"), ends)
            rows.append((f"{first} – {second}", model, *cells))
    note = (
        f"Cohen's kappa of {', '.join(RATINGS)} on captions that both rated, and its 95 % interval "
        "by drawing captions with replacement. Without a second rater there is none."
    )
    columns = ("raters", "model", "n", "agree %", "kappa", "95 %")
    return Table("Agreement of raters", columns, rows, note)
