"""`earmark encoder`: published models, made ready for machines without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.models import PRETRAINED, require
from earmark.reporting.console import emit_json, out
from earmark.reporting.text_format import as_size

Name = Annotated[str, typer.Argument(help=f"One of {', '.join(PRETRAINED)}.")]
Checkpoint = Annotated[
    Path,
    typer.Option(
        envvar="EARMARK_CHECKPOINTS",
        help="The published checkpoint, or the folder that holds it under its published name.",
    ),
]


def export(
    name: Name,
    target: Annotated[Path, typer.Argument(help="The ONNX file to write.", dir_okay=False)],
    checkpoint: Checkpoint,
    drop_layers: Annotated[
        int, typer.Option(min=0, help="Leave out so many of a transformer's last layers.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the proof for machines.")] = False,
) -> None:
    """Write a published model as ONNX, which the core install can run, and prove it equal.

    The copy hears noise, clicks, a tone and silence; if a logit of it is off by more than 1e-4,
    nothing is written. With layers left out, only the embeddings mean anything.

    For example:

      earmark encoder export frame-mn10 frame_mn10.onnx --checkpoint frame_mn10_strong_1.pt
    """
    for library in ("torch", "onnxscript"):
        require(library, what="exporting an encoder")
    from earmark.features.pretrained.onnx_export import TOLERANCE, export

    done = export(name, checkpoint, target, dropped_layers=drop_layers)
    if json:
        proof = {"chunks": done.chunks, "difference": done.difference, "tolerance": TOLERANCE}
        emit_json({"name": name, "file": str(done.file), "size_bytes": done.size_bytes, **proof})
        return
    out.print(f"{done.file}: {as_size(done.size_bytes)}")
    out.print(
        f"logits of {done.chunks} chunks differ by at most {done.difference:.1e} "
        f"(allowed {TOLERANCE:.0e})"
    )
