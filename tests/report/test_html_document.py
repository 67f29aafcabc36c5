"""Pages that hold whatever they are given as text, and let nothing run but their own script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from earmark.report.report_page import assemble, embed_image, embed_json
from earmark.text_format import escape
from report_runs import HOSTILE


class Reader(HTMLParser):
    """The elements and the text of a page, as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def policy_of(page: str) -> dict[str, str]:
    (text,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    return dict(rule.strip().split(" ", 1) for rule in text.split(";"))


def test_what_is_escaped_is_read_as_it_was():
    page = assemble(HOSTILE, f"<p title='{escape(HOSTILE)}'>{escape(HOSTILE)}</p>\n", style="p {}")
    read = Reader(page)
    assert [kind for kind, _ in read.elements].count("script") == 0
    assert [held["title"] for kind, held in read.elements if kind == "p"] == [HOSTILE]
    assert read.words.count(HOSTILE) == 2  # the title, and the paragraph


def test_embedded_json_reads_back():
    value = {"a": ["</script>", "<!--", "&amp;", "\u2028", "日本"], "b": None}
    text = embed_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028") & set(text)


def test_no_data_can_end_its_element_or_be_taken_for_a_placeholder():
    page = assemble("a", "", style="b {}", script="run()", data=["{body} {data}", HOSTILE])
    assert page.count("</script>") == 2
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert json.loads(block) == ["{body} {data}", HOSTILE]


@pytest.mark.parametrize("text", [embed_json("half \ud83d"), escape("half \ud83d")])
def test_half_a_surrogate_pair_can_be_written(text: str):
    assert text.strip('"') == "half ?"
    text.encode("utf-8")


def test_the_policy_names_the_one_script_and_style_there_are():
    script, style = "draw('ü')", "p { margin: 0 }"
    policy = policy_of(assemble("a", "", style=style, script=script, data={}))
    for rule, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[rule] == f"'sha256-{digest}'"
    assert policy["default-src"] == "'none'"


def test_a_page_without_a_script_lets_none_run():
    page = assemble("a", "<p>words</p>\n", style="p {}")
    assert policy_of(page)["script-src"] == "'none'"
    assert "<script" not in page


def test_a_picture_lies_in_the_page():
    kind, _, data = embed_image(b"\x89PNG", "image/png").removeprefix("data:").partition(";base64,")
    assert (kind, base64.b64decode(data)) == ("image/png", b"\x89PNG")
