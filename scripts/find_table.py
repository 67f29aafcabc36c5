"""How much `find` finds for how many calls, with answers played from annotations.

    python scripts/find_table.py ../shared/data --recordings 12

Truth are the annotated sound events of one class (EPIC-SOUNDS), in the composites of `resound`. An
event is found when a window that touches it is asked about. Beside `find`: calls evenly spaced, and
the windows that `select` would caption, searched afterwards by a search that misses nothing.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from earmark.evidence.sound_names import sound_namer
from earmark.evidence.sound_query import match_sounds
from earmark.media import open_recording
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.pipeline.find import on_windows
from earmark.pipeline.listen import listen
from earmark.pipeline.run_plan import make_plan
from earmark.search.target_windows import TargetWindows, next_windows
from earmark.selection import Budget, Coverage, allocate
from earmark.selection.rules.strata import Strata
from earmark.timeline import Span

QUESTIONS = {
    "tap running": "water runs from a tap",
    "cut / chop": "someone chops food",
    "beep": "something beeps",
    "paper rustle": "paper rustles",
    "footstep": "someone walks",
}
CALLS = (5, 10, 20, 40, 80)


def seconds(clock: str) -> float:
    hours, minutes, rest = clock.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(rest)


def events(data: Path, names: set[str]) -> dict[tuple[str, str], list[Span]]:
    found: dict[tuple[str, str], list[Span]] = {}
    with (data / "epic" / "EPIC_Sounds_validation.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["video_id"] in names:
                span = Span(seconds(row["start_timestamp"]), seconds(row["stop_timestamp"]))
                found.setdefault((row["description"], row["video_id"]), []).append(span)
    return found


def touches(window: int, truth: list[Span]) -> bool:
    span = Span(4.0 * window, 4.0 * window + 4.0)
    return any(span.overlaps(each) for each in truth)


def find(many: list[TargetWindows], truth: list[list[Span]], calls: int) -> list[set[int]]:
    """The windows that `find` asks about, its answers played."""
    for turn in range(3):
        left = calls - sum(len(one.asked) for one in many)
        share = left if turn == 2 else -(-left // 2)
        for one, own, new in zip(
            many, truth, next_windows(many, share, first=turn == 0), strict=True
        ):
            one.asked |= {window: touches(window, own) for window in new}
    return [set(one.asked) for one in many]


def recall(asked: list[set[int]], truth: list[list[Span]]) -> float:
    hits = [
        any(Span(4.0 * w, 4.0 * w + 4.0).overlaps(event) for w in own)
        for own, spans in zip(asked, truth, strict=True)
        for event in spans
    ]
    return float(np.mean(hits)) if hits else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--recordings", type=int, default=12)
    parser.add_argument("--cache", type=Path, default=None)
    said = parser.parse_args()
    paths = sorted((said.data / "resound").glob("*.opus"))
    paths = paths[:: max(1, len(paths) // said.recordings)][: said.recordings]
    namer, encoder = sound_namer(True, said.cache), SentenceEncoder.at_hand()
    assert namer is not None and namer.listener is not None
    plan = make_plan(list(map(str, paths)), cache=said.cache)
    heard = [listen(source, plan.listening) for source in plan.sources()]
    tracks = [namer.listener(open_recording(str(path))) for path in paths]
    truths = events(said.data, {path.stem for path in paths})
    print(f"{len(paths)} composites, {sum(len(one.windows) for one in heard)} windows of 4 s")
    print("class | question | events | rule | " + " | ".join(map(str, CALLS)))
    for label, question in QUESTIONS.items():
        matches = match_sounds(question, namer.encoder.names, encoder)
        weights = np.array(
            [matches[n].weight if n in matches else 0.0 for n in namer.encoder.names]
        )
        truth = [truths.get((label, path.stem), []) for path in paths]
        rows: dict[str, list[str]] = {"find": [], "select": [], "even": []}
        for calls in CALLS:
            many = [
                TargetWindows(
                    path.stem, one.windows, on_windows(track, weights, 4.0)[: len(one.windows)]
                )
                for path, one, track in zip(paths, heard, tracks, strict=True)
            ]
            rows["find"].append(f"{recall(find(many, truth, calls), truth):.2f}")
            windows = [one.windows for one in heard]
            for name, rule in (("select", Coverage()), ("even", Strata())):
                chosen = allocate(rule, windows, Budget(count=calls), across=True)
                asked = [{pick.window for pick in choice.picks} for choice in chosen]
                rows[name].append(f"{recall(asked, truth):.2f}")
        for name, cells in rows.items():
            count = sum(map(len, truth))
            print(f"{label} | {question} | {count} | {name} | {' | '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
