"""What a folder of thousands of one-second files costs: `select`, then `caption` to its end.

    python benchmarks/clips.py [--clips 5000] [--only select]

Makes its own files, each with sound and pictures and with content of its own. `caption` names the
sounds, decodes a frame of each clip, asks a server that answers at once, and writes the report:
once as it comes, and once more with nothing left to ask. All are whole commands, start-up included.
Pictures are looked at by small models too where these are here, which takes most of the time then;
EARMARK_CACHE=/an/empty/folder leaves them and the names of sounds out.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from listen import film

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from fault_server import MODEL, fault_server


def make_clips(folder: Path, count: int) -> None:
    """Copies of one clip that differ in a box that nobody reads."""
    folder.mkdir()
    one = folder.with_name("one.mp4")
    film(one, seconds=1)
    data = one.read_bytes()
    for number in range(count):
        (folder / f"{number:05}.mp4").write_bytes(data + struct.pack(">I4sQ", 16, b"free", number))


def report(name: str, clips: int, *words: str) -> None:
    """Run a command of earmark and print what it took."""
    began, clock = os.times(), time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-m", "earmark", name, *words], check=True, capture_output=True, text=True
    )
    seconds, ended = time.perf_counter() - clock, os.times()
    processor = sum(ended[2:4]) - sum(began[2:4])
    print(f"| {name} | {seconds:.1f} | {processor:.1f} | {1000 * processor / clips:.1f} |")
    print(f"<!-- {ran.stdout.strip().splitlines()[-1]} -->", flush=True)


def main() -> None:
    """Make the clips, run both, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=5000)
    parser.add_argument("--only", choices=["select"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "clips")
        make_clips(folder, options.clips)
        print(f"{options.clips} clips of a second; load before: {os.getloadavg()[0]:.1f}\n")
        print("| | seconds | processor seconds | ms of processor a clip |\n|---|---|---|---|")
        report("select", options.clips, str(folder), "--budget", "1", "--no-cache")
        if options.only is None:
            words = ("--budget", "1", "--run", str(Path(scratch, "run")))
            words += ("--cache", str(Path(scratch, "cache")))
            with fault_server() as server:
                for _ in range(2):
                    report(
                        "caption",
                        options.clips,
                        str(folder),
                        *words,
                        "--model",
                        f"{server.url}#{MODEL}",
                    )
    print("\nTo reach: select of 5,000 in 40 s on two cores of their own.")


if __name__ == "__main__":
    main()
