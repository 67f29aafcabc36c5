"""Captions are asked for in several ways and scored against what was done."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from earmark import EarmarkError, Recording, Span, open_recording
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.captioning.request import Answer, Request
from earmark.errors import AnnotationError, CallRejected, NoAudioStream, UnreadableFile
from earmark.media import Frame, find
from earmark.report.console import Format
from earmark.settings import Limits
from earmark_lab.cli.evaluate import captions
from earmark_lab.experiments.caption_comparison import (
    CaptionTools,
    agreement_table,
    captions_table,
    compare,
    compare_named,
    evaluate_captions,
    list_variants,
)
from earmark_lab.experiments.captions import (
    CaptionLog,
    Stimulus,
    Vocabulary,
    draw_stimuli,
    find_class,
    read_stimuli,
)
from fault_server import MODEL, fault_server
from making import make_video
from stills import image_tokens

NOUNS = Vocabulary({"plate": ("plate", "dish"), "tap": ("tap", "tap:water"), "knife": ("knife",)})
VERBS = Vocabulary({"take": ("take", "pick-up"), "turn-on": ("turn-on",), "cut": ("cut", "slice")})
ACTIONS = (
    Stimulus("kitchen", Span(1.0, 3.0), "plate", "take"),
    Stimulus("kitchen", Span(4.0, 6.0), "tap", "turn-on"),
    Stimulus("kitchen", Span(7.0, 9.0), "knife", "cut"),
)
LIMITS = Limits(concurrency=2, retries=0)


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory) -> Recording:
    path = tmp_path_factory.mktemp("captions") / "kitchen.mp4"
    make_video(path, duration=12.0, clicks=[2.0, 5.0])
    return open_recording(find([str(path)])[0])


@dataclass
class Scripted:
    """Answers by the time shown and the variant, and remembers what it was shown."""

    says: dict[float, str]
    model: str = "scripted"
    at_once: int | None = None
    seen: list[Request] = field(default_factory=list)

    def check(self) -> None:
        pass

    def __call__(self, request: Request, *, timeout: float) -> Answer:  # noqa: ARG002
        self.seen.append(request)
        text = self.says[request.times[0]]
        if not text:
            raise CallRejected("the model will not say")
        taken = sum(image_tokens(frame.width, frame.height) for frame in request.frames)
        return Answer(text, self.model, prompt_tokens=taken)


def rows_of(captioner, kitchen, ways, **means):
    return compare(
        ACTIONS,
        {"kitchen": kitchen},
        ways,
        CaptionTools(captioner, limits=LIMITS, **means),
        nouns=NOUNS,
        verbs=VERBS,
    )


SAID = {2.0: "Picks up a dish.", 5.0: "Someone turns on the tap.", 8.0: "Holds a spoon."}


def test_captions_are_scored_in_any_of_the_ways_a_class_is_said(kitchen):
    (row,) = rows_of(Scripted(SAID), kitchen, list_variants())
    assert (row.nouns.named, row.verbs.named, row.nouns.asked) == (2, 2, 3)
    assert math.isnan(row.noun_p) and math.isnan(row.verb_p)
    assert (row.to_json()["noun_p"], row.to_json()["noun_accuracy"]) == (None, 2 / 3)
    assert row.captions[ACTIONS[0]].text == "Picks up a dish."


def test_a_failed_call_counts_neither_for_nor_against(kitchen):
    (row,) = rows_of(Scripted({**SAID, 8.0: ""}), kitchen, list_variants())
    assert (row.nouns.named, row.nouns.asked, len(row.failures)) == (2, 2, 1)
    assert row.failures == ("the model will not say",)


def test_what_was_not_asked_any_more_is_told(kitchen):
    """A server that only fails is left alone; the rest of the actions are not lost from sight."""
    captioner = Scripted(dict.fromkeys(SAID, ""))
    means = CaptionTools(captioner, limits=Limits(concurrency=1, retries=0, most_failures=1))
    many = [Stimulus("kitchen", Span(n / 8, n / 8 + 1), "tap", "cut") for n in range(16)]
    captioner.says = {each.time: "" for each in many}
    (row,) = compare(many, {"kitchen": kitchen}, list_variants(), means, nouns=NOUNS, verbs=VERBS)
    assert len(captioner.seen) < 16 == len(row.failures)
    assert "stopped: " in row.failures[-1] and "the model will not say" in row.failures[-1]


def test_a_frame_that_cannot_be_decoded_is_a_failed_call(kitchen):
    def crop(frame: Frame) -> Frame:
        if frame.time > 6.0:
            raise UnreadableFile("a hole in the file")
        return frame

    _, row = rows_of(Scripted(SAID), kitchen, list_variants(["hands"]), crop=crop)
    assert (row.nouns.asked, row.failures) == (2, ("a hole in the file",))


def test_the_middle_of_the_action_is_shown_within_its_window(kitchen):
    captioner = Scripted(SAID)
    rows_of(captioner, kitchen, list_variants())
    assert sorted(request.times for request in captioner.seen) == [(2.0,), (5.0,), (8.0,)]
    assert sorted(request.span for request in captioner.seen)[1] == Span(3.0, 7.0)


def test_tokens_are_swept_and_smaller_pictures_cost_less(kitchen):
    full, small = rows_of(Scripted(SAID), kitchen, list_variants([4, 64], base=64))
    assert [row.variant.name for row in (full, small)] == ["full frame", "4 tokens"]
    assert small.prompt_tokens < full.prompt_tokens
    assert (small.noun_p, small.verb_p) == (1.0, 1.0)


def test_the_hand_crop_shows_the_crop_or_says_it_did_not(kitchen):
    captioner, cut = Scripted(SAID), np.zeros((32, 64, 3), np.uint8)
    crop = lambda frame: Frame(0.0, cut) if frame.time < 6 else None  # noqa: E731
    _, hands = rows_of(captioner, kitchen, list_variants(["hands"]), crop=crop)
    assert hands.uncropped == 1
    shown = sorted((r.times[0], r.frames[0].rgb.shape[:2]) for r in captioner.seen[3:])
    assert shown == [(2.0, (32, 64)), (5.0, (32, 64)), (8.0, (96, 160))]
    assert len({request.identity for request in captioner.seen}) == 6


def test_sounds_are_told_in_the_prompt_of_that_variant_alone(kitchen):
    captioner = Scripted(SAID)
    tags = lambda _, spans: [("Water tap, faucet", "Cutlery")] * len(spans)  # noqa: E731
    rows_of(captioner, kitchen, list_variants(["sounds"]), tags=tags)
    told = [bool(re.search("Water tap", request.prompt)) for request in captioner.seen]
    assert told == [False] * 3 + [True] * 3


def test_every_stimulus_needs_its_recording():
    with pytest.raises(AnnotationError, match="no media for kitchen"):
        compare(
            ACTIONS, {}, list_variants(), CaptionTools(Scripted(SAID)), nouns=NOUNS, verbs=VERBS
        )


def test_actions_around_one_moment_are_one_question(kitchen):
    """And each of them is judged by the answer."""
    twin = Stimulus("kitchen", ACTIONS[0].span, "knife", "cut")
    captioner = Scripted(SAID)
    (row,) = compare(
        [ACTIONS[0], twin],
        {"kitchen": kitchen},
        list_variants(),
        CaptionTools(captioner, limits=LIMITS),
        nouns=NOUNS,
        verbs=VERBS,
    )
    assert len(captioner.seen) == 1
    assert (row.nouns.named, row.nouns.asked) == (1, 2)
    assert row.captions[twin] == row.captions[ACTIONS[0]]


def test_what_is_missing_is_found_before_the_first_call(kitchen, tmp_path):
    def no_weights(_frame):
        raise EarmarkError("no weights")

    captioner = Scripted(SAID)
    with pytest.raises(EarmarkError, match="no weights"):
        rows_of(captioner, kitchen, list_variants(["hands"]), crop=no_weights)
    make_video(tmp_path / "kitchen.mp4", duration=12.0, has_audio=False)
    mute = open_recording(find([str(tmp_path / "kitchen.mp4")])[0])
    with pytest.raises(NoAudioStream, match="kitchen has no audio stream, so no sounds can be"):
        rows_of(captioner, mute, list_variants(["sounds"]), tags=lambda *_: [])
    assert captioner.seen == []


@pytest.mark.parametrize("span", [Span(11.0, 15.0), Span(14.0, 15.0)])
def test_an_action_outside_its_recording_is_refused(kitchen, span):
    late, captioner = Stimulus("kitchen", span, "plate", "take"), Scripted(SAID)
    with pytest.raises(AnnotationError, match=r"1[14]-15 s lies outside the recording, .* 12 s"):
        compare(
            [*ACTIONS, late],
            {"kitchen": kitchen},
            list_variants(),
            CaptionTools(captioner),
            nouns=NOUNS,
            verbs=VERBS,
        )
    assert captioner.seen == []


class TestKept:
    def test_a_stopped_comparison_goes_on_where_it_was(self, kitchen, tmp_path):
        path, ways = tmp_path / "said.jsonl", list_variants([4], base=64)
        moody = Scripted({**SAID, 8.0: ""})
        first = rows_of(moody, kitchen, ways, log=CaptionLog.open(path))
        assert [len(row.failures) for row in first] == [1, 1]
        better = Scripted(SAID)
        again = rows_of(better, kitchen, ways, log=CaptionLog.open(path))
        assert sorted(request.times for request in better.seen) == [(8.0,), (8.0,)]
        whole = rows_of(Scripted(SAID), kitchen, ways)
        assert [row.captions for row in again] == [row.captions for row in whole]
        assert again[1].noun_p == whole[1].noun_p

    def test_a_line_cut_off_half_way_is_asked_for_again(self, kitchen, tmp_path):
        path = tmp_path / "said.jsonl"
        rows_of(Scripted(SAID), kitchen, list_variants(), log=CaptionLog.open(path))
        path.write_bytes(path.read_bytes()[:-20])
        captioner = Scripted(SAID)
        (row,) = rows_of(captioner, kitchen, list_variants(), log=CaptionLog.open(path))
        assert len(captioner.seen) == 1 and row.nouns.asked == 3
        assert len(path.read_text().splitlines()) == 3

    def test_a_frame_shown_whole_is_remembered(self, kitchen, tmp_path):
        path = tmp_path / "said.jsonl"
        for _ in range(2):
            _, hands = rows_of(
                Scripted(SAID),
                kitchen,
                list_variants(["hands"]),
                crop=lambda _: None,
                log=CaptionLog.open(path),
            )
            assert hands.uncropped == 3

    @pytest.mark.parametrize("text", ["notes\n", '{"text": "a"}\n', "[1]\n"])
    def test_another_file_is_left_alone(self, tmp_path, text):
        path = tmp_path / "said.jsonl"
        path.write_text(text)
        with pytest.raises(EarmarkError, match=r"said.jsonl holds something else than captions"):
            CaptionLog.open(path)
        assert path.read_text() == text

    def test_a_place_that_cannot_be_written_is_said(self, tmp_path):
        with pytest.raises(EarmarkError, match="captions cannot be kept in"):
            CaptionLog.open(tmp_path)


def test_a_difference_is_tested_on_the_pairs_both_answered():
    """Ten stimuli named by the first alone, none by the second alone: p = 2 / 2**10."""
    many = [Stimulus("kitchen", Span(n, n + 1), "plate", "take") for n in range(12)]
    p = compare_named(dict.fromkeys(many[:10], True), dict.fromkeys(many, False))
    assert p == pytest.approx(2 / 2**10)


def test_the_server_is_asked_once_a_moment_and_variant(kitchen):
    with fault_server("500", then="ok:A hand takes a plate.") as server:
        rows = compare(
            ACTIONS,
            {"kitchen": kitchen},
            list_variants([16]),
            CaptionTools(
                OpenAICaptioner(server.url, MODEL), limits=Limits(concurrency=1, retries=0)
            ),
            nouns=NOUNS,
            verbs=VERBS,
        )
        assert server.count() == 6
    assert [(row.nouns.named, row.nouns.asked, len(row.failures)) for row in rows] == [
        (0, 2, 1),
        (1, 3, 0),
    ]
    assert rows[1].noun_p == 1.0


TABLE = """narration_id,video_id,start_timestamp,stop_timestamp,verb,noun
a_0,kitchen,00:00:01.00,00:00:03.00,pick-up,dish
a_1,kitchen,00:00:04.00,00:00:06.00,turn-on,tap
b_0,garden,00:00:04.00,00:00:06.00,mow,lawn
"""


def test_words_are_brought_to_their_classes(tmp_path):
    path = tmp_path / "actions.csv"
    path.write_text(TABLE)
    read = read_stimuli(path, nouns=NOUNS, verbs=VERBS)
    assert read[0] == ACTIONS[0]
    assert (read[2].noun, read[2].verb) == ("lawn", "mow")
    assert find_class("tap:water", NOUNS) == "tap"
    path.write_text(TABLE + "a_2,kitchen,00:00:07.00,00:00:08.00,,\n")
    assert read_stimuli(path, nouns=NOUNS, verbs=VERBS) == read, "blanks cannot be named"
    with pytest.raises(AnnotationError, match=r"cannot read .*none.csv"):
        read_stimuli(tmp_path / "none.csv", nouns=NOUNS, verbs=VERBS)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("recording,start,end,noun\na,1,2,cup\n", "line 2: an action needs"),
        ("recording,start,end,noun,verb\na,soon,2,cup,take\n", "line 2: an action needs"),
        ("recording,start,end,noun,verb\na,3,2,cup,take\n", "cannot end before"),
        ("recording,start,end,noun,verb\n", "marks no action"),
    ],
)
def test_a_bad_table_is_one_clear_line(tmp_path, text, complaint):
    path = tmp_path / "actions.csv"
    path.write_text(text)
    with pytest.raises(AnnotationError, match=complaint):
        read_stimuli(path, nouns=NOUNS, verbs=VERBS)


def test_a_draw_is_the_same_for_the_same_seed_and_never_more_than_there_are():
    many = [Stimulus("r", Span(n, n + 1), "plate", "take") for n in range(50)]
    assert (
        draw_stimuli(many, 10, seed=1)
        == draw_stimuli(many, 10, seed=1)
        != draw_stimuli(many, 10, seed=2)
    )
    assert draw_stimuli(many, 99) == many
    assert len(set(draw_stimuli(many, 10))) == 10


def test_the_command_prints_a_row_a_variant(kitchen, tmp_path, capsys):
    (tmp_path / "actions.csv").write_text(TABLE)
    for name, vocabulary in (("nouns", NOUNS), ("verbs", VERBS)):
        lines = [f'{key},"{list(ways)}"' for key, ways in vocabulary.phrases.items()]
        (tmp_path / f"{name}.csv").write_text("key,instances\n" + "\n".join(lines) + "\n")
    kept = tmp_path / "said.jsonl"
    with fault_server(then="ok:A hand takes a plate.") as server:
        captions(
            actions=tmp_path / "actions.csv",
            media=[str(Path(kitchen.source.uris[0]))],
            nouns=tmp_path / "nouns.csv",
            verbs=tmp_path / "verbs.csv",
            model=[f"{server.url}#{MODEL}"],
            variants="64",
            log=kept,
            format=Format.json,
        )
    full, small = json.loads(capsys.readouterr().out)
    assert (full["answered"], full["nouns_named"], full["verbs_named"]) == (2, 1, 1)
    assert (small["tokens"], small["noun_p"]) == (64, 1.0)
    assert len(kept.read_text().splitlines()) == 4


def test_media_that_no_action_is_about_are_left_alone(kitchen, tmp_path):
    """Another file of the folder may be broken: it is not opened."""
    (tmp_path / "actions.csv").write_text(TABLE)
    for name in ("nouns", "verbs"):
        (tmp_path / f"{name}.csv").write_text("key,instances\nplate,\"['plate']\"\n")
    (tmp_path / "another.mp4").write_bytes(b"no video")
    media = (kitchen.source.uris[0], str(tmp_path / "another.mp4"))
    captioner = Scripted(dict.fromkeys((2.0, 5.0), "A plate."))
    (score,) = evaluate_captions(
        tmp_path / "actions.csv",
        media,
        CaptionTools(captioner, limits=LIMITS),
        nouns=tmp_path / "nouns.csv",
        verbs=tmp_path / "verbs.csv",
    )
    assert score.nouns.asked == 2


def test_variants_are_checked():
    for word in ("many", "0", "-5"):
        with pytest.raises(ValueError, match=f"'{word}' is no variant"):
            list_variants([word])


def test_any_number_of_models_are_compared_on_the_same_windows(kitchen, tmp_path):
    """Naming, agreement, and what a right caption costs."""
    (tmp_path / "actions.csv").write_text(TABLE)
    for name, vocabulary in (("nouns", NOUNS), ("verbs", VERBS)):
        lines = [f'{key},"{list(ways)}"' for key, ways in vocabulary.phrases.items()]
        (tmp_path / f"{name}.csv").write_text("key,instances\n" + "\n".join(lines) + "\n")
    log = CaptionLog.open(tmp_path / "answers.jsonl")
    said = {"good": "Takes a plate.", "bad": "A wall.", "other": "A plate is taken."}
    models = [Scripted(dict.fromkeys((2.0, 5.0), text), model) for model, text in said.items()]
    tools = [CaptionTools(each, limits=LIMITS, log=log) for each in models]
    words = (tmp_path / "actions.csv", [kitchen.source.uris[0]])
    known = {"nouns": tmp_path / "nouns.csv", "verbs": tmp_path / "verbs.csv"}
    scores = evaluate_captions(*words, tools, **known)
    assert [(each.model, each.nouns.named, each.nouns.asked) for each in scores] == [
        ("good", 1, 2), ("bad", 0, 2), ("other", 1, 2)
    ]  # fmt: skip
    assert [request.times for request in models[0].seen] == [each.times for each in models[1].seen]
    assert scores[0].calls_per_correct == 2 and math.isnan(scores[1].calls_per_correct)
    assert scores[0].tokens_per_correct == 2 * scores[0].prompt_tokens
    pairs = {(row[0], row[1]): row[2:] for row in agreement_table(scores).rows}
    assert pairs["good – other", "noun"][:3] == (2, 100.0, "1.00")
    assert pairs["good – bad", "noun"][:3] == (2, 50.0, "0.00") and len(pairs) == 6
    assert agreement_table(scores[:1]) is None
    assert "lexical" in captions_table(scores).note
    kept = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert {line["model"] for line in kept} == set(said) and len(kept) == 6
    with pytest.raises(ValueError, match="told apart by their names"):
        evaluate_captions(*words, [tools[0], tools[0]], **known)
