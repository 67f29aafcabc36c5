"""One self-contained HTML page of an experiment: its notes, figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from earmark.evaluation.tables.table import Table
from earmark.reporting.html_document import assemble, embed_image, escape

STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --soft: #6b7280; --line: #e5e7eb; --page: #fff;
        --head: #f3f4f6; --link: #1d4ed8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --soft: #9ca3af; --line: #374151;
        --page: #111827; --head: #1f2937; --link: #93c5fd; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
       max-width: 72rem; margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.6rem; margin-bottom: .25rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
ul.notes, .note { color: var(--soft); font-size: .9rem } ul.notes { padding-left: 1.1rem }
nav { font-size: .9rem; margin: 1rem 0 } nav a { margin-right: 1.1rem; white-space: nowrap }
a { color: var(--link) } figure { margin: 1.5rem 0 }
figure img { max-width: 100%; min-width: 46rem; background: #fff; border-radius: 6px }
figcaption { color: var(--soft); font-size: .9rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .88rem;
       font-variant-numeric: tabular-nums }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
       white-space: nowrap } th { background: var(--head); font-weight: 600 }
th:first-child, td:first-child, .words { text-align: left }
.words { white-space: normal; min-width: 11rem; line-height: 1.3 }
td.words:not(:first-child) { font-size: .8rem; color: var(--soft) }
tr.block td { border-top: 2px solid var(--line) } tr.block:first-child td { border-top: 0 }
"""


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
    """The page as HTML, all in one file: `figures` are PNG by caption.

    They stand after the first `lead` tables. `more` is markup that comes after the tables, and
    `style` the CSS for it.
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
    return assemble(title, f"{head}{first}{drawn}{rest}{more}", style=STYLE + style)
