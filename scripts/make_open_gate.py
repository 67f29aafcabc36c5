"""Makes the open gate from made recordings: open sounds, open timings and physical models alone.

    python scripts/make_open_gate.py DATA RUNS [--out src/earmark/gate/open.gate]

DATA holds `open_sounds/` and the annotated timings (docs/sites.md); in RUNS features and trainings
are kept (a stopped run goes on). Heads are trained on the authors and annotated recordings of the
part `train`, and the gate is calibrated on those of `dev`; `test` is for `site_table.py`. With
`--families` one more gate is made for each family, without its timings and its group of sounds.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

import torch
from families import FAMILIES
from make_default_gate import HOURS, SEEDS, commit, show

from earmark_lab.sites.site import SiteGenerator
from earmark_lab.training.gate_training import Provenance, train_gate
from earmark_lab.training.settings import Settings
from earmark_lab.training.site_material import MadeMaterial, gather_sites

DATA = (
    "made recordings, not site audio: sounds under CC0 and CC BY 3.0 (NOTICE lists their authors) "
    "and sounds of physical models, at the times of EgoExoLearn, GoalStep, CaptainCook4D (MIT), "
    "factory10k (Apache-2.0) and simulated workers"
)
LICENCE = "Apache-2.0"


def main() -> None:
    """Train what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--families", nargs="*", choices=FAMILIES, default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="where the gate of all families is copied to")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    pools = {part: gather(options.data, options.runs, part) for part in HOURS}
    for family in ("all", *options.families):
        make(pools, options.runs / f"out-{family}", family, seeds=options.seeds)
    if options.out:
        shutil.copyfile(options.runs / "out-all" / "gate.gate", options.out)
        print(f"wrote {options.out} ({options.out.stat().st_size / 1000:.0f} kB)")


def gather(data: Path, runs: Path, part: str) -> MadeMaterial:
    """The made recordings of one part."""
    return gather_sites(
        SiteGenerator(data, part),
        hours=HOURS[part],
        seed=SEEDS[part],
        encoder=Settings().encoder,
        cache=runs / "features",
        watch=lambda what, done, total: print(f"\r{what} {done}/{total}", end="", flush=True),
    )


def make(pools: dict[str, MadeMaterial], folder: Path, family: str, *, seeds: int) -> None:
    """Train the gate that has not met `family`, and say how it did."""
    timings, sounds = FAMILIES.get(family, ((), ()))
    parts = {
        part: {
            f"{part}-{name}": replace(recording, name=f"{part}-{name}")
            for name, recording in pool.without(timings=timings, sounds=sounds).items()
        }
        for part, pool in pools.items()
    }
    trained = train_gate(
        {**parts["train"], **parts["dev"]},
        Settings(seeds=seeds, made=0),
        folder=folder,
        origin=Provenance(DATA, LICENCE, commit()),
        held_out=sorted(parts["dev"]),
        watch=show,
    )
    for name, shares in trained.coverage.items():
        row = " ".join(f"{100 * value:5.1f}" for value in shares.values())
        print(f"without {family}, {name}: coverage of those calibrated on (made) {row}")


if __name__ == "__main__":
    main()
