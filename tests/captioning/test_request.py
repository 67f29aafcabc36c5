from __future__ import annotations

from dataclasses import replace

import pytest

from earmark import Span
from earmark.captioning.request import Question
from earmark.evidence.evidence_entry import MAX_QUOTED, EvidenceEntry
from stills import ask_about, image_tokens, still


def test_identity_is_known_before_frames_and_is_the_same_after():
    bare = ask_about([1.0, 2.0], frames=False)
    shown = bare.showing([still(1.0), still(2.0)])
    assert bare.identity == shown.identity
    assert len(bare.identity) == 32


def test_identity_never_changes_between_versions_of_python_or_machines(monkeypatch):
    monkeypatch.setattr("earmark.captioning.request.VERSION", "0.1.0")
    request = ask_about([1.25], frames=False, model="m", prompt="Wie heißt das?")
    assert request.identity == "5050798b73158a9519e14030dd684248"


@pytest.mark.parametrize(
    "change",
    [
        {"recording": "garden"},
        {"span": Span(4.0, 8.0)},
        {"times": (2.5,)},
        {"prompt": "What?"},
        {"model": "other"},
        {"question": Question(tokens=65)},
        {"question": Question(tokens=64, schema={"type": "object"})},
        {"question": Question(tokens=64, answer_tokens=99)},
        {"question": Question(tokens=64, temperature=None)},
    ],
)
def test_whatever_can_change_the_answer_changes_the_identity(change):
    request = ask_about([2.0], frames=False)
    assert replace(request, **change).identity != request.identity


def test_another_version_asks_again(monkeypatch):
    before = ask_about([2.0], frames=False).identity
    monkeypatch.setattr("earmark.captioning.request.VERSION", "9.9.9")
    assert ask_about([2.0], frames=False).identity != before


def test_a_hair_of_arithmetic_does_not_change_the_identity():
    exact, hair = (ask_about([time], frames=False) for time in (0.3, 0.1 + 0.2))
    assert exact.identity == hair.identity


def test_moments_are_told_apart_to_the_microsecond():
    first, same, other = (
        ask_about([time], frames=False).identity for time in (1.25, 1.2500004, 1.250001)
    )
    assert first == same != other
    spans = [Span(0.0, end) for end in (4.0, 4.0000004, 4.000001)]
    first, same, other = (ask_about([1.0], span=one, frames=False).identity for one in spans)
    assert first == same != other
    spans = [Span(start, 4.0) for start in (1.0, 1.0000004, 1.000001)]
    first, same, other = (ask_about([2.0], span=one, frames=False).identity for one in spans)
    assert first == same != other


def test_what_small_models_find_makes_another_answer_only_where_it_is_the_answer(monkeypatch):
    for model, is_another in (("tags", True), ("m1", False)):
        plain = ask_about([1.0], frames=False, model=model)
        looked = ask_about([1.0], frames=False, model=model, is_looked_at=True)
        assert (plain.identity != looked.identity) == is_another
        assert looked.most_tokens[0] == 64 + (18 + MAX_QUOTED) // 3 + 64
        assert plain.most_tokens[0] == 64 + 18 // 3 + 64
    monkeypatch.setattr("earmark.captioning.request.VERSION", "0.1.0")
    looked = ask_about([1.25], frames=False, model="tags", is_looked_at=True)
    assert looked.identity == "2a1d627eb6bfe186834f25e1b0d5bbbb", "in all versions"


def test_what_was_found_in_the_frames_follows_the_prompt():
    plain = ask_about([1.0])
    assert plain.text == plain.prompt == "What is done here?"
    assert plain.faces_blurred == 0, "none was asked for"
    found = EvidenceEntry(plain.span, "seen", "cup", 0.9, "detector")
    looked = replace(plain, evidence=(found,))
    prompt, *notes = looked.text.splitlines()
    assert (prompt, notes[-1]) == (plain.prompt, 'seen: "cup"')
    assert looked.identity == plain.identity


def test_frames_are_made_to_fit_the_allowance():
    request = ask_about([1.0, 2.0], tokens=100, size=(1280, 720))
    taken = (image_tokens(frame.width, frame.height) for frame in request.frames)
    assert sum(taken) <= 100
    assert {frame.rgb.shape for frame in request.frames} == {(160, 288, 3)}


def test_as_many_frames_as_moments():
    with pytest.raises(ValueError, match="2 moments need as many frames, not 1"):
        ask_about([1.0, 2.0], frames=False).showing([still(1.0)])
