"""What a server may do wrong, and the one line that says so."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from earmark.captioning.chat_protocol import chat_body
from earmark.captioning.openai_captioner import NO_SCHEMAS, Endpoint, OpenAICaptioner, retry_after
from earmark.errors import CallRejected, CallTimeout, UnreadableAnswer
from fault_server import completion, fault_server
from stills import ask_about
from vlm_server import vlm_server

SCHEMA = {"type": "object", "required": ["action"]}


def ask(url, *, model="scripted", timeout=60.0, **options):
    captioner = OpenAICaptioner(url, model)
    return captioner(ask_about(model=model, **options), timeout=timeout)


@pytest.mark.parametrize(
    ("behaviour", "error", "complaint"),
    [
        ("429:7", CallTimeout, "answered 429: scripted"),
        ("500", CallTimeout, "answered 500: scripted"),
        ("503", CallTimeout, "answered 503"),
        ("slow:3", CallTimeout, "gave no answer in time"),
        ("cut", CallTimeout, "cannot be reached"),
        ("drop", CallTimeout, "cannot be reached"),
        ("malformed", UnreadableAnswer, "other than JSON"),
        ("html", UnreadableAnswer, "other than JSON: '<html>busy"),
        ("misshapen", UnreadableAnswer, "cannot read its model's answer.*`answer_tokens`"),
        ("empty", UnreadableAnswer, "the model answered nothing"),
        ("warm", CallRejected, r"'temperature' does not support 0.*`temperature` = server"),
        ("400", CallRejected, r"rejects the request \(400\): scripted"),
        ("401", CallRejected, r"needs a key \(401\).*OPENAI_API_KEY"),
        ("422", CallRejected, r"rejects the request \(422\)"),
    ],
)
def test_faults_are_told_apart(behaviour, error, complaint):
    with fault_server(behaviour) as server:
        with pytest.raises(error, match=complaint) as caught:
            ask(server.url, timeout=0.5 if behaviour.startswith("slow") else 60.0)
        assert "\n" not in str(caught.value)
        assert server.count() == 1  # the client asks once; retries are the caller's


def test_a_proxy_is_no_way_to_this_machine(monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with fault_server() as server:
        assert ask(server.url).text


def test_a_server_may_say_when_to_come_back():
    with fault_server("429:7") as server, pytest.raises(CallTimeout) as caught:
        ask(server.url)
    assert caught.value.retry_after == 7.0


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        (None, None),
        ("2", 2.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
        ("soon", None),
        ("nan", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header, wait):
    assert retry_after(header, now=100.0) == wait


def test_a_wrong_name_lists_the_right_ones():
    with fault_server() as server:
        with pytest.raises(CallRejected, match=r"does not serve 'qwen'; it serves scripted$"):
            ask(server.url, model="qwen")
        with pytest.raises(CallRejected, match=r"does not serve 'qwen'; it serves scripted$"):
            OpenAICaptioner(server.url, "qwen").check()


def test_a_server_that_ignores_names_is_still_checked(vlm_url):
    OpenAICaptioner(vlm_url, "tiny").check()
    with pytest.raises(CallRejected, match=r"does not serve 'huge'; it serves tiny$"):
        OpenAICaptioner(vlm_url, "huge").check()


def test_an_unreachable_server_is_one_line():
    with pytest.raises(
        CallTimeout, match=r"127.0.0.1:9/v1 cannot be reached \(.*refused"
    ) as caught:
        OpenAICaptioner("http://127.0.0.1:9", "tiny").check()
    assert "earmark doctor" in str(caught.value)


def test_an_address_is_an_address():
    with pytest.raises(ValueError, match=r"starts with http"):
        OpenAICaptioner("localhost:8000", "tiny")
    for wrong in ("http://[::1", "http://here:99999", "http://me:key@[::1", "http://me:key/s@here"):
        with pytest.raises(ValueError, match=r"is no address of a server: check") as caught:
            Endpoint(wrong)
        assert "key" not in str(caught.value)
    assert Endpoint("http://here:1").url == "http://here:1/v1"
    assert Endpoint("https://here/api/v3/").url == "https://here/api/v3"


def test_a_real_server_without_its_picture_encoder_says_so(gguf_pair):
    with (
        vlm_server(gguf_pair[0].parent, pictures=False) as url,
        pytest.raises(CallRejected, match=r"accepts no pictures with this model .*mmproj"),
    ):
        ask(url, model="tiny")


def test_not_json_where_a_schema_was_asked_keeps_its_cost():
    with (
        fault_server("ok:A hand stirs.") as server,
        pytest.raises(UnreadableAnswer, match=r"is not JSON, as the schema asks") as caught,
    ):
        ask(server.url, schema=SCHEMA)
    assert (caught.value.prompt_tokens, caught.value.completion_tokens) == (100, 10)


@pytest.mark.parametrize("text", ['{"action": "cuts"}', '```json\n{"action": "cuts"}\n```'])
def test_json_is_read_with_or_without_a_fence(text):
    with fault_server(f"ok:{text}") as server:
        assert ask(server.url, schema=SCHEMA).data == {"action": "cuts"}


@pytest.mark.parametrize(
    ("text", "complaint"), [('{"verb": "cuts"}', "lacks action"), ("[1]", "not an object")]
)
def test_json_of_another_shape_is_unreadable(text, complaint):
    with fault_server(f"ok:{text}") as server, pytest.raises(UnreadableAnswer, match=complaint):
        ask(server.url, schema=SCHEMA)


def test_a_server_with_another_name_for_the_longest_answer_is_obeyed():
    with fault_server(then="newer") as server:
        captioner = OpenAICaptioner(server.url, "scripted")
        with pytest.raises(CallTimeout, match="max_completion_tokens") as refused:
            captioner(ask_about(model="scripted"), timeout=60.0)
        assert refused.value.is_form and server.count() == 1, "one call is one request"
        for _ in range(3):
            assert captioner(ask_about(model="scripted"), timeout=60.0).text
        assert server.count() == 1 + 3


def test_a_server_that_takes_no_schema_is_asked_without_and_that_is_noted():
    with fault_server(then='free:{"action": "cuts"}') as server:
        captioner = OpenAICaptioner(server.url, "scripted")
        asked = ask_about(model="scripted", schema=SCHEMA)
        with pytest.raises(CallTimeout, match="response_format") as refused:
            captioner(asked, timeout=60.0)
        assert refused.value.is_form
        answers = [captioner(asked, timeout=60.0) for _ in range(3)]
        assert server.count() == 1 + 3
    assert [answer.data for answer in answers] == [{"action": "cuts"}] * 3
    assert {answer.note for answer in answers} == {"sent without a schema: the server refuses one"}


@pytest.mark.parametrize(
    ("words", "is_refused"),
    [
        ("'response_format' is not supported with this model", True),
        ("response_format.type: unknown value 'json_schema'", True),
        ("Invalid schema for response_format 'answer': 'required' is missing", False),
        ("Invalid value for 'response_format.json_schema.schema'", False),
        ("the prompt is too long", False),
    ],
)
def test_a_schema_that_is_not_valid_is_an_error_all_the_same(words: str, is_refused: bool):
    assert bool(NO_SCHEMAS.match(words)) == is_refused


def test_a_refusal_that_only_quotes_the_request_turns_no_schema_off():
    class Large(Endpoint):
        """Refuses one picture, and repeats the request in its reply."""

        def ask(self, *_, **content):
            if content["json"]["picture"] == "large":
                raise CallRejected(f"the picture is too large: {content['json']}")
            return content["json"]

    endpoint = Large("http://127.0.0.1:1/v1")
    asked = {"response_format": {"type": "json_schema"}}
    for kind in (CallTimeout, CallRejected):
        with pytest.raises(kind, match="too large"):
            endpoint.chat({"picture": "large", **asked}, timeout=60)
    assert endpoint.chat({"picture": "small", **asked}, timeout=60) == {"picture": "small", **asked}


def test_calls_side_by_side_each_learn_the_other_name():
    class Newer(Endpoint):
        """Refuses the old name, once both calls are under way."""

        def ask(self, *_, **content):
            if "max_tokens" in content["json"]:
                both.wait()
                raise CallRejected("Use 'max_completion_tokens' instead.")
            return content["json"]

    both = threading.Barrier(2, timeout=60)
    endpoint = Newer("http://127.0.0.1:1/v1")
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(endpoint.chat, {"max_tokens": 9}, timeout=60) for _ in range(2)]
    assert [one.exception().is_form for one in asked] == [True] * 2
    assert endpoint.chat({"max_tokens": 9}, timeout=60) == {"max_completion_tokens": 9}


@pytest.mark.parametrize("end", ["\n", "\r\n", " "])
def test_space_around_a_key_is_no_part_of_it(end):
    with fault_server(key="sk-4711") as server:
        assert Endpoint(server.url, api_key=f"sk-4711{end}").models() == ["scripted"]
    with pytest.raises(ValueError, match="contains characters that no key has") as refused:
        Endpoint("http://127.0.0.1:1", api_key="sk-47\r11")
    assert "47" not in str(refused.value)


def test_a_certificate_that_is_not_accepted_says_why(tmp_path):
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run(
        [*words, "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        why = "its certificate is not accepted: self-signed certificate"
        with pytest.raises(CallTimeout, match=why):
            Endpoint(f"https://localhost:{server.server_port}/v1").models()
        server.shutdown()


def test_latency_is_that_of_the_server():
    with fault_server(latency=0.2) as server:
        started = time.monotonic()
        answer = ask(server.url)
    assert 0.2 <= answer.latency <= time.monotonic() - started


def test_a_server_that_counts_no_tokens_is_believed():
    with fault_server("nousage") as server:
        answer = ask(server.url)
    assert answer.prompt_tokens is None and answer.completion_tokens is None


def test_the_server_learns_the_identity_of_the_call():
    with fault_server() as server:
        ask(server.url)
        (asked,) = server.asked()
    assert asked["id"] == ask_about(model="scripted").identity


def test_the_body_of_images_has_their_times_and_sizes():
    asked = chat_body(ask_about((1.0, 3.5), tokens=8, size=(640, 640), model="m"))
    first, picture, second, _, question = asked["messages"][0]["content"]
    assert (first["text"], second["text"]) == ("0:00:01.0:", "0:00:03.5:")
    assert question == {"type": "text", "text": "What is done here?"}
    head, _, data = picture["image_url"]["url"].partition(",")
    assert head == "data:image/jpeg;base64"
    assert base64.b64decode(data)[:3] == b"\xff\xd8\xff"
    assert asked["max_tokens"] == 256 and asked["temperature"] == 0.0
    assert "response_format" not in asked


def test_the_body_of_one_image_has_no_time():
    picture, question = chat_body(ask_about((1.0,), model="m"))["messages"][0]["content"]
    assert (picture["type"], question["type"]) == ("image_url", "text")


def test_an_attempt_ends_in_time_however_slowly_bytes_trickle_in():
    """A byte every tenth of a second is never late by itself; all of them would take an hour."""
    with fault_server("trickle") as server, pytest.raises(CallTimeout, match="no answer in time"):
        ask(server.url, timeout=1.0)


def test_a_deadline_is_over_when_its_attempt_is():
    with fault_server("slow:0.6", "slow:0.6", "slow:0.6") as server:
        captioner = OpenAICaptioner(server.url, "scripted")
        with pytest.raises(CallTimeout):
            captioner(ask_about(model="scripted"), timeout=0.1)
        assert captioner(ask_about(model="scripted"), timeout=60.0).text
        assert captioner(ask_about(model="scripted"), timeout=60.0).text


def test_a_body_without_end_is_not_read_to_the_end():
    with (
        fault_server("endless") as server,
        pytest.raises(UnreadableAnswer, match="more than 4 MB") as caught,
    ):
        ask(server.url, timeout=60.0)
    assert caught.value.prompt_tokens is None  # paid, who knows how much


def test_a_redirect_to_another_server_is_refused_and_sent_nothing():
    with (
        fault_server() as other,
        fault_server(f"to:{other.url}/chat/completions") as server,
        pytest.raises(
            CallRejected, match=r"redirects to http://127.0.0.1:\d+, another server"
        ) as e,
    ):
        ask(server.url)
    assert other.url.removesuffix("/v1") in str(e.value)
    with fault_server() as other, fault_server(f"to:{other.url}/chat/completions") as server:
        with pytest.raises(CallRejected):
            ask(server.url)
        assert other.count() == 0


def test_a_redirect_within_the_server_is_followed_but_not_for_ever():
    with fault_server("to:/v1/chat/completions?again", "ok") as server:
        assert ask(server.url).text
    with (
        fault_server(then="to:/v1/chat/completions") as server,
        pytest.raises(CallRejected, match="redirects again and again"),
    ):
        ask(server.url)


def test_what_is_secret_in_an_address_is_sent_and_never_said():
    with fault_server("400", "500", "html") as server:
        host = server.url.removeprefix("http://")
        url = f"http://me:hunter2@{host}?api-key=sesame"
        for error in (CallRejected, CallTimeout, UnreadableAnswer):
            with pytest.raises(error) as caught:
                ask(url)
            assert server.url in str(caught.value)
            assert "hunter2" not in str(caught.value) and "sesame" not in str(caught.value)
        assert server.count() == 3


def test_a_key_that_the_server_repeats_is_cut_out():
    said = json.dumps(completion("Authorization: Bearer $KEY"))
    wrong = json.dumps({"error": {"message": "what is $KEY?"}})
    with fault_server(f"json:{said}", f"json:{wrong}") as server:
        captioner = OpenAICaptioner(server.url, "scripted", api_key="sk-secret-1234")
        answer = captioner(ask_about(model="scripted"), timeout=60.0)
        assert answer.text == "Authorization: Bearer ***"
        with pytest.raises(UnreadableAnswer) as caught:
            captioner(ask_about(model="scripted"), timeout=60.0)
    assert "sk-secret" not in str(caught.value) and "***" in str(caught.value)


@pytest.mark.parametrize(
    "usage",
    [
        '"many"',
        "[1, 2]",
        '{"prompt_tokens": NaN, "completion_tokens": 1}',
        '{"prompt_tokens": 1e30, "completion_tokens": 1}',
        f'{{"prompt_tokens": {10**30}, "completion_tokens": 1}}',
        f'{{"prompt_tokens": {"9" * 5000}, "completion_tokens": 1}}',
        '{"prompt_tokens": -5, "completion_tokens": 1}',
        '{"prompt_tokens": true, "completion_tokens": 1}',
        '{"prompt_tokens": {"text": [7]}, "completion_tokens": 1}',
    ],
    ids=["string", "list", "nan", "float", "10^30", "long", "negative", "bool", "object"],
)
def test_odd_usage_costs_no_caption(usage):
    with fault_server(f"usage:{usage}") as server:
        answer = ask(server.url)
    assert answer.text == "A hand stirs."
    assert answer.prompt_tokens is None
    assert "usage makes no sense" in answer.note


def test_content_in_parts_is_an_answer_and_is_paid():
    parts = [{"type": "text", "text": "A hand "}, {"type": "text", "text": "stirs."}]
    with fault_server(f"json:{json.dumps(completion(parts))}") as server:
        answer = ask(server.url)
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == (
        "A hand stirs.",
        100,
        10,
    )


@pytest.mark.parametrize("content", [7, {"a": 1}, [{"type": "image"}], []])
def test_content_that_is_no_text_is_unreadable_and_paid(content):
    said = json.dumps(completion(content))
    with fault_server(f"json:{said}") as server, pytest.raises(UnreadableAnswer) as caught:
        ask(server.url)
    assert (caught.value.prompt_tokens, caught.value.completion_tokens) == (100, 10)


@pytest.mark.parametrize(
    "listed",
    [["odd", {"name": "no id"}, {"id": "good"}, None], [{"id": "good"}], [["id"], {"id": "good"}]],
)
def test_a_list_of_models_is_read_as_far_as_it_makes_sense(monkeypatch, listed):
    monkeypatch.setattr(Endpoint, "ask", lambda *_, **__: {"data": listed})
    assert Endpoint("http://127.0.0.1:9/v1").models() == ["good"]


def test_a_list_of_models_that_is_none_is_said(monkeypatch):
    monkeypatch.setattr(Endpoint, "ask", lambda *_, **__: {"data": {"id": "good"}})
    with pytest.raises(UnreadableAnswer, match="does not list models"):
        Endpoint("http://127.0.0.1:9/v1").models()


def test_of_many_models_those_with_a_name_like_it_are_told(monkeypatch):
    served = [f"model-{letter}" for letter in "abcdefghij"]
    monkeypatch.setattr(Endpoint, "models", lambda _: served)
    endpoint = Endpoint("http://127.0.0.1:9/v1")
    endpoint.check_model("model-j")
    with pytest.raises(CallRejected, match=r"it serves model-j, .* and 2 more") as caught:
        endpoint.check_model("model-jj")
    assert str(caught.value).count("model-") == 1 + 8
    monkeypatch.setattr(Endpoint, "models", lambda _: ["llava:latest"])
    endpoint.check_model("llava")
