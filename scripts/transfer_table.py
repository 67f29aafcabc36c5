"""The paper's transfer table: one span-level head over several frozen encoders.

    python scripts/transfer_table.py DATA RUNS --encoders log-mel yamnet --seeds 5

DATA holds `resound/` and `epic/`; RUNS keeps features and runs (a stopped one goes on). For every
encoder and seed a `span` gate is trained on the development participants, its threshold set to a
development recall of 93 %, and recall and reduction are counted on the held-out recordings. The
published encoders work the same once their checkpoint is in the model store (`earmark models add`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import composites
import numpy as np
import torch
from make_default_gate import commit, show

from earmark.evaluation.metrics.coverage_counts import EpisodeCounts, count_kept, dash
from earmark.evaluation.metrics.significance import welch
from earmark.features import encoder_named
from earmark.gate.gate import Gate
from earmark.timeline import Track
from earmark.training.dataset import Material, gather
from earmark.training.recipe import Provenance, train
from earmark.training.settings import recommended

RECALL = 0.93
WINDOW = 4.0


def main() -> None:
    """Train what is missing, judge all of it, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument(
        "--encoders", nargs="+", default=["log-mel", "yamnet", "energy", "flux", "variance"]
    )
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = {
        name: judge(options.data, options.runs, name, options.seeds) for name in options.encoders
    }
    print(f"Composites, not kitchen audio; {options.seeds} seeds, dev recall target {RECALL:.0%}\n")
    print("| encoder (span-level head) | recall (%) | reduction (%) | seed range | p |")
    print("|---|---|---|---|---|")
    first = next(iter(kept.values()))
    for name, seeds in kept.items():
        print(row(name, seeds, first))
    print("\np: Welch's test of the reduction against the first encoder's")


def judge(data: Path, runs: Path, encoder: str, seeds: int) -> list[EpisodeCounts]:
    """What each seed of one encoder keeps of the held-out recordings."""
    channels = encoder_named(encoder).channels
    settings = recommended(encoder, channels, objective="span", seeds=seeds)
    marked = composites.annotations(data)
    dense = [name for name in marked.recordings if not name.endswith(composites.SPARSE)]
    heard = gather(
        marked.only(dense), composites.media(data), encoder=encoder, cache=runs / "features"
    )
    test = {name: heard[name] for name in composites.old_test(dense)}
    develop = {name: each for name, each in heard.items() if name not in test}
    folder = runs / f"transfer-{encoder}"
    origin = Provenance(composites.DATA, composites.LICENCE, commit())
    train(develop, settings, folder=folder, origin=origin, watch=show)
    return [keep(Gate.load(folder / f"seed-{seed}.gate"), test) for seed in settings.all_seeds]


def row(encoder: str, kept: Sequence[EpisodeCounts], first: Sequence[EpisodeCounts]) -> str:
    """One row of the table: mean and standard deviation over seeds."""
    recall = 100 * np.array([each.recall for each in kept])
    reduction, against = (
        100 * np.array([each.reduction for each in seeds]) for seeds in (kept, first)
    )
    return (
        f"| {encoder} | {recall.mean():.1f} ± {recall.std(ddof=1):.1f} | "
        f"{reduction.mean():.1f} ± {reduction.std(ddof=1):.1f} | "
        f"{reduction.min():.0f}-{reduction.max():.0f} | "
        f"{'' if kept is first else dash(welch(reduction, against).p, '.2f')} |"
    )


def keep(gate: Gate, test: Material) -> EpisodeCounts:
    """What the episodes of `gate` keep and reach over all test recordings."""
    rule = gate.episodes(recall=RECALL)
    total = EpisodeCounts()
    for heard in test.values():
        features = Track(heard.features)
        episodes = list(rule(list(gate.scorer([features]))))
        total += count_kept(heard.actions, episodes, heard.duration, window=WINDOW)
    return total


if __name__ == "__main__":
    main()
