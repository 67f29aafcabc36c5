"""`reproduce`: makes the paper's tables from the given inputs, beside the paper's numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from earmark.errors import EarmarkError, internal_error
from earmark.media.atomic_file import write_whole
from earmark.redaction import redact
from earmark.text_format import counted
from earmark.version import VERSION
from earmark_lab.experiments.report import (
    Cells,
    Drawing,
    Report,
    Table,
    can_draw,
    interval,
    mean,
    plain,
    png,
)
from earmark_lab.metrics.counts import CoverageCounts, MatchCounts, or_dash, share
from earmark_lab.metrics.statistics import bootstrap_ratio
from earmark_lab.reproduce.inputs import NEEDS, PaperInputs, Value
from earmark_lab.reproduce.printed import PRINTED, Printed

COLUMNS = ("quantity", "paper", "ours", "difference", "n", "95 % interval", "what ran", "remarks")

Values = Sequence[float]


@dataclass(frozen=True, slots=True)
class Comparison:
    quantity: str
    paper: Printed
    ours: float | str | None = None
    n: str = ""
    """Such as `24 recordings`."""
    low: float = math.nan
    """Of the interval over recordings or seeds; nan if there is none."""
    high: float = math.nan
    ran: str = ""
    """Encoder, data and weights; what is missing if nothing ran."""
    remarks: str = ""

    @classmethod
    def missing(cls, quantity: str, paper: Printed, why: str) -> Comparison:
        return cls(quantity, paper, ran=f"not run: {why}")

    @classmethod
    def pooled(
        cls, quantity: str, paper: Printed, parts: Values, wholes: Values, **text: str
    ) -> Comparison:
        """`sum(parts) / sum(wholes)` in per cent, and its interval over recordings."""
        low, high = (100 * end for end in bootstrap_ratio(parts, wholes))
        percentage = 100 * share(sum(parts), sum(wholes))
        return cls(quantity, paper, percentage, low=low, high=high, **text)

    @classmethod
    def coverage(
        cls, quantity: str, paper: Printed, counts: Collection[CoverageCounts], **text: str
    ) -> Comparison:
        covered = [recording.covered for recording in counts]
        actions = [recording.actions for recording in counts]
        text = {"n": f"{sum(actions)} actions", **text}
        return cls.pooled(quantity, paper, covered, actions, **text)

    @classmethod
    def mean(cls, quantity: str, paper: Printed, values: Values, **text: str) -> Comparison:
        low, high = bootstrap_ratio(values, [1.0] * len(values))
        return cls(quantity, paper, mean(values), low=low, high=high, **text)

    @classmethod
    def over_seeds(cls, quantity: str, paper: Printed, values: Values, **text: str) -> Comparison:
        text = {"n": counted(len(values), "seed"), **text}
        low, high = min(values, default=math.nan), max(values, default=math.nan)
        average = float(np.mean(values)) if values else None
        return cls(quantity, paper, average, low=low, high=high, **text)

    @property
    def difference(self) -> float:
        if isinstance(self.ours, str | None) or isinstance(self.paper, str | None):
            return math.nan
        return self.ours - self.paper

    def to_json(self) -> dict[str, Any]:
        return {name: plain(value) for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Comparison:
        ends = {end: math.nan if row[end] is None else row[end] for end in ("low", "high")}
        return cls(**{**row, **ends})

    def cells(self) -> Cells:
        gap, ends = self.difference, interval(self.low, self.high)
        signed = or_dash(gap, "+,.2f") if math.isnan(gap) or round(gap, 2) else "0"
        numbers = (_format_value(self.paper), _format_value(self.ours), signed)
        return (self.quantity, *numbers, self.n, ends, self.ran, self.remarks)


def _format_value(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return "—"
    says_all = abs(round(value, 2) - value) < 1e-9
    return f"{value:,.10g}" if says_all else f"{value:,.2f}"


def boundary_rows(
    matches: Mapping[tuple[str, float], MatchCounts], *, n: str, ran: str
) -> Iterator[Comparison]:
    for (name, tolerance), counts in matches.items():
        quantity = f"B-F1 at {tolerance:g} s, {name}, %"
        paper = PRINTED["boundaries"].get(quantity.replace(", segments,", ", episodes,"))
        yield Comparison(quantity, paper, 100 * counts.f1, f"{counts.found} {n}", ran=ran)


def mean_std(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.1f}, 1 seed"
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f} over {len(values)} seeds"


Made = Comparison | Table | Drawing


@dataclass(frozen=True, slots=True)
class Artefact:
    name: str
    title: str
    place: str
    module: str
    """Of this package; its function `make_` and the name yields `Made`."""
    needs: str = ""
    """Keys of `NEEDS`, with spaces."""

    def missing_inputs(self, inputs: PaperInputs) -> str:
        return "; ".join(NEEDS[need] for need in self.needs.split() if inputs.lacks(need))

    def make(self, inputs: PaperInputs) -> list[Made]:
        """An error, a bug included, becomes a row with the reason.

        Numbers of the paper that were not made follow as rows of their own.
        """
        try:
            if absent := self.missing_inputs(inputs):
                raise EarmarkError(f"bring {absent}")
            module = import_module(f".{self.module}", __package__)
            made = list(getattr(module, f"make_{self.name.replace('-', '_')}")(inputs))
            why = "not made from these inputs"
        except EarmarkError as error:
            made, why = [], redact(str(error))
        except Exception as error:  # noqa: BLE001 - the other tables are made
            made, why = [], redact(str(internal_error(f"table {self.name}", error)))
        made = made or [Comparison.missing("the whole of it", "in the paper", why)]
        names = {part.quantity for part in made if isinstance(part, Comparison)}
        rest = {name: value for name, value in self.printed.items() if name not in names}
        return [*made, *(Comparison.missing(name, value, why) for name, value in rest.items())]

    @property
    def printed(self) -> Mapping[str, Printed]:
        return PRINTED.get(self.name, {})


_ALONE, _COVERAGE = "annotated", "coverage"
_EPISODES, _TRAINING = "episodes", "trainings"
_SCORED, _HEARD, _TRAINED = "marks scores", "marks audio", "marks audio train"

_ROWS = {
    "methods": ("Systems compared", "Table I", _ALONE, ""),
    "occupancy": ("Occupancy of each data set", "Table II", _ALONE, "epic"),
    "sets": ("The two evaluation sets", "Sec. IV-A, IV-C", _ALONE, "epic"),
    "blind": ("Every recording, even spacing", "Table VII", _ALONE, "epic"),
    "windows": ("Windows and occupancy by length", "Table VIII", _ALONE, "epic"),
    "cost": ("The cost of calls", "Sec. III-A, IV-E, V", _ALONE, ""),
    "settings": ("Training configuration", "Table IX", _TRAINING, "train"),
    "paired": ("Paired comparison, EK-100", "Tables III, V", _COVERAGE, _SCORED),
    "coverage": ("Coverage by rule and set, the plane", "Fig. 4 (b), (c)", _COVERAGE, _SCORED),
    "savings": ("Calls saved at equal coverage", "Fig. 4 (d)", _COVERAGE, _SCORED),
    "correlation": ("Gain against occupancy", "Sec. IV-B", _COVERAGE, _SCORED),
    "recordings": ("Every recording, the paper's rule", "Table VII", _COVERAGE, _SCORED),
    "window-gains": ("Ranking by window length", "Table VIII", _COVERAGE, _SCORED),
    "frontlines": (
        "Every frontline at a quarter of the calls", "Fig. 4 (b), Sec. IV-E", _COVERAGE, _HEARD,
    ),
    "sparse": (
        "Sparse footage: every frontline and rule", "Sec. V, VI (open there)", "sparse", _HEARD,
    ),
    "placement": (
        "Windows and frames chosen together", "Sec. V (open there)", "placement", _HEARD,
    ),
    "operating-points": (
        "Operating points and the undercount", "Sec. III-A, IV-C, IV-D, Table IX", _EPISODES,
        _HEARD,
    ),
    "downsampling": ("Looks in the discarded stream", "Sec. IV-F", _EPISODES, _HEARD),
    "boundaries": ("Boundaries and events", "Sec. III-B, IV-E", _EPISODES, _HEARD),
    "strip": ("Sixty seconds of stream", "Fig. 3", _EPISODES, _SCORED),
    "objective": (
        "Training objective: span against frame", "Fig. 4 (a), Sec. IV-D", "objective", _TRAINED,
    ),
    "transfer": ("One head over five encoders", "Table IV", _TRAINING, _TRAINED),
    "segmentation": (
        "The segmentation head on the domain's own classes", "Sec. III-B, IV-A, IV-E", _TRAINING,
        "epic events audio train",
    ),
    "ablation": (
        "In-domain sound classes against none", "Table IV, Sec. IV-D", _TRAINING,
        "epic events audio train",
    ),
    "ego4d": (
        "Ego4D: the clips and the paired comparison", "Tables III, VI, Fig. 5", _COVERAGE, "ego4d",
    ),
    "captions": (
        "Naming: frames, crops, prompts, allowances, composition", "Sec. IV-D, IV-F",
        "captions", "epic audio video vlm",
    ),
}  # fmt: skip

ARTEFACTS = {name: Artefact(name, *row) for name, row in _ROWS.items()}
"""In the order they are made: from annotations, listening, training, captions."""

ROWS = "comparisons.json"
FIGURES = "figures.json"


def check_names(names: Sequence[str]) -> list[str]:
    if unknown := [name for name in names if name not in ARTEFACTS]:
        raise ValueError(f"no table {unknown[0]!r}; there are {', '.join(ARTEFACTS)}")
    return list(names) or list(ARTEFACTS)


def reproduce(
    names: Sequence[str],
    inputs: PaperInputs,
    *,
    announce: Callable[[str, str], None] = lambda *_: None,
) -> Report:
    """Make the tables `names` (all if empty) as far as inputs allow, and write the page.

    The same command resumes a stopped run. A table that fails has rows with the reason, and the
    others are made. Tables of earlier runs that are not among `names` stay on the page.
    """
    folder = inputs.folder
    read = _load(folder / ROWS, lambda rows: [Comparison.from_json(row) for row in rows])
    comparisons = {name: rows for name, rows in read.items() if name in ARTEFACTS}
    drawn = {
        key: caption
        for key, caption in _load(folder / FIGURES, str).items()
        if key.rpartition("-")[0] in ARTEFACTS and (folder / f"{key}.png").is_file()
    }
    tables = {name: [_comparison_table(name, rows)] for name, rows in comparisons.items()}
    report = _report(inputs, tables, {})
    for name in check_names(names):
        announce(name, ARTEFACTS[name].missing_inputs(inputs))
        parts = ARTEFACTS[name].make(inputs)
        more = [part for part in parts if isinstance(part, Table)]
        comparisons[name] = [part for part in parts if isinstance(part, Comparison)]
        tables[name] = [_comparison_table(name, comparisons[name])]
        tables[name] += [replace(part, title=f"{name}: {part.title}") for part in more]
        drawn = {key: caption for key, caption in drawn.items() if not key.startswith(f"{name}-")}
        for part in parts if can_draw() else ():
            if isinstance(part, Drawing):
                write_whole(folder / f"{name}-{part.name}.png", png(part.draw()))
                drawn[f"{name}-{part.name}"] = part.caption
        rows = {table: [row.to_json() for row in rows] for table, rows in comparisons.items()}
        for path, content in ((ROWS, rows), (FIGURES, drawn)):
            write_whole(folder / path, json.dumps(content, indent=1, allow_nan=False))
        report = _report(inputs, tables, drawn)
        report.write(folder)
    return report


def _comparison_table(name: str, rows: Sequence[Comparison]) -> Table:
    title = f"{name}: {ARTEFACTS[name].title} ({ARTEFACTS[name].place})"
    return Table(title, COLUMNS, [row.cells() for row in rows])


def _load(path: Path, read: Callable[[Any], Value]) -> dict[str, Value]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {name: read(value) for name, value in content.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def summary_table(inputs: PaperInputs, tables: Mapping[str, Sequence[Table]]) -> Table:
    rows: list[Cells] = []
    for name, artefact in ARTEFACTS.items():
        cells = tables[name][0].rows if name in tables else ()
        count = sum(row[2] != "—" for row in cells)
        state = f"{count} of {len(cells)} numbers" if cells else "not asked for"
        rows.append((name, artefact.place, artefact.title, state, artefact.missing_inputs(inputs)))
    return Table("Summary", ("table", "in the paper", "what it is", "made", "bring"), rows)


def _report(
    inputs: PaperInputs, tables: Mapping[str, Sequence[Table]], drawn: Mapping[str, str]
) -> Report:
    plan, ordered = inputs.plan, [table for name in ARTEFACTS for table in tables.get(name, ())]
    sound = "sound: none given"
    if inputs.media:
        sound = (
            f"sound: {plan.sound}, {len(inputs.media)} recordings; {inputs.split.description}; "
            f"listening with {', '.join(plan.frontlines)}; heads over {', '.join(plan.encoders)}"
        )
    notes = (
        f"earmark {VERSION}; {plan.seeds} seed{'s' * (plan.seeds > 1)}, "
        "intervals of 95 % over recordings by bootstrap",
        sound,
        "ours is what ran here, under the name of what it is; a dash was not made: see what ran",
    )
    settings = {"experiment": "reproduce", **plan.to_json(), "material": inputs.fingerprint}
    order = sorted(drawn, key=lambda key: list(ARTEFACTS).index(key.rpartition("-")[0]))
    figures = tuple(
        Drawing(key, drawn[key], (inputs.folder / f"{key}.png").read_bytes) for key in order
    )
    title, all_tables = "The paper beside what runs here", (summary_table(inputs, tables), *ordered)
    return Report(title, settings, all_tables, figures, notes, lead=1)
