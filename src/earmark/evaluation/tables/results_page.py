"""One self-contained HTML page of an experiment: its notes, figures and tables."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence

from earmark.evaluation.tables.table import Table

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
th:first-child, td:first-child { text-align: left }
tr.block td { border-top: 2px solid var(--line) } tr.block:first-child td { border-top: 0 }
"""


def page(
    title: str,
    *,
    notes: Sequence[str],
    figures: Mapping[str, tuple[str, bytes]],
    tables: Sequence[Table],
) -> str:
    """The page as HTML, all in one file; `figures` are a caption and PNG bytes by name."""
    points = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    drawn = "".join(
        f"<figure><div class='scroll'><img alt='{html.escape(caption, quote=True)}' "
        f"src='data:image/png;base64,{base64.b64encode(image).decode()}'></div>"
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, image in figures.values()
    )
    links = "".join(f"<a href='#{table.slug}'>{html.escape(table.title)}</a> " for table in tables)
    body = "".join(table.to_html() for table in tables)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        f"<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1><ul class='notes'>{points}</ul>"
        f"<nav>{links}</nav>{drawn}{body}</body></html>\n"
    )
