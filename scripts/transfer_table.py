"""The paper's transfer table: one span-level head over several frozen encoders.

    python scripts/transfer_table.py DATA RUNS --encoders log-mel yamnet --seeds 5

DATA holds `resound/` and `epic/`; RUNS keeps features and runs (a stopped one goes on). For every
encoder and seed a `span` gate is trained on the development participants, its threshold set to a
development recall of 93 %, and recall and reduction are counted on the held-out recordings. The
published encoders work the same once their checkpoint is on the shelf (`earmark models add`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import composites
import numpy as np
import torch
from make_default_gate import commit, show

from earmark.evaluate.metrics import Kept, count_kept
from earmark.gate.gate import Gate
from earmark.hear import encoder_named
from earmark.timeline import Track
from earmark.train.material import Material, gather
from earmark.train.recipe import Origin, train
from earmark.train.settings import recommended

RECALL = 0.93
WINDOW = 4.0


def main() -> None:
    """Train what is missing, judge all of it, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--encoders", nargs="+", default=["log-mel", "yamnet"])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [judge(options.data, options.runs, name, options.seeds) for name in options.encoders]
    print(f"Composites, not kitchen audio; {options.seeds} seeds, dev recall target {RECALL:.0%}\n")
    print(
        "| encoder (span-level head) | recall (%) | reduction (%) | seed range |\n|---|---|---|---|"
    )
    print("\n".join(rows))


def judge(data: Path, runs: Path, encoder: str, seeds: int) -> str:
    """One row of the table."""
    channels = encoder_named(encoder).channels
    settings = recommended(encoder, channels, objective="span", seeds=seeds)
    develop, test = (
        gather(each, composites.media(data), encoder=encoder, cache=runs / "features")
        for each in composites.annotations(data)
    )
    folder = runs / f"transfer-{encoder}"
    origin = Origin(composites.DATA, composites.LICENCE, commit())
    train(develop, settings, folder=folder, origin=origin, watch=show)
    kept = [keep(Gate.load(folder / f"seed-{seed}.gate"), test) for seed in settings.all_seeds]
    recall, reduction = (
        np.array([100 * getattr(one, name) for one in kept]) for name in ("recall", "reduction")
    )
    return (
        f"| {encoder} | {recall.mean():.1f} ± {recall.std(ddof=1):.1f} | "
        f"{reduction.mean():.1f} ± {reduction.std(ddof=1):.1f} | "
        f"{reduction.min():.0f}-{reduction.max():.0f} |"
    )


def keep(gate: Gate, test: Material) -> Kept:
    """What the episodes of `gate` keep and reach over all test recordings."""
    rule = gate.episodes(recall=RECALL)
    total = Kept()
    for heard in test.values():
        features = Track(heard.features)
        episodes = list(rule(list(gate.scorer([features]))))
        total += count_kept(heard.actions, episodes, heard.duration, window=WINDOW)
    return total


if __name__ == "__main__":
    main()
