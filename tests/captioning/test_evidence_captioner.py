from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np

from earmark import Span
from earmark.captioning.captioner import EvidenceCaptioner, TagsCaptioner
from earmark.captioning.chat_protocol import chat_body
from earmark.captioning.request import Question, Request
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.picture_evidence import PictureEvidence, picture_evidence
from earmark.media import Frame
from earmark.models import ModelStore

REQUEST = Request("a", Span(4.0, 8.0), (5.0,), "What is done?", "m", Question(), tags=("Hammer",))


class Sees:
    kind, name = "seen", "eyes"

    def __call__(self, frames, span):
        return [EvidenceEntry(span, "seen", f"{len(frames)} frames", 0.9, self.name)]


def shown(request: Request) -> Request:
    return request.showing([Frame(5.0, np.zeros((64, 64, 3), np.uint8))])


def test_what_is_found_in_the_frames_goes_with_the_answer_and_to_the_captioner():
    captioner = pickle.loads(
        pickle.dumps(EvidenceCaptioner(TagsCaptioner(), PictureEvidence((Sees(),))))
    )
    captioner.check()
    assert (captioner.model, captioner.at_once) == ("tags", None)
    answer = captioner(shown(REQUEST), timeout=1.0)
    assert answer.text == "Hammer, 1 frames" and answer.kind == "tags"
    assert [(one.kind, one.text, one.span) for one in answer.evidence] == [
        ("seen", "1 frames", REQUEST.span)
    ]


def test_evidence_is_in_what_is_sent_and_not_in_the_identity():
    evidence = tuple(Sees()([1], REQUEST.span))
    told = replace(shown(REQUEST), evidence=evidence, question=Question(is_looked_at=True))
    assert told.identity == REQUEST.identity
    (message,) = chat_body(told)["messages"]
    assert message["content"][-1]["text"].endswith('seen: "1 frames"')
    assert told.most_tokens[0] > REQUEST.most_tokens[0]


def test_without_a_model_nothing_looks(tmp_path):
    assert picture_evidence(store=ModelStore(tmp_path)) is None
