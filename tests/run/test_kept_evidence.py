"""What is known without a vision model: kept, replaced by its sort, carried by a merge."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark import Span
from earmark.errors import RunError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.run.merge import merge
from earmark.run.run import Run
from small_runs import PLAN, open_run


def entry(start: float, kind: str, text: str, origin: str = "m", **data) -> EvidenceEntry:
    return EvidenceEntry(Span(start, start + 2.0), kind, text, 0.5, origin, data or None)


def texts(ledger: Run, **which) -> list[str]:
    with Run(ledger.folder) as run:
        return [each.text for each in run.evidence("a", **which)]


def test_evidence_comes_back_as_it_was_in_order_of_time(tmp_path: Path):
    later, sooner = entry(8, "said", "hallo", words=[["hallo", 8.0, 8.4]]), entry(2, "heard", "Saw")
    with open_run(tmp_path) as ledger:
        ledger.keep_evidence("a", [later, sooner], kinds={"heard", "said"})
        with Run(ledger.folder) as run:
            assert list(run.evidence("a")) == [sooner, later]
            assert list(run.evidence("a", kinds={"said"})) == [later]
            assert list(run.evidence("a", within=Span(4.0, 8.0))) == []
            assert list(run.evidence("b")) == []


def test_only_what_is_of_the_same_sort_is_replaced(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        every = [entry(2, "heard", "Saw"), entry(2, "seen", "cup"), entry(8, "seen", "knife")]
        ledger.keep_evidence("a", every, kinds={"heard", "seen"})
        ledger.keep_evidence("a", [entry(2, "seen", "bowl")], kinds={"seen"}, within=Span(2, 4))
        assert texts(ledger) == ["Saw", "bowl", "knife"]
        ledger.keep_evidence("a", [entry(3, "heard", "Drill", "n")], kinds={"heard"}, origin="n")
        assert texts(ledger, kinds={"heard"}) == ["Saw", "Drill"]
        ledger.keep_evidence("a", [], kinds={"heard", "seen"})
        assert texts(ledger) == []


def test_what_was_read_is_kept_without_its_secrets(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        seen = entry(2, "read", "https://me:hunter22@host/a?token=abcdef0123")
        ledger.keep_evidence("a", [seen], kinds={"read"})
        (text,) = texts(ledger)
        assert "hunter22" not in text and "abcdef0123" not in text


def test_the_words_of_a_sentence_are_kept_as_its_text_is(tmp_path: Path):
    """Without secrets, and though a transcriber sends half of a character."""
    said = "see https://me:pw@host/ \ud83d"
    spoken = entry(8, "said", said, words=[[word, 8.0, 8.4] for word in said.split()])
    with open_run(tmp_path) as ledger:
        ledger.keep_speech("a", [spoken], by="whisper")
        with Run(ledger.folder) as run:
            (kept,) = run.evidence("a")
    assert kept.data is not None
    assert [word for word, *_ in kept.data["words"]] == kept.text.split()
    assert kept.text == "see https://host/?*** ?"


def test_a_transcript_is_kept_with_its_mark_or_not_at_all(tmp_path: Path):
    """A process that is killed in between would have it transcribed again, and paid for twice."""
    with open_run(tmp_path) as ledger:
        with ledger.writing() as database:
            database.execute(
                "CREATE TEMP TRIGGER killed BEFORE UPDATE OF transcribed_by ON recordings"
                " BEGIN SELECT RAISE(ABORT, 'killed'); END"
            )
        with pytest.raises(RunError, match="killed"):
            ledger.keep_speech("a", [entry(8, "said", "hallo")], by="whisper")
        assert texts(ledger) == []


def test_a_merge_carries_evidence_once(tmp_path: Path):
    for name in ("1", "2"):
        with open_run(tmp_path / name) as ledger:
            ledger.keep_evidence("a", [entry(2, "heard", "Saw"), entry(4, "said", name)], kinds=())
    for _ in range(2):
        merge([tmp_path / "1", tmp_path / "2"], tmp_path / "all")
    with Run(tmp_path / "all") as run:
        assert [each.text for each in run.evidence("a")] == ["Saw", "1", "2"]
        assert run.plan() == PLAN


@pytest.mark.parametrize(("kind", "confidence"), [("felt", 0.5), ("heard", 1.5), ("heard", -0.1)])
def test_evidence_of_no_known_kind_or_confidence_is_refused(kind: str, confidence: float):
    with pytest.raises(ValueError, match=r"evidence is heard|between 0 and 1"):
        EvidenceEntry(Span(0, 1), kind, "x", confidence, "m")
