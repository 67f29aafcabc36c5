"""Prints what spending a rate live loses against the exact rule that knows the whole recording.

    python scripts/live_table.py DATA RUNS [--latencies 30 10] [--out experiments/live]

DATA and RUNS are those of `site_table.py`. Every recording is a watch of its own that begins with
nothing heard: its sound arrives second by second, windows are rated and decided `latency` later,
and calls follow a rate of 5, 10 and 25 % of the windows. The exact rule chooses as many windows as
the watch asked about, once the whole recording is known; even spacing, averaged over where it
starts, gets the same number. Composites and made recordings, not site audio.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from families import FAMILIES, Judged, judged_composites, judged_sites
from site_table import make_case

from earmark.gate.frontline import Frontline, frontline_named
from earmark.gate.listener import ScoreCache
from earmark.grid import Grid
from earmark.media import Sound, open_recording
from earmark.media.atomic_file import replacing
from earmark.selection import Coverage, Pick
from earmark.selection.call_rate import HOUR, CallRate
from earmark.selection.live_coverage import LiveCoverage
from earmark.selection.live_windows import LiveListener, LiveWindows
from earmark_lab.experiments.benchmark import average_phases, count_picks

SHARES = (0.05, 0.10, 0.25)
"""Of the windows."""
TARGETS = {30.0: 0.90, 10.0: 0.85}
"""Least share of the exact rule's coverage, by latency."""
PIECE = 1.0
"""Seconds of sound that arrive at once."""
TABLE_HEAD = (
    "| regime | recordings | rate | calls made | live | exact | live / exact | even spacing |",
    "|---" * 8 + "|",
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One recording, watched at one latency; an entry of each tuple for each of `SHARES`."""

    windows: int
    actions: int
    calls: tuple[int, ...]
    live: tuple[float, ...]
    """Actions that the picks touch."""
    exact: tuple[float, ...]
    even: tuple[float, ...]
    holds: bool
    """The rate held in every hour."""


def main() -> None:
    """Watch, print, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--frontline", default="gate")
    parser.add_argument("--latencies", nargs="+", type=float, default=sorted(TARGETS)[::-1])
    parser.add_argument("--hours", type=float, default=1.25, help="of each family of sites")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("experiments/live"))
    options = parser.parse_args()
    groups = judged_composites(options.data) | {
        f"sites: {family}": judged_sites(options.data, options.runs, family, hours=options.hours)
        for family in FAMILIES
    }
    lines = [
        "# A rate spent live, against the exact rule",
        "",
        *__doc__.split("\n\n")[2].split("\n"),
        "",
        f"Frontline `{options.frontline}`. Coverage in % of the annotated actions.",
    ]
    with ProcessPoolExecutor(options.workers) as pool:
        for latency in options.latencies:
            watch = partial(
                watch_recording, runs=options.runs, name=options.frontline, latency=latency
            )
            lines += ["", f"## {latency:g} s of latency", "", *TABLE_HEAD]
            for regime, judged in groups.items():
                with_actions = [each for each in judged if each.actions]
                outcomes = list(pool.map(watch, with_actions))
                lines += regime_rows(regime, outcomes, TARGETS.get(latency, 0.0))
    options.out.mkdir(parents=True, exist_ok=True)
    with replacing(options.out / "table.md") as scratch:
        scratch.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def watch_recording(judged: Judged, *, runs: Path, name: str, latency: float) -> Outcome:
    frontline = frontline_named(name)
    case = make_case(judged, frontline, ScoreCache(runs / "scores"))
    heard = listen_live(judged, frontline, latency)
    calls, live, exact, even = list[int](), list[float](), list[float](), list[float]()
    holds = True
    for share in SHARES:
        rate = CallRate(round(share * HOUR / Grid().length))
        picks, times = spend(heard, rate, latency)
        holds = holds and most_in_an_hour(times) <= rate.per_hour
        count = len(picks)
        calls.append(count)
        touched = count_picks(case, [p for p in picks if p.window < len(case.windows)])
        live.append(touched.covered)
        exact.append(count_picks(case, Coverage()(case.windows, budget=count)).covered)
        even.append(average_phases(case, count).covered if count else 0.0)
    return Outcome(
        len(case.windows), len(judged.actions), tuple(calls), tuple(live), tuple(exact),
        tuple(even), holds,
    )  # fmt: skip


def listen_live(judged: Judged, frontline: Frontline, latency: float) -> list[LiveWindows]:
    listener = LiveListener(frontline, latency=latency)
    recording = open_recording(judged.source)
    return list(listener.listen(pieces(recording.sound(sample_rate=listener.sample_rate)), start=0))


def pieces(blocks: Iterable[Sound]) -> Iterator[Sound]:
    """Second by second, as a stream is heard."""
    for block in blocks:
        step = round(PIECE * block.sample_rate)
        for first in range(0, len(block), step):
            start = block.start + first / block.sample_rate
            yield Sound(block.values[first : first + step], start, block.sample_rate)


def spend(
    heard: Sequence[LiveWindows], rate: CallRate, latency: float
) -> tuple[list[Pick], list[float]]:
    """The picks, and when each was decided."""
    coverage, picks, times = LiveCoverage(rate), list[Pick](), list[float]()
    for windows in heard:
        now = max((windows.first + windows.due) * windows.length + latency, windows.until)
        chosen = coverage.hear("stream", windows, now=now)
        picks += chosen
        times += [now] * len(chosen)
    return picks, times


def most_in_an_hour(times: Sequence[float]) -> int:
    ordered = np.array(times)
    return max((int(np.sum((ordered > t - HOUR) & (ordered <= t))) for t in times), default=0)


def regime_rows(regime: str, outcomes: Sequence[Outcome], target: float) -> Iterator[str]:
    actions, windows = (sum(getattr(o, name) for o in outcomes) for name in ("actions", "windows"))
    for place, share in enumerate(SHARES):
        totals = {
            name: sum(getattr(outcome, name)[place] for outcome in outcomes)
            for name in ("calls", "live", "exact", "even")
        }
        live, exact, even = (100 * totals[name] / actions for name in ("live", "exact", "even"))
        ratio = totals["live"] / max(1.0, totals["exact"])
        met = "" if ratio >= target else " (missed)"
        above = "" if totals["live"] > totals["even"] else " (missed)"
        yield (
            f"| {regime} | {len(outcomes)} | {100 * share:g} % | "
            f"{100 * totals['calls'] / windows:.1f} % | {live:.1f} | {exact:.1f} | "
            f"{100 * ratio:.1f} %{met} | {even:.1f}{above} |"
        )
    if not all(outcome.holds for outcome in outcomes):
        yield f"| {regime}: the rate was exceeded in an hour |" + " |" * 7


if __name__ == "__main__":
    main()
