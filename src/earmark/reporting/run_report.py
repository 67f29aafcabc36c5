"""The report of a run: one page, or for many recordings an index and a page for each."""

from __future__ import annotations

from pathlib import Path

from earmark.ledger.records import spare_recordings
from earmark.ledger.run_reader import Run
from earmark.media.atomic_file import remove_stale
from earmark.reporting.report_page import PAGES, pictures_of, write_page

MOST_ON_A_PAGE = 24
"""Highest number of recordings on one page; if there are more, each gets a page, and an index links
to them."""


def write_report(run: Run, path: Path, *, title: str | None = None) -> Path:
    """Write the report of `run` to `path`: one page, or an index with a page per recording.

    `ValueError` if `path` is a recording of the run.
    """
    spare_recordings(run.recordings(), [path])
    for folder in (path.parent, path.parent / PAGES, pictures_of(path)):
        remove_stale(folder)
    if len(run.recordings()) <= MOST_ON_A_PAGE:
        return write_page(run, path, title=title)
    from earmark.reporting.archive_index import write_index  # only for many recordings

    return write_index(run, path, title=title)
