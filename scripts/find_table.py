"""How much `find` finds for how many calls, and how often its range of what was missed holds.

    python scripts/find_table.py ../shared/data --recordings 12
    python scripts/find_table.py ../shared/data --recordings 12 --classes 6
    python scripts/find_table.py ../shared/data --recordings 12 --ranges 400
    python scripts/find_table.py ../shared/data --recordings 12 --every

Truth are the annotated sound events of one class (EPIC-SOUNDS, in DATA/epic), in the recordings of
DATA/resound or of `--media DIR`: EPIC-KITCHENS-100's own sound, say. An event is found when a
window that touches it is asked about. Beside `find`: calls evenly spaced, and the windows that
`select` would caption, searched afterwards by a search that misses nothing.

With `--classes` every class of which there are so many events is looked for by its own name, and
the means over all of them are told. With `--ranges` so many times a class, one, three or all of the
recordings and 5 to 40 calls are drawn, and the moments that were missed (windows in a row that hold
the class, none of them asked about or joined to one that was) are held against the range that is
told; with `--every` each class once with each number of calls, all recordings together.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from earmark.evidence.sound_names import sound_namer
from earmark.evidence.sound_track import SoundListener, SoundTrack
from earmark.grid import Windows
from earmark.media import open_recording
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.listen import listen
from earmark.pipeline.session import open_session
from earmark.search.target_windows import (
    MissedEstimate,
    SoundFinder,
    TargetWindows,
    estimate_missed,
    lifts,
    next_windows,
)
from earmark.selection import Budget, Coverage, allocate
from earmark.selection.rules.spacing import Strata
from earmark.timeline import Span
from earmark_lab.annotations.actions import find_media
from earmark_lab.annotations.table_readers import parse_time

QUESTIONS = {
    "tap running": "water runs from a tap",
    "cut / chop": "someone chops food",
    "beep": "something beeps",
    "paper rustle": "paper rustles",
    "footstep": "someone walks",
}
CALLS = (5, 10, 20, 40, 80)
RANGED = (5, 10, 20, 40)

Truths = dict[tuple[str, str], list[Span]]
"""When there is what, by class and recording."""


def events(data: Path, names: set[str]) -> Truths:
    found: Truths = {}
    with (data / "epic" / "EPIC_Sounds_validation.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["video_id"] in names:
                span = Span(parse_time(row["start_timestamp"]), parse_time(row["stop_timestamp"]))
                found.setdefault((row["description"], row["video_id"]), []).append(span)
    return found


def touches(window: int, truth: list[Span]) -> bool:
    span = Span(4.0 * window, 4.0 * window + 4.0)
    return any(span.overlaps(each) for each in truth)


def find(many: list[TargetWindows], truth: list[list[Span]], calls: int) -> list[set[int]]:
    """The windows that `find` asks about, its answers played."""
    left = calls
    while any(chosen := next_windows(many, left)):
        for one, own, new in zip(many, truth, chosen, strict=True):
            one.asked |= {window: touches(window, own) for window in new}
            left -= len(new)
    return [set(one.asked) for one in many]


def recall(asked: list[set[int]], truth: list[list[Span]]) -> float:
    hits = [
        any(Span(4.0 * w, 4.0 * w + 4.0).overlaps(event) for w in own)
        for own, spans in zip(asked, truth, strict=True)
        for event in spans
    ]
    return float(np.mean(hits)) if hits else float("nan")


@dataclass(frozen=True)
class Heard:
    """All that is known of one recording."""

    name: str
    windows: Windows
    track: SoundTrack


def targets(heard: list[Heard], finder: SoundFinder) -> list[TargetWindows]:
    """The windows of each, by how likely the sounds are that are meant, as `find` has them."""
    found = [finder.in_track(one.track) for one in heard]
    lift = lifts(
        {one.name: own.hints[: len(one.windows)] for one, own in zip(heard, found, strict=True)}
    )
    return [
        TargetWindows(one.name, one.windows, own.likely[: len(one.windows)], lift=lift[one.name])
        for one, own in zip(heard, found, strict=True)
    ]


def hear(
    media: Path, count: int, first: int, cache: Path | None
) -> tuple[list[Heard], SoundListener]:
    """So many recordings, evenly taken from all, and what heard them."""
    found = find_media([media])
    names = sorted(found)[first :: max(1, len(found) // count)][:count]
    namer = sound_namer(True, cache)
    assert namer is not None and namer.listener is not None
    listening = open_session(cache=cache).listening
    listener = namer.listener
    return [
        Heard(
            name,
            listen(found[name], listening).windows,
            listener(open_recording(found[name])),
        )
        for name in names
    ], listener


def finder(question: str, listener: SoundListener) -> SoundFinder:
    """What hears the sounds that are meant, by name and by meaning."""
    meaning = SentenceEncoder.if_available()
    return SoundFinder.of(question, listener, length=4.0, meaning=meaning)


def questions(truths: Truths, fewest: int) -> dict[str, str]:
    """What is looked for, by class: those of `QUESTIONS`, or every class with so many events."""
    if not fewest:
        return QUESTIONS
    counts: dict[str, int] = {}
    for (label, _), spans in sorted(truths.items()):
        counts[label] = counts.get(label, 0) + len(spans)
    return {each: QUESTIONS.get(each, each) for each in counts if counts[each] >= fewest}


def print_recall(
    heard: list[Heard], truths: Truths, listener: SoundListener, asking: dict[str, str]
) -> None:
    """One row a question and a rule, and the mean of each rule."""
    print("class | question | events | rule | " + " | ".join(map(str, CALLS)))
    even_and_select = {
        (name, calls): [
            {pick.window for pick in choice.picks}
            for choice in allocate(
                rule, [one.windows for one in heard], Budget(count=calls), across=True
            )
        ]
        for name, rule in (("select", Coverage()), ("even", Strata()))
        for calls in CALLS
    }
    every: dict[str, list[list[float]]] = {"find": [], "select": [], "even": []}
    for label, question in asking.items():
        meant = finder(question, listener)
        truth = [truths.get((label, one.name), []) for one in heard]
        for name, rows in every.items():
            rows.append(
                [
                    recall(
                        find(targets(heard, meant), truth, calls)
                        if name == "find"
                        else even_and_select[name, calls],
                        truth,
                    )
                    for calls in CALLS
                ]
            )
            told = " | ".join(f"{cell:.2f}" for cell in rows[-1])
            print(f"{label} | {question} | {sum(map(len, truth))} | {name} | {told}", flush=True)
    for name, rows in every.items():
        told = " | ".join(f"{cell:.3f}" for cell in np.mean(rows, axis=0))
        print(f"mean of {len(rows)} | | | {name} | {told}", flush=True)


def missed(one: TargetWindows, truth: list[Span]) -> int:
    """Moments of `truth` that were neither asked about nor joined to one that was."""
    settled = set(one.asked)
    for window, seen in one.asked.items():
        settled |= set(one.stretch(window)) if seen else set()
    shown = [window for window in range(len(one.windows)) if touches(window, truth)]
    moments: list[list[int]] = []
    for window in shown:
        if moments and moments[-1][-1] == window - 1:
            moments[-1].append(window)
        else:
            moments.append([window])
    return sum(settled.isdisjoint(moment) for moment in moments)


@dataclass(frozen=True)
class Trial:
    """One thing looked for, what was missed of it, and what was told of that."""

    label: str
    calls: int
    recordings: int
    missed: int
    told: MissedEstimate

    @property
    def holds(self) -> bool:
        """Whether what was missed lies in the range."""
        return self.told.low <= self.missed <= self.told.high


def draw_trials(
    heard: list[Heard], truths: Truths, listener: SoundListener, trials: int
) -> list[Trial]:
    """So many at random; with none, every class once with each number of calls over all."""
    rng = np.random.default_rng(0)
    labels = sorted({label for label, _ in truths})
    meant = {label: finder(label, listener) for label in labels}
    everything = tuple(range(len(heard)))
    every = [(label, calls, everything) for label in labels for calls in RANGED]
    drawn = [] if trials else every
    for _ in range(trials):
        label, calls = str(rng.choice(labels)), int(rng.choice(RANGED))
        size = int(rng.choice((1, 3, len(heard))))
        drawn.append((label, calls, tuple(sorted(rng.choice(len(heard), size, replace=False)))))
    return [
        _try(label, calls, [heard[at] for at in some], truths, meant[label])
        for label, calls, some in drawn
    ]


def _try(label: str, calls: int, some: list[Heard], truths: Truths, meant: SoundFinder) -> Trial:
    truth = [truths.get((label, one.name), []) for one in some]
    many = targets(some, meant)
    find(many, truth, calls)
    left = sum(missed(one, own) for one, own in zip(many, truth, strict=True))
    return Trial(label, calls, len(some), left, estimate_missed(many))


def print_ranges(trials: list[Trial]) -> None:
    """How often the range of what was missed holds, by the calls that were made.

    Trials of one class are much alike, so the interval is over classes.
    """
    groups: dict[str, list[Trial]] = {}
    for each in trials:
        for name in (f"{each.calls} calls", f"{each.recordings} recordings", "all"):
            groups.setdefault(name, []).append(each)
    print("| | trials | classes | missed | expected | holds | 95 % | below | above | width |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in sorted(groups, key=lambda each: (each.split()[-1], len(each), each)):
        own = groups[name]
        left, expected, low, high = np.array(
            [(one.missed, one.told.expected, one.told.low, one.told.high) for one in own]
        ).T
        first, last = over_classes(own)
        print(
            f"| {name} | {len(own)} | {len({one.label for one in own})} | {left.mean():.2f} "
            f"| {expected.mean():.2f} | {np.mean([one.holds for one in own]):.1%} "
            f"| {first:.0%} to {last:.0%} | {np.mean(left < low):.1%} "
            f"| {np.mean(left > high):.1%} | {np.median(high - low):.0f} |"
        )


def over_classes(trials: list[Trial], times: int = 2000) -> tuple[float, float]:
    """Between what the share that holds lies, classes drawn anew."""
    rng = np.random.default_rng(1)
    by_class: dict[str, list[bool]] = {}
    for one in trials:
        by_class.setdefault(one.label, []).append(one.holds)
    counts = np.array([(sum(own), len(own)) for own in by_class.values()])
    drawn = counts[rng.integers(len(counts), size=(times, len(counts)))].sum(axis=1)
    first, last = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return float(first), float(last)


def main() -> None:
    """Hear, play the answers, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--media", type=Path, help="where the recordings are [DATA/resound]")
    parser.add_argument("--recordings", type=int, default=12)
    parser.add_argument("--first", type=int, default=0, help="place of the first one taken")
    parser.add_argument("--classes", type=int, default=0, help="all with so many events")
    parser.add_argument("--ranges", type=int, default=0, help="trials of the range")
    parser.add_argument("--every", action="store_true", help="every class once, over all, instead")
    parser.add_argument("--cache", type=Path, default=None)
    said = parser.parse_args()
    heard, listener = hear(
        said.media or said.data / "resound", said.recordings, said.first, said.cache
    )
    truths = events(said.data, {one.name for one in heard})
    print(f"{len(heard)} recordings, {sum(len(one.windows) for one in heard)} windows of 4 s")
    if said.ranges or said.every:
        print_ranges(draw_trials(heard, truths, listener, 0 if said.every else said.ranges))
    else:
        print_recall(heard, truths, listener, questions(truths, said.classes))


if __name__ == "__main__":
    main()
