from __future__ import annotations

import json

import pytest

from earmark.captioning.answer_files import read_batch, write_batch
from earmark.captioning.chat_protocol import chat_body
from fault_server import completion
from stills import ask_about


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def result(identity, text="cuts bread", *, status=200, error=None, **reply):
    answer = {**completion(text), **reply}
    return {
        "id": "batch_req_1",
        "custom_id": identity,
        "response": None if error else {"status_code": status, "body": answer},
        "error": error,
    }


def write(path, *results):
    path.write_text("".join(json.dumps(line) + "\n" for line in results))
    return path


def test_each_request_is_a_line_found_again_by_its_identity(tmp_path):
    asked = [ask_about((4.0 * n,)) for n in range(3)]
    (path,) = write_batch(iter(asked), tmp_path / "batch.jsonl")
    entries = lines(path)
    assert [entry["custom_id"] for entry in entries] == [request.identity for request in asked]
    assert {(entry["method"], entry["url"]) for entry in entries} == {
        ("POST", "/v1/chat/completions")
    }
    expected = chat_body(asked[0])
    longest = expected.pop("max_tokens")
    assert entries[0]["body"] == {**expected, "max_completion_tokens": longest}
    assert list(tmp_path.iterdir()) == [path]  # nothing half written lies about


def test_files_stay_within_the_limits_of_a_batch(tmp_path):
    asked = [ask_about((4.0 * n,)) for n in range(5)]
    by_count = write_batch(asked, tmp_path / "a.jsonl", most_requests=2)
    assert [path.name for path in by_count] == ["a.jsonl", "a-2.jsonl", "a-3.jsonl"]
    assert [len(lines(path)) for path in by_count] == [2, 2, 1]
    size = len(by_count[2].read_bytes())
    by_size = write_batch(asked, tmp_path / "b.jsonl", most_bytes=2 * size + size // 2)
    assert [len(lines(path)) for path in by_size] == [2, 2, 1]
    assert all(path.stat().st_size <= 2 * size + size // 2 for path in by_size)
    exact = write_batch(asked, tmp_path / "c.jsonl", most_bytes=by_size[0].stat().st_size)
    assert len(lines(exact[0])) == 2, "filled to the last byte"


def test_one_request_larger_than_the_limit_still_has_its_file(tmp_path):
    paths = write_batch([ask_about(), ask_about((5.0,))], tmp_path / "a.jsonl", most_bytes=10)
    assert [len(lines(path)) for path in paths] == [1, 1]


def test_a_batch_that_is_cut_short_leaves_nothing_behind(tmp_path):
    def cut():
        yield ask_about()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_batch(cut(), tmp_path / "sent" / "a.jsonl")
    assert list((tmp_path / "sent").iterdir()) == []


def test_nothing_to_ask_is_no_file(tmp_path):
    assert write_batch([], tmp_path / "a.jsonl") == [] and not list(tmp_path.iterdir())


def test_every_request_is_answered_failed_or_missing(tmp_path):
    asked = [ask_about((4.0 * n,), frames=False) for n in range(6)]
    ids = [request.identity for request in asked]
    refused = {"error": {"message": "too large"}}
    done = write(
        tmp_path / "output.jsonl",
        result(ids[0]),
        {"custom_id": ids[1], "response": {"status_code": 400, "body": refused}},
        result(ids[2], text=""),
        result("stranger"),
    )
    failed = write(
        tmp_path / "errors.jsonl",
        result(ids[3], error={"code": "batch_expired", "message": "expired"}),
        result(ids[0], error={"message": "a late complaint"}),
        {"custom_id": ids[4], "response": {"status_code": 500, "body": None}},
    )
    outcomes, unknown, _ = read_batch([done, failed], dict(zip(ids, asked, strict=True)))
    assert list(outcomes) == ids[:5] and unknown == 1
    assert (outcomes[ids[0]].text, outcomes[ids[0]].prompt_tokens) == ("cuts bread", 100)
    assert outcomes[ids[1]] == "the batch answered 400: too large"
    assert "answered nothing" in outcomes[ids[2]]
    assert "expired" in outcomes[ids[3]]
    assert outcomes[ids[4]] == "the batch answered 500: no reason given"


@pytest.mark.parametrize(
    "response",
    [["a"], "a", {"status_code": 200, "body": "a"}, {"status_code": 400, "body": ["a"]}],
)
def test_a_result_of_another_shape_is_a_failure(tmp_path, response):
    asked = ask_about()
    path = write(tmp_path / "results.jsonl", {"custom_id": asked.identity, "response": response})
    outcomes, _, _ = read_batch([path], {asked.identity: asked})
    assert (
        "the batch answered" in outcomes[asked.identity] or "no answer" in outcomes[asked.identity]
    )


def test_json_answers_are_read_by_their_schema(tmp_path):
    request = ask_about(frames=False, schema={"type": "object"})
    path = write(tmp_path / "output.jsonl", result(request.identity, '{"action": "cuts"}'))
    outcomes, _, _ = read_batch([path], {request.identity: request})
    assert outcomes[request.identity].data == {"action": "cuts"}


def test_a_line_that_cannot_be_read_is_named_and_the_others_count(tmp_path):
    asked = [ask_about((4.0 * n,)) for n in range(2)]
    path = write(tmp_path / "results.jsonl", *(result(one.identity) for one in asked))
    first, second = path.read_text().splitlines()
    nested = "[" * 100_000
    path.write_text(f"\ufeff{first}\n{nested}\n7\n\ufeff{second}\n{second[:40]}", "utf-8")
    outcomes, unknown, damaged = read_batch([path], {one.identity: one for one in asked})
    assert (list(outcomes), unknown) == ([one.identity for one in asked], 0)
    assert [words.partition(" is ")[0] for words in damaged] == [
        f"results.jsonl line {number}" for number in (2, 3, 5)
    ]
