"""A progress bar over recordings being heard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from earmark.cli.console import err
from earmark.media import Source
from earmark.pipeline.triage import Watch


@contextmanager
def hearing_bar() -> Iterator[Watch]:
    """Draws how far listening has come, where a person is looking."""
    columns = (
        TextColumn("listening to {task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=None, visible=False)

        def watch(source: Source, seconds: float, total: float) -> None:
            bar.update(
                task,
                description=source.name,
                completed=min(seconds, total),
                total=total,
                visible=True,
            )

        yield watch
