"""What a server of one archive takes: first page, and data requests of many readers at once.

    python benchmarks/serve.py                                  # 10,000 recordings, 200,000 picks
    python benchmarks/serve.py --readers 50 --seconds 20

Every reader is a client of its own that does what a person does: a window of rows somewhere in the
archive, sorted and filtered in some way, then a recording with its time line and picks. Readers
pause a second between two steps, as people do. Server and readers share this machine; where others
do too, latency says little: so one reader's requests are timed one by one in processor time of the
server, and as many readers are played against one core that takes just that long. Linux.
"""

from __future__ import annotations

import argparse
import heapq
import http.client
import os
import random
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chromium import CHROMIUM, DRIVER, chromium
from large_archive import write_large_archive
from served import TOKEN, run_named, serving

SORTS = ("found", "name", "began", "activity", "doubt", "score")


class Reader(threading.Thread):
    """One person, who asks one thing after the other over one connection."""

    def __init__(self, client: httpx.Client, run: str, until: float, seed: int) -> None:
        super().__init__()
        self.run_id, self.until, self.rng = run, until, random.Random(seed)
        self.pause, self.clock = 1.0, time.perf_counter
        self.line = http.client.HTTPConnection(client.base_url.host, client.base_url.port)
        self.took: list[float] = []

    def run(self) -> None:
        """Look at a window of rows, and at one recording of it, again and again."""
        time.sleep(self.pause * self.rng.uniform(0, 2))  # nobody comes on one stroke with 49 others
        while time.monotonic() < self.until:
            offset, sort = 100 * self.rng.randrange(100), self.rng.choice(SORTS)
            rows = f"/api/runs/{self.run_id}/recordings"
            page = self.ask(f"{rows}?offset={offset}&limit=100&sort={sort}")
            time.sleep(self.pause * self.rng.uniform(0.5, 1.5))
            one = self.rng.choice(re.findall(rb'"id":"(\w+)"', page)).decode()
            for rest in ("", "/timeline", "/picks"):
                self.ask(f"{rows}/{one}{rest}")
            time.sleep(self.pause * self.rng.uniform(0.5, 1.5))

    def ask(self, path: str) -> bytes:
        """What the server answers; how long it took is kept."""
        began = self.clock()
        self.line.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = self.line.getresponse()
        said = answer.read()
        self.took.append(self.clock() - began)
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {said[:200]!r}")
        return said


def processor_time() -> float:
    """Seconds that the server, our one child, has used so far."""
    own = os.getpid()
    (child,) = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    return time.clock_gettime(~int(child) << 3 | 2)  # what clock_getcpuclockid(3) gives


def play(client: httpx.Client, run: str, readers: int, seconds: float) -> None:
    """Print what `readers` would find of one core that takes what one reader's requests took."""
    for sort in SORTS:  # rows are sorted once for all readers
        client.get(f"/api/runs/{run}/recordings", params={"sort": sort, "limit": 1})
    reader = Reader(client, run, time.monotonic() + 2 * seconds, 0)
    reader.pause, reader.clock = 0.0, processor_time
    reader.run()
    rows, others = reader.took[::4], [each for n, each in enumerate(reader.took) if n % 4]
    rng, free, waited = random.Random(1), 0.0, []
    coming = [(rng.uniform(0, 2), place, 0) for place in range(readers)]
    while coming[0][0] < 600:
        now, place, step = heapq.heappop(coming)
        free = max(free, now) + rng.choice(others if step else rows)
        waited.append(free - now)
        pause = 0.0 if step in (1, 2) else rng.uniform(0.5, 1.5)
        heapq.heappush(coming, (free + pause, place, (step + 1) % 4))
    p50, p95, p99 = (1000 * np.quantile(waited, share) for share in (0.5, 0.95, 0.99))
    print(
        f"one reader: {len(reader.took)} requests, {1000 * np.mean(rows):.1f} ms of processor time"
        f" for a window of rows, {1000 * np.mean(others):.1f} for others"
    )
    print(
        f"{readers} readers of a core that is free: "
        f"median {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms"
    )


def first_paint(client: httpx.Client, run: str, scratch: Path) -> str:
    """When a browser that opens the archive has painted something, rows, and the day."""
    with chromium(scratch / "profile") as driver:
        driver.get(f"{client.base_url}/?token={TOKEN}")
        driver.get(f"{client.base_url}/run/{run}")
        script = (
            "const [done] = arguments, at = {}; const look = () => {"
            " for (const name of ['.row-name', '.day'])"
            " if (document.querySelector(name)) at[name] ??= performance.now();"
            " if (Object.keys(at).length < 2) setTimeout(look, 5);"
            " else requestAnimationFrame(() => done([at['.row-name'], at['.day'],"
            " performance.getEntriesByName('first-contentful-paint')[0].startTime])); }; look()"
        )
        rows, day, paint = driver.execute_async_script(script)
    return (
        f"in a browser: first paint after {paint:.0f} ms, rows after {rows:.0f} ms,"
        f" the day after {day:.0f} ms"
    )


def measure(client: httpx.Client, run: str, readers: int, seconds: float) -> None:
    """Print what `readers` find in so many seconds."""
    until, used = time.monotonic() + seconds, processor_time()
    every = [Reader(client, run, until, seed) for seed in range(readers)]
    for reader in every:
        reader.start()
    for reader in every:
        reader.join()
    used = processor_time() - used
    took = [each for reader in every for each in reader.took]
    p50, p95, p99 = (1000 * np.quantile(took, share) for share in (0.5, 0.95, 0.99))
    print(f"{readers} readers: {len(took)} requests, {len(took) / seconds:.0f} a second")
    print(f"median {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms")
    print(
        f"server: {1000 * used / len(took):.1f} ms of processor time a request,"
        f" {100 * used / seconds:.0f}% of one core; load of the machine {os.getloadavg()[0]:.1f}"
    )


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
        with serving(folder) as client:
            run = run_named(client, "run")
            for words in ("first", "second"):
                began, used = time.perf_counter(), processor_time()
                client.get(f"/api/runs/{run}/recordings", params={"limit": 100}).raise_for_status()
                took = 1000 * (time.perf_counter() - began)
                spent = 1000 * (processor_time() - used)
                print(f"{words} page of rows: {took:.0f} ms, {spent:.0f} ms of processor time")
            play(client, run, options.readers, options.seconds)
            for _ in ("some strips not drawn yet", "most drawn"):
                measure(client, run, options.readers, options.seconds)
            if CHROMIUM and DRIVER:
                print(first_paint(client, run, folder))


if __name__ == "__main__":
    main()
