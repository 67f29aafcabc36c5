"""How long searching a large archive takes: `python benchmarks/search.py --entries 200000`.

Makes a run of 1,000 recordings of an hour with so many entries, one in ten of them the caption of a
picked window, and asks it words and meanings.
Vectors are random but for those that are to be found, since reading 200,000 texts takes MiniLM
minutes: a product with them takes as long.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from earmark.captioning.request import Answer, Question, Request
from earmark.evidence.evidence_entry import SOUND_TRACK, EvidenceEntry
from earmark.models.sentence_encoder import WIDTH, SentenceEncoder
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.search.archive_search import GATHERED, Archive, MeaningIndex
from earmark.selection.pick import Pick
from earmark.timeline import Span

SOUNDS = ("Drill", "Speech", "Water tap, faucet", "Hammer", "Dishes, pots, and pans", "Walk")
WORDS = ("hand", "holds", "turns", "board", "red", "blue", "cup", "water", "nail", "box", "cuts")
QUERIES = ("drill", "speech", "red hand", "hammer", "cup 77", "nothing of the sort")


def fill(folder: Path, entries: int) -> None:
    rng = random.Random(1)
    with Run(folder, {"model": "m"}) as run:
        for number in range(1000):
            run.add(RecordingRow(f"r{number}", f"/cams/{number}.mp4", 3600.0, 10**9))
            some: list[EvidenceEntry] = []
            captions: dict[Span, str] = {}
            for place in range(entries // 1000):
                span = Span(18.0 * place, 18.0 * place + 4)
                text = f"A {' '.join(rng.sample(WORDS, 6))} {rng.randrange(10**6)}."
                if place % 10 == 5:
                    captions[span] = text
                elif place % 10:
                    some.append(EvidenceEntry(span, "said", text, 0.9, "w"))
                else:
                    some.append(EvidenceEntry(span, "heard", rng.choice(SOUNDS), 0.8, SOUND_TRACK))
            run.keep_evidence(f"r{number}", some, kinds=["heard", "said"])
            caption(run, f"r{number}", captions, tags=(rng.choice(SOUNDS), "loud"))


def caption(run: Run, recording: str, captions: Mapping[Span, str], *, tags: Sequence[str]) -> None:
    """Picked windows with their tags and answers."""
    picks = [
        Pick(place, span.start, span.end, span.start + 2, 0.5, 0.5, 0.5, "")
        for place, span in enumerate(captions)
    ]
    run.choose(recording, picks, tags=dict.fromkeys(captions, tags))
    for span, text in captions.items():
        call = Request(recording, span, (), "", "m", Question())
        run.unanswered([call])
        run.keep(call, Answer(text, "m"))


def random_index(run: Run, encoder: SentenceEncoder) -> MeaningIndex:
    places: dict[str, list] = {}
    for each in run.searchable():
        places.setdefault(each.text, []).append(each)
    vectors = np.random.default_rng(1).standard_normal((len(places), WIDTH), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for place, query in enumerate(QUERIES):  # so that each finds fifty, which are then read
        vectors[place :: len(vectors) // 60][:60] = encoder([query])[0]
    return MeaningIndex(encoder, list(places), list(places.values()), vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=200_000)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        began = time.perf_counter()
        fill(folder, said.entries)
        print(f"{said.entries} entries made in {time.perf_counter() - began:.1f} s")
        with Archive(folder) as archive:
            archive.search("warm")
            for query in QUERIES:
                began, cpu = time.perf_counter(), time.process_time()
                found = archive.search(query)
                took, cpu = time.perf_counter() - began, time.process_time() - cpu
                print(
                    f"words {query!r}: {len(found)} in {1000 * took:.0f} ms, cpu {1000 * cpu:.0f}"
                )
            encoder = SentenceEncoder.if_available()
            if encoder is None:
                return
            (run,) = archive.runs
            index = random_index(run, encoder)
            index.search(run, "warm")
            for query in QUERIES:
                began, cpu = time.perf_counter(), time.process_time()
                found = index.search(run, query, most=GATHERED * 50)
                took, cpu = time.perf_counter() - began, time.process_time() - cpu
                print(
                    f"meaning {query!r}, {len(index.texts)} texts: {len(found)} in "
                    f"{1000 * took:.0f} ms, cpu {1000 * cpu:.0f}"
                )


if __name__ == "__main__":
    main()
