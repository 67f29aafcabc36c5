"""The commands of `earmark lab`."""

from __future__ import annotations

from collections.abc import Sequence

from earmark.cli import run
from earmark.cli.app import make_group

_COMMANDS = {
    "demo": "demo:demo",
    "evaluate": "evaluate:evaluate",
    "captions": "evaluate:captions",
    "ratings": "evaluate:ratings",
    "occupancy": "evaluate:occupancy",
    "cost": "evaluate:cost",
    "sites": "sites:sites",
    "train": "train:train",
    "adapt": "train:adapt",
    "reproduce": "reproduce:reproduce",
    "systems": "reproduce:systems",
}

lab = make_group(
    "lab",
    "Compare rules and frontlines, train a gate, reproduce the paper.",
    {name: f"earmark_lab.cli.{home}" for name, home in _COMMANDS.items()},
)


def main(args: Sequence[str] | None = None) -> None:
    """`earmark lab`, also a program of its own: `earmark-lab`."""
    run(lab, args, prog_name="earmark lab")
