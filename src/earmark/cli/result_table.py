"""Results as a table on stdout: one look for every command."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.table import Table

from earmark.cli.console import out


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    words: Collection[str] = (),
    whole: Collection[str] = (),
    title: str | None = None,
) -> None:
    """Print `rows` under `columns`: numbers to the right, and `words` to the left.

    On a narrow terminal cells are folded, but for those of the columns in `whole`.
    """
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for name in columns:
        side = "left" if name in words else "right"
        table.add_column(name, justify=side, overflow="fold", no_wrap=name in whole)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    out.print(table)
