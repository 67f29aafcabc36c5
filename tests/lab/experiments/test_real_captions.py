"""`earmark lab captions` with everything real: film, server, palm detector, sounds, labels.

The server is llama.cpp with random weights, held to a vocabulary by a schema: what it says is real
protocol and means nothing, so the score is checked against what it said.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.request import Question
from earmark.errors import ModelMissing
from earmark.features.yamnet import YAMNet
from earmark.models import ModelStore
from earmark.settings import Limits
from earmark_lab.annotations.table_readers import parse_time
from earmark_lab.demo import Script
from earmark_lab.experiments.caption_comparison import (
    CaptionTools,
    evaluate_captions,
    list_variants,
)
from earmark_lab.experiments.captions import CaptionLog
from hand_film import film_hand
from vlm_server import vlm_server

RECORDING, LENGTH, AWAY = "P01_11", 40.0, (12.0, 36.0)
VARIANTS = ["full frame", "hand crop", "sounds told", "64 tokens", "128 tokens"]

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Kitchen:
    """A film, the real actions of its first seconds, and whom to ask."""

    folder: Path
    url: str
    classes: Path
    actions: list[dict[str, str]]

    def ask(self, *words: object, schema: str = "schema.json", log: Path | None = None):
        """The scores, as the command prints them."""
        captioner = OpenAICaptioner(self.url, OpenAICaptioner(self.url, "").endpoint.models()[0])
        tools = CaptionTools(
            captioner,
            Question(schema=json.loads((self.folder / schema).read_text())),
            Limits(concurrency=2),
            log=CaptionLog.open(log) if log else CaptionLog(),
        )
        scores = evaluate_captions(
            self.folder / "actions.csv",
            [str(self.folder)],
            tools,
            nouns=self.classes / "EPIC_100_noun_classes.csv",
            verbs=self.classes / "EPIC_100_verb_classes.csv",
            variants=list_variants(words, base=300),
        )
        return [score.to_json() for score in scores]


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """The address of a real llama.cpp server."""
    for library in ("xllamacpp", "gguf", "cv2"):
        pytest.importorskip(library)
    with vlm_server(tmp_path_factory.mktemp("model")) as url:
        yield url


@pytest.fixture(scope="module")
def weights() -> None:
    """The palm detector and YAMNet, if this machine has them."""
    pytest.importorskip("ai_edge_litert")
    try:
        for name in ("hands", "yamnet"):
            ModelStore().find(name)
    except ModelMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory, shared_data, server) -> Kitchen:
    """The hand is away from 12 s to 36 s; the sounds are those of a workbench."""
    folder = tmp_path_factory.mktemp("kitchen")
    film_hand(
        folder / f"{RECORDING}.mp4",
        Script.compose(seed=3, duration=LENGTH).sound(),
        away=AWAY,
    )
    with (shared_data / "epic" / "EPIC_100_validation.csv").open(encoding="utf-8") as file:
        marked = [row for row in csv.DictReader(file) if row["video_id"] == RECORDING]
    within = [row for row in marked if parse_time(row["stop_timestamp"]) < LENGTH]
    with (folder / "actions.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(within[0]))
        table.writeheader()
        table.writerows(within)
    words = {"verb": {"enum": ["take", "wash"]}, "noun": {"enum": ["plate", "tap"]}}
    schema = {"type": "object", "required": ["verb", "noun"], "properties": words}
    (folder / "schema.json").write_text(json.dumps(schema))
    return Kitchen(folder, server, shared_data / "epic", within)


OWN = {
    "actions.csv": "recording,start,end,verb,noun\n"
    "bench,1.0,3.0,take,plate\nbench,4.0,6.0,pick-up,tap\nbench,7.0,9.0,wash,dish\n",
    "EPIC_100_noun_classes.csv": "key,instances\nplate,\"['plate', 'dish']\"\ntap,\"['tap']\"\n",
    "EPIC_100_verb_classes.csv": "key,instances\ntake,\"['take', 'pick-up']\"\nwash,\"['wash']\"\n",
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory, server) -> Kitchen:
    """Three actions of our own, for machines without real labels or weights."""
    folder = tmp_path_factory.mktemp("bench")
    film_hand(folder / "bench.mp4", Script.compose(seed=1, duration=10.0).sound(), away=(0, 0))
    for name, text in OWN.items():
        (folder / name).write_text(text, encoding="utf-8")
    force(folder / "schema.json", verb="take", noun="plate")
    return Kitchen(folder, server, folder, [])


def force(path: Path, **words: str) -> Path:
    """A schema that leaves a model no choice."""
    properties = {name: {"enum": [word]} for name, word in words.items()}
    schema = {"type": "object", "required": list(words), "properties": properties}
    path.write_text(json.dumps(schema))
    return path


def lines_in(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_allowances_are_swept_and_words_are_scored(bench):
    full, small = bench.ask(64)
    assert small["mean_prompt_tokens"] < full["mean_prompt_tokens"]
    for row in (full, small):
        assert (row["answered"], row["failed"]) == (3, 0)
        assert (row["nouns_named"], row["verbs_named"]) == (2, 2)
    assert (small["noun_p"], small["verb_p"]) == (1.0, 1.0)


def test_every_variant_is_asked_of_a_real_server(kitchen, weights):
    said, words = kitchen.folder / "said.jsonl", ("hands", "sounds", 64, 128)
    rows = kitchen.ask(*words, log=said)
    count = len(kitchen.actions)
    assert [row["variant"] for row in rows] == VARIANTS
    assert all((row["answered"], row["failed"]) == (count, 0) for row in rows)
    full, crop, told, small, middle = (row["mean_prompt_tokens"] for row in rows)
    assert small < middle < full and crop < full < told

    # The palm detector finds the hand where it is drawn, and says where there is none.
    middles = [
        (parse_time(row["start_timestamp"]) + parse_time(row["stop_timestamp"])) / 2
        for row in kitchen.actions
    ]
    without = sum(AWAY[0] <= time < AWAY[1] for time in middles)
    assert 0 < without < count and rows[1]["uncropped"] == without

    # What was told of the sounds are names that YAMNet has.
    kept = lines_in(said)
    sounds = {name for line in kept if line["variant"] == "sounds told" for name in line["sounds"]}
    assert sounds and sounds <= set(YAMNet().classes)
    assert not any(line["sounds"] for line in kept if line["variant"] != "sounds told")

    # Words were said, and a noun counts where it is the real one.
    spoken = [json.loads(line["text"]) for line in kept]
    assert {word["noun"] for word in spoken} <= {"plate", "tap"}
    right = sum(
        json.loads(line["text"])["noun"] == line["noun"]
        for line in kept
        if line["variant"] == "full frame"
    )
    assert rows[0]["nouns_named"] == right

    # The same command once more asks nothing: every line is there already.
    assert kitchen.ask(*words, log=said) == rows
    assert lines_in(said) == kept


def test_a_forced_answer_is_scored_by_the_real_labels(kitchen):
    """Everything is called `take plate`: as many are named as are so labelled."""
    force(kitchen.folder / "forced.json", verb="take", noun="plate")
    (row,) = kitchen.ask(schema="forced.json")
    labels = [(each["verb_class"], each["noun_class"]) for each in kitchen.actions]
    assert row["verbs_named"] == sum(verb == "0" for verb, _ in labels) > 0
    assert row["nouns_named"] == sum(noun == "2" for _, noun in labels) > 0
