from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import RunError
from earmark.media.atomic_file import write_whole
from earmark.report.report_page import assemble, embed_image
from earmark.text_format import escape, write_csv
from earmark_lab.metrics.counts import or_dash

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def png(drawn: Figure | bytes) -> bytes:
    if isinstance(drawn, bytes):
        return drawn
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=130)
    return buffer.getvalue()


SETTINGS = "run.json"
PER_RECORDING = "per_recording.csv"
PAGES = ("tables.md", "tables.json", "index.html")


@dataclass(frozen=True, slots=True)
class Drawing:
    name: str
    caption: str
    draw: Callable[[], Figure | bytes]


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    settings: dict[str, Any]
    tables: tuple[Table, ...]
    figures: tuple[Drawing, ...] = ()
    notes: tuple[str, ...] = ()
    lead: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "settings": self.settings,
            "notes": list(self.notes),
            "tables": [table.to_json() for table in self.tables],
            "figures": [f"{drawing.name}.png" for drawing in self.figures if can_draw()],
        }

    def to_markdown(self) -> str:
        head = [f"# {self.title}", "", *(f"- {note}" for note in self.notes), ""]
        return "\n".join(head) + "\n" + "\n".join(table.to_markdown() for table in self.tables)

    def write(self, folder: Path) -> None:
        """Markdown, JSON, one HTML page and PNG; CSV in `tables/`."""
        drawn = [(drawing, png(drawing.draw())) for drawing in self.figures if can_draw()]
        whole = self.to_html({drawing.caption: image for drawing, image in drawn})
        written = json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"
        texts = dict(zip(PAGES, (self.to_markdown(), written, whole), strict=True))
        assert len({table.slug for table in self.tables}) == len(self.tables), "one file a table"
        texts |= {f"tables/{table.slug}.csv": table.to_csv() for table in self.tables}
        contents = {name: text.encode() for name, text in texts.items()}
        contents |= {f"{drawing.name}.png": image for drawing, image in drawn}
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_whole(folder / name, content)

    def to_html(self, figures: Mapping[str, bytes]) -> str:
        """PNG by caption."""
        points = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        links = "".join(
            f"<a href='#{table.slug}'>{escape(table.title)}</a> " for table in self.tables
        )
        drawn = "".join(
            f"<figure><div class='scroll'><img alt='{escape(caption)}' "
            f"src='{embed_image(image, 'image/png')}'></div>"
            f"<figcaption>{escape(caption)}</figcaption></figure>"
            for caption, image in figures.items()
        )
        tables = [table.to_html() for table in self.tables]
        first, rest = "".join(tables[: self.lead]), "".join(tables[self.lead :])
        head = f"<h1>{escape(self.title)}</h1><ul class='notes'>{points}</ul><nav>{links}</nav>"
        style = files("earmark_lab.experiments").joinpath("results_page.css").read_text("utf-8")
        return assemble(self.title, f"{head}{first}{drawn}{rest}", style=style)


def claim_folder(folder: Path, settings: Mapping[str, Any]) -> None:
    """`RunError` if it holds a run with other settings, or pages of another origin."""
    path, plain = folder / SETTINGS, json.loads(json.dumps(settings))
    cure = "choose another --out, or delete that folder"
    if path.exists():
        try:
            earlier = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read ({error}); {cure}") from error
        if not isinstance(earlier, dict):
            raise RunError(f"{path} holds no settings; {cure}")
        if earlier == plain:
            return
        changed = sorted(key for key in {*earlier, *plain} if earlier.get(key) != plain.get(key))
        is_other = earlier.get("experiment") != plain.get("experiment")
        what = "of another experiment" if is_other else f"with another {', '.join(changed)}"
        raise RunError(f"{folder} holds a run {what}; {cure}")
    if pages := [name for name in (*PAGES, PER_RECORDING) if (folder / name).exists()]:
        raise RunError(f"{folder} holds {', '.join(pages)} of another origin; {cure}")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(plain, indent=2) + "\n")


MAX_LINE_CHARACTERS = 36
"""A column with a longer cell is wrapped."""

Cell = str | int | float
Cells = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: Sequence[Cells]
    note: str = ""
    decimals: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))

    def text(self, cell: Cell) -> str:
        return or_dash(cell, f".{self.decimals}f") if isinstance(cell, float) else str(cell)

    def to_markdown(self) -> str:
        lines = [f"### {self.title}", ""]
        head, *body = self.columns, *(map(self.text, row) for row in self.rows)
        escaped = [[cell.replace("|", "\\|") for cell in row] for row in (head, *body)]
        escaped.insert(1, ["---"] * len(self.columns))
        lines += [f"| {' | '.join(row)} |" for row in escaped]
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])

    def to_html(self) -> str:
        texts = [[self.text(cell) for cell in row] for row in self.rows]
        kinds = [
            " class='words'" if any(len(row[column]) > MAX_LINE_CHARACTERS for row in texts) else ""
            for column in range(len(self.columns))
        ]

        def cells(tag: str, row: Sequence[str]) -> str:
            pairs = zip(row, kinds, strict=True)
            return "".join(f"<{tag}{kind}>{escape(text)}</{tag}>" for text, kind in pairs)

        lines = zip(texts, self._blocks(), strict=True)
        body = "".join(f"<tr{mark}>{cells('td', row)}</tr>" for row, mark in lines)
        head = cells("th", self.columns)
        note = f"<p class='note'>{escape(self.note)}</p>" if self.note else ""
        return (
            f"<section id='{self.slug}'><h2>{escape(self.title)}</h2><div class='scroll'>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}</section>"
        )

    def _blocks(self) -> list[str]:
        firsts = [row[0] for row in self.rows]
        if len(set(firsts)) == len(firsts):
            return [""] * len(firsts)
        pairs = pairwise([None, *firsts])
        return [" class='block'" if before != first else "" for before, first in pairs]

    @property
    def slug(self) -> str:
        """As a file name.

        >>> Table("Calls saved against uniform, %", (), ()).slug
        'calls_saved_against_uniform'
        """
        return "_".join(re.findall(r"[a-z0-9.]+", self.title.lower()))

    def to_csv(self) -> str:
        text = io.StringIO()
        write_csv(text, self.columns, ([plain(cell) for cell in row] for row in self.rows))
        return text.getvalue()

    def to_json(self) -> dict[str, Any]:
        rows = [
            {column: plain(cell) for column, cell in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]
        return {"title": self.title, "rows": rows, "note": self.note}


def plain(value: Any) -> Any:
    """None for nan and infinity, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def percent(budget: float) -> str:
    return f"{100 * budget:g} %"


def mean(values: Iterable[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan


def interval(low: float, high: float, spec: str = ".1f") -> str:
    return or_dash(low) if math.isnan(low) else f"{or_dash(low, spec)} to {or_dash(high, spec)}"


def p_value(p: float) -> str:
    """As text.

    >>> p_value(0.0193), p_value(5.8e-4), p_value(3e-6)
    ('0.019', '5.8e-04', '<1e-4')
    """
    if math.isnan(p):
        return "—"
    return "<1e-4" if p < 1e-4 else f"{p:.1e}" if p < 1e-3 else f"{p:.3f}"
