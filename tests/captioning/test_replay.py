from __future__ import annotations

import json

import pytest

from earmark import EarmarkError
from earmark.captioning.answer_files import load_replay
from earmark.errors import CallRejected, UnreadableAnswer
from stills import ask_about


@pytest.fixture
def replay(tmp_path):
    def load(*lines):
        path = tmp_path / "answers.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n\n" for line in lines))
        return load_replay(path)

    return load


def test_the_same_question_is_found_by_its_identity_first(replay):
    request = ask_about((1.0,), frames=False)
    kept = replay(
        {"recording": "kitchen", "start": 0, "end": 4, "text": "another"},
        {"identity": request.identity, "text": "this one", "model": "m", "prompt_tokens": 7},
    )
    answer = kept(request, timeout=1.0)
    assert (answer.text, answer.model, answer.prompt_tokens) == ("this one", "m", 7)


def test_a_window_is_found_by_its_place(replay):
    kept = replay({"recording": "kitchen", "start": 4.0001, "end": 8.0, "text": "cuts bread"})
    assert kept(ask_about((5.0,)), timeout=1.0).text == "cuts bread"
    with pytest.raises(CallRejected, match=r"holds no answer for kitchen at 0-4 s"):
        kept(ask_about((1.0,)), timeout=1.0)


def test_a_kept_blank_is_no_caption(replay):
    kept = replay({"recording": "kitchen", "start": 0, "end": 4, "text": " "})
    with pytest.raises(UnreadableAnswer, match="answered nothing"):
        kept(ask_about(), timeout=1.0)


def test_kept_tags_stay_tags(replay):
    kept = replay({"recording": "kitchen", "start": 0, "end": 4, "text": "", "kind": "tags"})
    assert kept(ask_about(), timeout=1.0).kind == "tags"


def test_a_schema_is_kept_to(replay):
    kept = replay({"recording": "kitchen", "start": 0, "end": 4, "text": '{"a": 1}'})
    assert kept(ask_about(schema={"type": "object"}), timeout=1.0).data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"text": "a"}\n', "line 1 lacks what an answer needs"),
        ('\n{"identity": "x"}\n', "line 2 lacks what an answer needs"),
        ('{"recording": "a", "start": "?", "end": 1, "text": "b"}', "line 1 lacks"),
        ('{"identity": "x", "text": 5}', "line 1 lacks"),
        ('{"identity": "x", "text": "a", "prompt_tokens": "7"}', "line 1 lacks"),
        ("{", "line 1 is not JSON"),
        ("[" * 100_000, "line 1 is not JSON"),
        ("[]", "line 1 is JSON but not an object"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, text, complaint):
    path = tmp_path / "answers.jsonl"
    path.write_text(text)
    with pytest.raises(EarmarkError, match=rf"answers.jsonl {complaint}"):
        load_replay(path)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"identity": "x", "text": "a"}\n', encoding="utf-8-sig")
    assert load_replay(path).answers["x"].text == "a"


def test_evidence_is_of_this_machine_and_not_replayed(replay):
    """`earmark export` writes it as text, in a field of the same name."""
    request = ask_about()
    kept = replay({"identity": request.identity, "text": "cuts", "evidence": "heard: a knife"})
    assert kept(request, timeout=1.0).evidence == ()


def test_a_line_ends_where_json_lines_do(tmp_path):
    """A model may write the line separator of Unicode, which JSON need not escape."""
    path = tmp_path / "answers.jsonl"
    said = "one\u2028two\u0085three"
    path.write_text(f'{{"identity": "x", "text": "{said}"}}\n', encoding="utf-8")
    assert load_replay(path).answers["x"].text == said


def test_an_empty_or_missing_file_is_refused(tmp_path, replay):
    with pytest.raises(EarmarkError, match="holds no answers"):
        replay().check()
    with pytest.raises(
        EarmarkError, match=r"cannot read .*none\.jsonl: No such file or directory$"
    ):
        load_replay(tmp_path / "none.jsonl")
