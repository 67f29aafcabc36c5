"""The report of a run: one page, or an index of many recordings and a page for each."""

from __future__ import annotations

from pathlib import Path

from earmark.ledger.run_reader import Run
from earmark.media.atomic_file import remove_stale
from earmark.reporting.report_page import PAGES, pictures_of, write_page

MOST_ON_A_PAGE = 24
"""Recordings told on one page; with more, each gets its own and an index leads to them."""


def write_report(run: Run, path: Path, *, title: str | None = None) -> Path:
    """Write what `run` did to `path`: one page, or an index and a page a recording if many."""
    for folder in (path.parent, path.parent / PAGES, pictures_of(path)):
        remove_stale(folder)
    if len(run.recordings()) <= MOST_ON_A_PAGE:
        return write_page(run, path, title=title)
    from earmark.reporting.archive_index import write_index  # forecasts budgets over all of them

    return write_index(run, path, title=title)
