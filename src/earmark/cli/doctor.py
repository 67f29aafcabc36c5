"""`earmark doctor`: lists the model servers and extras on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple
from typing import Annotated

import typer

from earmark.captioning.discovery import DEFAULT_ADDRESSES, Discovery
from earmark.captioning.discovery import doctor as look_around
from earmark.reporting.console import Format, emit_json, err, print_table


def doctor(
    vlm: Annotated[
        list[str] | None, typer.Option(help="Check this address instead; may be repeated.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Longest time of one attempt, in seconds.")
    ] = 20.0,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list ports without a server.")
    ] = False,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
) -> None:
    """List the model servers on the usual ports of this machine, and the installed extras.

    Each model that is found is sent a tiny picture, to check that it accepts
    pictures.

    For example:

      earmark doctor

      earmark doctor --vlm http://gpu-box:8000/v1 --format json
    """
    findings = look_around({url: url for url in vlm} if vlm else DEFAULT_ADDRESSES, timeout=timeout)
    if format is Format.json:
        emit_json([asdict(finding) for finding in findings])
        return
    shown = [finding for finding in findings if vlm or everything or finding.state != "silent"]
    columns = ("what", "name", "state", "address", "model", "detail")
    print_table(columns, map(astuple, shown), words=columns)
    err.print(advice(findings))


def advice(findings: Sequence[Discovery]) -> str:
    """One line that says which options to use, or what to install."""
    for finding in findings:
        if finding.state == "ready":
            return f"ask it with --vlm {finding.address} --model {finding.model}"
    is_here = any(found.name == "local" and found.state == "installed" for found in findings)
    cure = "" if is_here else ": pip install 'earmark[local]'"
    way = "the shortest way to a model is a GGUF file, with --gguf"
    return f"no server takes pictures here; {way}{cure}"
