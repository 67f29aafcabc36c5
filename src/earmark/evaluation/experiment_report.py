"""The report of an experiment, and the folder that holds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import LedgerError
from earmark.evaluation.tables.figures import can_draw, png
from earmark.evaluation.tables.table import Table
from earmark.media.atomic_file import write_whole
from earmark.reporting.html_document import assemble, embed_image
from earmark.selection.notebook import escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = "run.json"

PAGES = ("tables.md", "tables.json", "index.html")
"""What every report writes beside its tables and figures."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure that is drawn on writing, if Matplotlib is installed."""

    name: str
    """File name without suffix."""
    caption: str
    draw: Callable[[], Figure | bytes]
    """Draws the figure, or returns it as PNG."""


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """Tables, figures and notes of one experiment."""

    title: str
    settings: dict[str, Any]
    """Every choice of the run, as plain values."""
    tables: tuple[Table, ...]
    figures: tuple[Drawing, ...] = ()
    notes: tuple[str, ...] = ()
    lead: int = 0
    """Number of tables before the figures on the page."""

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values; figures by name only."""
        return {
            "title": self.title,
            "settings": self.settings,
            "notes": list(self.notes),
            "tables": [table.to_json() for table in self.tables],
            "figures": [f"{each.name}.png" for each in self.figures if can_draw()],
        }

    def to_markdown(self) -> str:
        """All tables, with the notes before them."""
        head = [f"# {self.title}", "", *(f"- {note}" for note in self.notes), ""]
        return "\n".join(head) + "\n" + "\n".join(table.to_markdown() for table in self.tables)

    def write(self, folder: Path) -> None:
        """Write Markdown, JSON, one HTML page and PNG into `folder`, and CSV into its `tables/`."""
        drawn = [(each, png(each.draw())) for each in self.figures if can_draw()]
        shown = {each.caption: image for each, image in drawn}
        whole = make_results_page(
            self.title, notes=self.notes, tables=self.tables, figures=shown, lead=self.lead
        )
        written = json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"
        texts = dict(zip(PAGES, (self.to_markdown(), written, whole), strict=True))
        assert len({table.slug for table in self.tables}) == len(self.tables), "one file a table"
        texts |= {f"tables/{table.slug}.csv": table.to_csv() for table in self.tables}
        contents = {name: text.encode() for name, text in texts.items()}
        contents |= {f"{each.name}.png": image for each, image in drawn}
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_whole(folder / name, content)


def make_results_page(
    title: str,
    *,
    notes: Sequence[str],
    tables: Sequence[Table],
    figures: Mapping[str, bytes] | None = None,
    lead: int = 0,
    more: str = "",
    style: str = "",
) -> str:
    """The page as one HTML file: `figures` are PNG images by caption.

    The figures follow the first `lead` tables. `more` is markup after the tables, and `style` is
    its CSS.
    """
    points = "".join(f"<li>{escape(note)}</li>" for note in notes)
    links = "".join(f"<a href='#{table.slug}'>{escape(table.title)}</a> " for table in tables)
    drawn = "".join(
        f"<figure><div class='scroll'><img alt='{escape(caption)}' "
        f"src='{embed_image(image, 'image/png')}'></div>"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
        for caption, image in (figures or {}).items()
    )
    first, rest = ("".join(t.to_html() for t in part) for part in (tables[:lead], tables[lead:]))
    head = f"<h1>{escape(title)}</h1><ul class='notes'>{points}</ul><nav>{links}</nav>"
    own = files("earmark.evaluation").joinpath("results_page.css").read_text("utf-8")
    return assemble(title, f"{head}{first}{drawn}{rest}{more}", style=own + style)


def claim_folder(
    folder: Path, settings: Mapping[str, Any], *, fresh: bool = False, rows: Sequence[str] = ()
) -> bool:
    """Reserve `folder` for a run with `settings`; True if it resumes a run with the same ones.

    A new run deletes `rows`, the files that an earlier run would be resumed from, and nothing
    else.

    Raises:
        LedgerError: the folder holds a run with other settings, or pages of another origin, and
            `fresh` is not set.
    """
    path, plain = folder / SETTINGS, json.loads(json.dumps(settings))
    cure = "choose another --out, or replace it with --fresh"
    if path.exists() and not fresh:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = f"{path} cannot be read ({error}); remove it or use --fresh"
            raise LedgerError(why) from error
        if not isinstance(found, dict):
            raise LedgerError(f"{path} holds no settings; remove it or use --fresh")
        if found == plain:
            return True
        changed = sorted(key for key in {*found, *plain} if found.get(key) != plain.get(key))
        other = found.get("experiment") != plain.get("experiment")
        what = "of another experiment" if other else f"with another {', '.join(changed)}"
        raise LedgerError(f"{folder} holds a run {what}; {cure}")
    taken = [name for name in (*PAGES, *rows) if (folder / name).exists()]
    if taken and not fresh:
        raise LedgerError(f"{folder} holds {', '.join(taken)} of another origin; {cure}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in rows:
        (folder / name).unlink(missing_ok=True)
    write_whole(path, json.dumps(plain, indent=2) + "\n")
    return False
