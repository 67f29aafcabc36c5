"""What a server of one archive takes: first page, and data requests of many readers at once.

    python benchmarks/serve.py                                  # 10,000 recordings, 200,000 picks
    python benchmarks/serve.py --readers 50 --seconds 20

Every reader is a client of its own that does what a person does: a window of rows somewhere in the
archive, sorted and filtered in some way, then a recording with its time line and picks. Readers
pause a second between two steps, as people do. Server and readers share this machine.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from large_archive import write_large_archive
from served import run_named, serving

SORTS = ("name", "began", "activity", "doubt", "score")


def read(base: httpx.Client, run: str, until: float, seed: int, took: list[float]) -> None:
    """What one person asks, one thing after the other."""
    rng = random.Random(seed)
    with httpx.Client(base_url=base.base_url, headers=base.headers, timeout=60) as client:
        while time.monotonic() < until:
            query = {"offset": 100 * rng.randrange(100), "limit": 100, "sort": rng.choice(SORTS)}
            page = ask(client, f"/api/runs/{run}/recordings", query, took).json()["rows"]
            time.sleep(rng.uniform(0.5, 1.5))
            place = f"/api/runs/{run}/recordings/{rng.choice(page)['row']['id']}"
            for rest in ("", "/timeline", "/picks"):
                ask(client, place + rest, {}, took)
            time.sleep(rng.uniform(0.5, 1.5))


def ask(
    client: httpx.Client, path: str, query: dict[str, object], took: list[float]
) -> httpx.Response:
    began = time.perf_counter()
    answer = client.get(path, params=query)
    took.append(time.perf_counter() - began)
    return answer.raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=10_000)
    parser.add_argument("--picks", type=int, default=20, help="of each recording")
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_large_archive(folder / "run", recordings=options.recordings, picks=options.picks)
        with serving(folder, options=("--rate", "100000")) as client:
            run = run_named(client, "run")
            for words in ("first", "second"):
                took: list[float] = []
                ask(client, f"/api/runs/{run}/recordings", {"limit": 100}, took)
                print(f"{words} page of rows: {1000 * took[0]:.0f} ms")
            took, until = [], time.monotonic() + options.seconds
            readers = [
                threading.Thread(target=read, args=(client, run, until, seed, took))
                for seed in range(options.readers)
            ]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
    p50, p95, p99 = (1000 * np.quantile(took, share) for share in (0.5, 0.95, 0.99))
    rate = len(took) / options.seconds
    print(f"{options.readers} readers: {len(took)} requests, {rate:.0f} a second")
    print(f"median {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms")


if __name__ == "__main__":
    main()
