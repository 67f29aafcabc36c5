"""Makes the gate that comes with earmark from the composites, dense and sparse together.

    python scripts/make_default_gate.py DATA RUNS

DATA is the folder that holds `resound/`, `shift/` and `epic/`; RUNS is where the runs are kept (a
stopped run goes on). The participants are divided into three parts. The gate that is put into the
package is trained on the second and third and calibrated on the first; `--splits 0 1 2` also trains
those that are calibrated on the others, for `gate_table.py` to judge the recipe on everybody.
What talk is, is learnt from recorded voices: see `voices.py` for the packages that hold them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import composites
import torch
import voices as spoken

import earmark
from earmark_lab.training.dataset import Material, fold, gather
from earmark_lab.training.gate_training import Provenance, Step, train_gate
from earmark_lab.training.settings import Settings
from earmark_lab.training.synthetic_recordings import gather_lone
from earmark_lab.training.synthetic_sound import Voices

SHIPPED = 0
"""The split whose gate comes with earmark."""


@dataclass(frozen=True, eq=False)
class Sources:
    """What a gate is trained on."""

    material: Material
    lone: Material
    voices: Voices


def main() -> None:
    """Train what is asked for, and put the shipped gate into the package."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--splits", nargs="*", type=int, choices=range(3), default=[SHIPPED])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--voices", type=Path, default=Path("/usr/share"))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    voices = spoken.read_voices(options.voices)
    material = gather_all(options.data, options.runs)
    lone = gather_lone(
        composites.annotations(options.data),
        composites.media(options.data),
        Settings(),
        cache=options.runs / "features",
        voices=voices,
    )
    sources = Sources(material, lone, voices)
    for split in options.splits:
        make(sources, options.runs, split=split, seeds=options.seeds)


def gather_all(data: Path, runs: Path) -> Material:
    """The features and actions of every composite."""
    return gather(
        composites.annotations(data),
        composites.media(data),
        encoder=Settings().encoder,
        cache=runs / "features",
        watch=lambda what, done, total: print(f"\r{what} {done}/{total}", end="", flush=True),
    )


def held_out(names: list[str]) -> list[list[str]]:
    """The recordings of each of the three parts that the participants are divided into."""
    first = composites.old_test(names)
    return [first, *fold([name for name in names if name not in first], folds=2)]


def make(sources: Sources, runs: Path, *, split: int, seeds: int) -> None:
    """Train the gate of one split and say how it did."""
    trained = train_gate(
        sources.material,
        Settings(seeds=seeds),
        folder=runs / f"split-{split}",
        origin=Provenance(composites.DATA, f"{composites.LICENCE}; {spoken.LICENCE}", commit()),
        held_out=held_out(sorted(sources.material))[split],
        lone=sources.lone,
        voices=sources.voices,
        watch=show,
    )
    for name, row in trained.coverage.items():
        shares = " ".join(f"{100 * value:5.1f}" for value in row.values())
        print(f"split {split} {name}: coverage of those calibrated on (composites) {shares}")
    if split == SHIPPED:
        package = Path(earmark.__file__).parent / "gate" / "default.gate"
        shutil.copyfile(runs / f"split-{split}" / "gate.gate", package)
        print(f"wrote {package} ({package.stat().st_size / 1000:.0f} kB)")


def show(step: Step) -> None:
    """Print one line of progress."""
    print(
        f"\rseed {step.seed} step {step.check.step}: loss {step.check.loss:.4f}, "
        f"dev {100 * step.check.dev:.1f} %, {step.done}/{step.steps}",
        flush=True,
    )


def commit() -> str:
    """The commit of the checkout."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
