"""`reproduce`: makes the paper's tables from the given inputs, beside the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from earmark.errors import EarmarkError, internal_error
from earmark.evaluation.experiment_report import Drawing, ExperimentReport
from earmark.evaluation.tables.figures import can_draw, png
from earmark.evaluation.tables.table import Cells, Table
from earmark.media.atomic_file import write_whole
from earmark.redaction import redact
from earmark.reproduction.comparison import COLUMNS, Comparison, Made
from earmark.reproduction.paper_artefacts import ARTEFACTS
from earmark.reproduction.paper_inputs import PaperInputs, Value
from earmark.version import VERSION

ROWS = "comparisons.json"
"""The file of all rows by table, from which later runs keep the tables on the page."""

FIGURES = "figures.json"
"""The file of the figures' captions, for the same purpose."""


def check_names(names: Sequence[str]) -> list[str]:
    """The tables to make: `names`, or all if empty; `ValueError` for an unknown name."""
    return [name for name in names if ARTEFACTS.named(name)] or list(ARTEFACTS)


def list_artefacts(inputs: PaperInputs) -> list[dict[str, str]]:
    """Every table and figure with its place in the paper and its missing inputs."""
    return [
        {"name": name, "place": row.place, "title": row.title, "bring": row.missing_inputs(inputs)}
        for name, row in ARTEFACTS.items()
    ]


def reproduce(
    names: Sequence[str],
    inputs: PaperInputs,
    *,
    announce: Callable[[str, str], None] = lambda *_: None,
) -> ExperimentReport:
    """Make the tables `names` (all if empty) as far as inputs allow, and write the page.

    `announce` is called with the name of each table before it is made, and its missing inputs.

    Scores, benchmark rows and trained heads are kept in the folder, so that the same command
    resumes a stopped run. A table that fails has rows with the reason, and the others are made.
    Tables of earlier runs that are not among `names` stay on the page.
    """
    folder = inputs.folder
    read = _load(folder / ROWS, lambda rows: [Comparison.from_json(row) for row in rows])
    kept = {name: rows for name, rows in read.items() if name in ARTEFACTS}
    drawn = {
        key: caption
        for key, caption in _load(folder / FIGURES, str).items()
        if key.rpartition("-")[0] in ARTEFACTS and (folder / f"{key}.png").is_file()
    }
    tables = {name: [_comparison_table(name, rows)] for name, rows in kept.items()}
    report = _report(inputs, tables, {})
    for name in check_names(names):
        announce(name, ARTEFACTS[name].missing_inputs(inputs))
        made = _make(name, inputs)
        more = [each for each in made if isinstance(each, Table)]
        kept[name] = [each for each in made if isinstance(each, Comparison)]
        tables[name] = [_comparison_table(name, kept[name])]
        tables[name] += [replace(each, title=f"{name}: {each.title}") for each in more]
        drawn = {key: caption for key, caption in drawn.items() if not key.startswith(f"{name}-")}
        for each in made if can_draw() else ():
            if isinstance(each, Drawing):
                write_whole(folder / f"{name}-{each.name}.png", png(each.draw()))
                drawn[f"{name}-{each.name}"] = each.caption
        rows = {table: [row.to_json() for row in rows] for table, rows in kept.items()}
        for path, plain in ((ROWS, rows), (FIGURES, drawn)):
            write_whole(folder / path, json.dumps(plain, indent=1, allow_nan=False))
        report = _report(inputs, tables, drawn)
        report.write(folder)
    return report


def _comparison_table(name: str, rows: Sequence[Comparison]) -> Table:
    title = f"{name}: {ARTEFACTS[name].title} ({ARTEFACTS[name].place})"
    return Table(title, COLUMNS, [row.cells() for row in rows])


def _load(path: Path, read: Callable[[Any], Value]) -> dict[str, Value]:
    """What an earlier run kept in `path`, by name; empty if it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: read(value) for name, value in found.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _make(name: str, inputs: PaperInputs) -> list[Made]:
    """Make one table; an error, a bug included, becomes rows with the reason."""
    try:
        return ARTEFACTS[name].make(inputs)
    except EarmarkError as error:
        return ARTEFACTS[name].unavailable(redact(str(error)))
    except Exception as error:  # noqa: BLE001 - the other tables are made
        return ARTEFACTS[name].unavailable(redact(str(internal_error(f"table {name}", error))))


def summary_table(inputs: PaperInputs, tables: Mapping[str, Sequence[Table]]) -> Table:
    """How much of each table and figure was made, and which inputs the rest needs."""
    rows: list[Cells] = []
    for name, artefact in ARTEFACTS.items():
        cells = tables[name][0].rows if name in tables else ()
        made = sum(row[2] != "—" for row in cells)
        state = f"{made} of {len(cells)} numbers" if cells else "not asked for"
        rows.append((name, artefact.place, artefact.title, state, artefact.missing_inputs(inputs)))
    return Table("Summary", ("table", "in the paper", "what it is", "made", "bring"), rows)


def _report(
    inputs: PaperInputs, tables: Mapping[str, Sequence[Table]], drawn: Mapping[str, str]
) -> ExperimentReport:
    plan, ordered = inputs.plan, [each for name in ARTEFACTS for each in tables.get(name, ())]
    heard = "sound: none given"
    if inputs.media:
        heard = (
            f"sound: {plan.audio_is}, {len(inputs.media)} recordings; {inputs.split.description}; "
            f"listening with {', '.join(plan.frontlines)}; heads over {', '.join(plan.encoders)}"
        )
    notes = (
        f"earmark {VERSION}; {plan.seeds} seed{'s' * (plan.seeds > 1)}, "
        "intervals of 95 % over recordings by bootstrap",
        heard,
        "ours is what ran here, under the name of what it is; a dash was not made: see what ran",
    )
    settings = {"experiment": "reproduce", **plan.to_json(), "material": inputs.fingerprint}
    order = sorted(drawn, key=lambda key: list(ARTEFACTS).index(key.rpartition("-")[0]))
    figures = tuple(
        Drawing(key, drawn[key], (inputs.folder / f"{key}.png").read_bytes) for key in order
    )
    title, shown = "The paper beside what runs here", (summary_table(inputs, tables), *ordered)
    return ExperimentReport(title, settings, shown, figures, notes, lead=1)
