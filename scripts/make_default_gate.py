"""Makes the gate that comes with earmark, and those it is compared with, from the composites.

    python scripts/make_default_gate.py DATA RUNS

DATA is the folder that holds `resound/` and `epic/`; RUNS is where the runs are kept (a stopped
run goes on). Trains every system over five seeds and puts the gate of `where` into the package.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import composites
import torch

import earmark
from earmark.features.yamnet import CLASSES
from earmark.training.dataset import gather
from earmark.training.recipe import Origin, Step, train
from earmark.training.settings import PAPER, Settings, recommended

SHIPPED = "where"

WIDE = replace(PAPER, width=128, steps=500, check_every=250)
"""The paper's head and optimiser, for as long as five hours of sound bear."""

SYSTEMS = {
    "frame": replace(WIDE, objective="frame"),
    "span": replace(WIDE, objective="span"),
    "narrow-frame": Settings(objective="frame"),
    "narrow-span": Settings(objective="span"),
    "narrow-rate": Settings(objective="rate"),
    "where": Settings(objective="where"),
    "yamnet": recommended("yamnet", CLASSES, objective="where"),
}
"""What is trained, by the name of its run."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for system in options.systems:
        make(options.data, options.runs, system, options.seeds)


def make(data: Path, runs: Path, system: str, seeds: int) -> None:
    settings = replace(SYSTEMS[system], seeds=seeds)
    develop, _ = composites.annotations(data)
    material = gather(
        develop,
        composites.media(data),
        encoder=settings.encoder,
        takes=settings.takes,
        cache=runs / "features",
        watch=lambda what, done, total: print(f"\r{what} {done}/{total}", end="", flush=True),
    )
    origin = Origin(composites.DATA, composites.LICENCE, commit())
    trained = train(material, settings, folder=runs / system, origin=origin, watch=show)
    for name, row in trained.coverage.items():
        shares = " ".join(f"{100 * value:5.1f}" for value in row.values())
        print(f"{system} {name}: dev coverage (composites) {shares}")
    if system == SHIPPED:
        package = Path(earmark.__file__).parent / "gate" / "default.gate"
        shutil.copyfile(runs / system / "gate.gate", package)
        print(f"wrote {package} ({package.stat().st_size / 1000:.0f} kB)")


def show(step: Step) -> None:
    print(
        f"\rseed {step.seed} fold {step.fold} step {step.check.step}: loss {step.check.loss:.4f}, "
        f"dev {100 * step.check.dev:.1f} %, {step.done}/{step.steps}",
        flush=True,
    )


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
